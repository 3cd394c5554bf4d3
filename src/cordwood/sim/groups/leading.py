"""What the leader of a classic group does: from its members' subscriptions to assignments, in the clients' format."""

import struct
from collections.abc import Sequence

from cordwood.sim.client import by_topic
from cordwood.sim.partition import Partition
from cordwood.wire.codec import decode, encode
from cordwood.wire.messages.data.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from cordwood.wire.messages.data.consumer_protocol_subscription import ConsumerProtocolSubscription

# Both begin with the version that the rest is in.
_VERSION = struct.Struct(">h")


def encode_subscription(topics: Sequence[str], version: int) -> bytes:
    return _VERSION.pack(version) + encode(ConsumerProtocolSubscription(topics=list(topics)), version)


def encode_assignment(partitions: list[Partition], version: int = 0) -> bytes:
    assigned = [TopicPartition(topic=topic, partitions=indexes) for topic, indexes in by_topic(partitions)]
    return _VERSION.pack(version) + encode(ConsumerProtocolAssignment(assigned_partitions=assigned), version)


def decode_assignment(data: bytes) -> list[Partition]:
    if not data:
        return []
    (version,) = _VERSION.unpack_from(data)
    assignment = decode(ConsumerProtocolAssignment, version, data[_VERSION.size :])
    return [(topic.topic, index) for topic in assignment.assigned_partitions for index in topic.partitions]


def assign(subscriptions: dict[str, bytes], partitions: list[Partition]) -> dict[str, list[Partition]]:
    """In turns, to those who want the topic."""
    topics_of = {member: set(_topics(subscription)) for member, subscription in subscriptions.items()}
    assigned: dict[str, list[Partition]] = {member: [] for member in sorted(subscriptions)}
    for partition in sorted(partitions):
        wanting = [member for member in assigned if partition[0] in topics_of[member]]
        if wanting:
            assigned[min(wanting, key=lambda member: len(assigned[member]))].append(partition)
    return assigned


def _topics(subscription: bytes) -> list[str]:
    (version,) = _VERSION.unpack_from(subscription)
    return decode(ConsumerProtocolSubscription, version, subscription[_VERSION.size :], strict=False).topics
