"""The figures of a controller that Kafka's controllers report, as plain values. Every controller has them, active or
not, from the metadata that is committed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from cordwood.metadata.image import NO_LEADER, Topics

from .controller import Controller

# Topics processed per turn of the loop: about a millisecond.
_PER_TURN = 500


@dataclass(frozen=True, slots=True)
class PartitionFigures:
    partitions: int = 0
    offline: int = 0
    # Led by another replica than the first one.
    not_preferred: int = 0


@dataclass(frozen=True, slots=True)
class ControllerFigures:
    """By Kafka's names."""

    active_controller_count: int
    active_broker_count: int
    fenced_broker_count: int
    controlled_shutdown_broker_count: int
    global_topic_count: int
    global_partition_count: int
    offline_partitions_count: int
    preferred_replica_imbalance_count: int
    last_applied_record_offset: int
    last_committed_record_offset: int
    # Since the node started.
    new_active_controllers_count: int
    timed_out_broker_heartbeat_count: int
    leader_elections: int
    leader_election_time_ms: float
    unclean_leader_elections: int
    elections_from_eligible_leader_replicas: int


class FiguresReader:
    """Counts partitions again only when topics have changed."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._counted: tuple[Topics, PartitionFigures] | None = None

    async def read(self) -> ControllerFigures:
        controller = self._controller
        image = controller.image
        partitions = await self._partitions(image.topics)
        brokers = image.brokers.values()
        counts = controller.counts
        return ControllerFigures(
            active_controller_count=int(controller.is_active),
            active_broker_count=sum(not broker.fenced for broker in brokers),
            fenced_broker_count=sum(broker.fenced for broker in brokers),
            controlled_shutdown_broker_count=sum(broker.in_controlled_shutdown for broker in brokers),
            global_topic_count=len(image.topics),
            global_partition_count=partitions.partitions,
            offline_partitions_count=partitions.offline,
            preferred_replica_imbalance_count=partitions.not_preferred,
            last_applied_record_offset=image.covers.offset - 1,
            last_committed_record_offset=controller.log.high_watermark - 1,
            new_active_controllers_count=counts.activations,
            timed_out_broker_heartbeat_count=counts.timed_out_brokers,
            leader_elections=counts.elections,
            leader_election_time_ms=counts.election_time_ms,
            unclean_leader_elections=counts.unclean_elections,
            elections_from_eligible_leader_replicas=counts.elr_elections,
        )

    async def _partitions(self, topics: Topics) -> PartitionFigures:
        if self._counted is None or self._counted[0] is not topics:
            partitions = offline = not_preferred = 0
            for number, topic in enumerate(topics):
                if number % _PER_TURN == _PER_TURN - 1:
                    await asyncio.sleep(0)
                for partition in topic.partitions.values():
                    partitions += 1
                    offline += partition.leader == NO_LEADER
                    not_preferred += partition.leader != partition.preferred_replica
            self._counted = (topics, PartitionFigures(partitions, offline, not_preferred))
        return self._counted[1]
