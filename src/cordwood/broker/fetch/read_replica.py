"""The replica that a consumer should read from (KIP-392): one in its own rack, where `replica.selector.class` is
RackAwareReplicaSelector."""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.replica.partition import Partition

_RACK_AWARE = "RackAwareReplicaSelector"


class ReadReplicaSelector:
    """Selects for the consumers of one rack on one listener."""

    __slots__ = ("_broker", "_endpoints", "_rack")

    def __init__(self, broker: Broker, rack: str, listener: str) -> None:
        self._broker = broker
        self._rack = rack
        self._endpoints = broker.endpoints(listener)

    @classmethod
    def of(cls, broker: Broker, rack: str, listener: str) -> ReadReplicaSelector | None:
        """None where all consumers read from leaders: by default, without a rack, or in the leader's own."""
        name = str(broker.config["replica.selector.class"] or "")
        if not rack or name.rpartition(".")[2] != _RACK_AWARE or broker.rack(broker.id) == rack:
            return None
        return cls(broker, rack, listener)

    def select(self, partition: Partition, fetch_offset: int) -> int | None:
        """Returns the in-sync follower that has the requested offset and is furthest ahead; None to read from the
        leader. As in Kafka, out-of-sync followers are excluded: they could lag indefinitely, and their readers with
        them."""
        leader = partition.leader
        if leader is None:
            return None
        found = [
            (follower.end_offset, follower.caught_up_ms, replica)
            for replica, follower in leader.followers.items()
            if replica in leader.isr
            and follower.start_offset <= fetch_offset <= follower.end_offset
            and replica in self._endpoints
            and self._broker.rack(replica) == self._rack
        ]
        return max(found)[2] if found else None
