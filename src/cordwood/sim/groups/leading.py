"""The leader of a classic group: from its members' subscriptions to assignments, in the clients' format."""

import struct
from collections.abc import Sequence

from cordwood.sim.clients.client import by_topic
from cordwood.sim.partition import Partition
from cordwood.wire.codec import decode, encode
from cordwood.wire.messages.data.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from cordwood.wire.messages.data.consumer_protocol_subscription import ConsumerProtocolSubscription
from cordwood.wire.messages.data.consumer_protocol_subscription import TopicPartition as OwnedPartitions
from cordwood.wire.messages.join_group import JoinGroupResponse

# Both begin with the version that the rest is in.
_VERSION = struct.Struct(">h")


def encode_subscription(topics: Sequence[str], owned: list[Partition], generation: int, version: int) -> bytes:
    subscription = ConsumerProtocolSubscription(
        topics=list(topics),
        owned_partitions=[OwnedPartitions(topic=topic, partitions=indexes) for topic, indexes in by_topic(owned)],
        generation_id=generation,
    )
    return _VERSION.pack(version) + encode(subscription, version)


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
    """Assigns in turn to the members that subscribe to the topic."""
    topics_of = {member: set(_decode(subscription).topics) for member, subscription in subscriptions.items()}
    assigned: dict[str, list[Partition]] = {member: [] for member in sorted(subscriptions)}
    for partition in sorted(partitions):
        wanting = [member for member in assigned if partition[0] in topics_of[member]]
        if wanting:
            assigned[min(wanting, key=lambda member: len(assigned[member]))].append(partition)
    return assigned


def without_what_others_have(
    subscriptions: dict[str, bytes], assigned: dict[str, list[Partition]]
) -> dict[str, list[Partition]]:
    """Former owners release a partition first. Of two claims, the one of the later generation wins."""
    owners: dict[Partition, tuple[int, str]] = {}
    for member, encoded in subscriptions.items():
        subscription = _decode(encoded)
        for topic in subscription.owned_partitions:
            for index in topic.partitions:
                claim = (subscription.generation_id, member)
                owners[topic.topic, index] = max(claim, owners.get((topic.topic, index), claim))
    return {
        member: [partition for partition in some if owners.get(partition, (0, member))[1] == member]
        for member, some in assigned.items()
    }


def may_not_know(generation: int, joined: JoinGroupResponse, instance_id: str | None) -> bool:
    """Returns whether a member of this generation may have missed an assignment, so that others may have owned its
    partitions. A dynamic member that misses a rebalance is removed; and in a group without a leader the coordinator
    knows what each member owns, however many epochs it has missed."""
    is_next = joined.generation_id in (generation, generation + 1)
    return not is_next and (instance_id is not None or bool(joined.leader))


def _decode(subscription: bytes) -> ConsumerProtocolSubscription:
    (version,) = _VERSION.unpack_from(subscription)
    return decode(ConsumerProtocolSubscription, version, subscription[_VERSION.size :], strict=False)
