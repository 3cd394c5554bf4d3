"""The metadata that members of a classic group exchange through the coordinator: a two-byte version, and a message."""

from collections.abc import Collection, Iterable
from typing import TypeVar

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.assignors.assignor import Assignment, Subscription
from cordwood.client.errors import BadAnswer
from cordwood.wire.codec import decode, encode
from cordwood.wire.exceptions import DecodeError
from cordwood.wire.messages.data import consumer_protocol_assignment as assignment_data
from cordwood.wire.messages.data import consumer_protocol_subscription as subscription_data
from cordwood.wire.messages.data.consumer_protocol_assignment import ConsumerProtocolAssignment
from cordwood.wire.messages.data.consumer_protocol_subscription import ConsumerProtocolSubscription
from cordwood.wire.schema import Message

PROTOCOL_TYPE = "consumer"

M = TypeVar("M", bound=Message)

_VERSION_BYTES = 2
_LATEST = ConsumerProtocolSubscription.versions.high


def write_subscription(subscription: Subscription) -> bytes:
    message = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=[
            subscription_data.TopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in _by_topic(sorted(subscription.owned_partitions))
        ],
        generation_id=subscription.generation_id,
        rack_id=subscription.rack_id,
    )
    return _LATEST.to_bytes(_VERSION_BYTES) + encode(message, _LATEST)


def read_subscription(data: bytes, group_instance_id: str | None) -> Subscription:
    """Raises `BadAnswer` if the bytes are not a subscription."""
    message = _read(ConsumerProtocolSubscription, data)
    return Subscription(
        topics=message.topics,
        user_data=message.user_data,
        owned_partitions=[
            TopicPartition(owned.topic, index) for owned in message.owned_partitions for index in owned.partitions
        ],
        generation_id=message.generation_id,
        rack_id=message.rack_id or None,
        group_instance_id=group_instance_id,
    )


def write_assignment(assignment: Assignment) -> bytes:
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            assignment_data.TopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in _by_topic(assignment.partitions)
        ],
        user_data=assignment.user_data,
    )
    return _LATEST.to_bytes(_VERSION_BYTES) + encode(message, _LATEST)


def read_assignment(data: bytes) -> Assignment:
    """Raises `BadAnswer` if the bytes are not an assignment. Some leaders leave out members without partitions, which
    then receive no bytes at all."""
    if not data:
        return Assignment([])
    message = _read(ConsumerProtocolAssignment, data)
    partitions = [
        TopicPartition(assigned.topic, index)
        for assigned in message.assigned_partitions
        for index in assigned.partitions
    ]
    return Assignment(partitions, message.user_data)


def _by_topic(partitions: Iterable[TopicPartition]) -> Collection[tuple[str, list[int]]]:
    by_topic: dict[str, list[int]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.topic, []).append(partition.partition)
    return by_topic.items()


def _read(kind: type[M], data: bytes) -> M:
    try:
        # Later versions start like the latest known one.
        version = min(max(int.from_bytes(data[:_VERSION_BYTES], signed=True), 0), _LATEST)
        return decode(kind, version, data[_VERSION_BYTES:], strict=False)
    except DecodeError as error:
        raise BadAnswer(f"a member of the group sent unreadable metadata: {error}") from error
