"""The metadata that consumers of the classic protocol exchange through the coordinator: a two-byte version, and a
message.

In a consumer group the coordinator is the leader, and reads and writes them itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from cordwood.coordinator.groups.assignors.spec import MemberPartitions
from cordwood.metadata.image import Topics
from cordwood.wire.codec import decode, encode
from cordwood.wire.messages.consumer_group_heartbeat import RequestTopicPartitions
from cordwood.wire.messages.data.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from cordwood.wire.messages.data.consumer_protocol_subscription import ConsumerProtocolSubscription

_VERSION_BYTES = 2
_OLDEST = ConsumerProtocolSubscription.versions.low
_LATEST = ConsumerProtocolSubscription.versions.high


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Raises DecodeError if the bytes are not a subscription."""
    return decode(ConsumerProtocolSubscription, _version(metadata), metadata[_VERSION_BYTES:], strict=False)


def read_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """Raises DecodeError if the bytes are not an assignment."""
    return decode(ConsumerProtocolAssignment, _version(assignment), assignment[_VERSION_BYTES:], strict=False)


def write_subscription(topic_names: Iterable[str]) -> bytes:
    """Encodes the subscription of a member that speaks the consumer protocol."""
    message = ConsumerProtocolSubscription(topics=sorted(topic_names))
    return _OLDEST.to_bytes(_VERSION_BYTES) + encode(message, _OLDEST)


def write_assignment(partitions: MemberPartitions, topics: Topics, subscription: bytes) -> bytes:
    """Encodes in the version of the member's subscription. Leaves out deleted topics."""
    version = _version(subscription)
    assigned = [
        TopicPartition(topic=topic.name, partitions=sorted(numbers))
        for topic_id, numbers in sorted(partitions.items())
        if (topic := topics.by_id.get(topic_id)) is not None
    ]
    message = ConsumerProtocolAssignment(assigned_partitions=assigned, user_data=None)
    return version.to_bytes(_VERSION_BYTES) + encode(message, version)


def owned_partitions(subscription: ConsumerProtocolSubscription, topics: Topics) -> list[RequestTopicPartitions]:
    """The partitions that the member claims to own, in the form of a heartbeat."""
    return [
        RequestTopicPartitions(topic_id=topic_id, partitions=owned.partitions)
        for owned in subscription.owned_partitions
        if (topic_id := topics.ids.get(owned.topic)) is not None
    ]


def _version(data: bytes) -> int:
    """Reads the version, at most the latest known one: later versions start like it."""
    return min(max(int.from_bytes(data[:_VERSION_BYTES], signed=True), 0), _LATEST)
