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
    """DecodeError if it is none."""
    return decode(ConsumerProtocolSubscription, _version(metadata), metadata[_VERSION_BYTES:], strict=False)


def read_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """DecodeError if it is none."""
    return decode(ConsumerProtocolAssignment, _version(assignment), assignment[_VERSION_BYTES:], strict=False)


def write_subscription(topic_names: Iterable[str]) -> bytes:
    """For a member that never said it this way."""
    message = ConsumerProtocolSubscription(topics=sorted(topic_names))
    return _OLDEST.to_bytes(_VERSION_BYTES) + encode(message, _OLDEST)


def write_assignment(partitions: MemberPartitions, topics: Topics, subscription: bytes) -> bytes:
    """In the version of the member's subscription. Topics that are gone are left out."""
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
    """Later versions begin as the latest that is known does."""
    return min(max(int.from_bytes(data[:_VERSION_BYTES], signed=True), 0), _LATEST)
