"""The broker of a cluster that a request is for: the leader of its partition, the coordinator of its group, or any.

A hand-written client finds the leader in the metadata of some broker, which may be outdated.
"""

from random import Random
from typing import Any

from cordwood.sim.cluster import Cluster
from cordwood.sim.machine import Machine
from cordwood.sim.partition import Partition
from cordwood.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from cordwood.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from cordwood.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from cordwood.wire.messages.delete_records import DeleteRecordsRequest
from cordwood.wire.messages.end_txn import EndTxnRequest
from cordwood.wire.messages.fetch import FetchRequest
from cordwood.wire.messages.heartbeat import HeartbeatRequest
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest
from cordwood.wire.messages.join_group import JoinGroupRequest
from cordwood.wire.messages.leave_group import LeaveGroupRequest
from cordwood.wire.messages.list_offsets import ListOffsetsRequest
from cordwood.wire.messages.offset_commit import OffsetCommitRequest
from cordwood.wire.messages.offset_fetch import OffsetFetchRequest
from cordwood.wire.messages.produce import ProduceRequest
from cordwood.wire.messages.sync_group import SyncGroupRequest
from cordwood.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from cordwood.wire.schema import Request

GROUP, TRANSACTION = 0, 1

# The type of a coordinator, and the id of the group or the transactional id.
Coordinated = tuple[int, str]


class Routes:
    """Without a cluster every answer is None: there is one node."""

    def __init__(self, cluster: Cluster | None, source: Random) -> None:
        self._cluster = cluster
        self._source = source
        self._coordinators: dict[Coordinated, Machine] = {}

    # Leaders

    def leader(self, partition: Partition) -> Machine | None:
        return self._leaders([partition]).get(partition)

    def led_together(self, partitions: list[Partition]) -> list[Partition]:
        """Those of the partitions that go into one request: they have one leader."""
        if self._cluster is None or not partitions:
            return partitions
        leaders = self._leaders(partitions)
        chosen = leaders.get(self._source.choice(partitions))
        together = [partition for partition in partitions if leaders.get(partition) is chosen]
        return together if chosen is not None else together[:1]

    def leader_for(self, request: Request[Any]) -> Machine | None:
        """The leader of the first of the partitions that the request names, if it is for a leader."""
        if self._cluster is None:
            return None
        match request:
            case ProduceRequest(topic_data=[first, *_]):
                named = (first.name, first.partition_data[0].index)
            case FetchRequest(topics=[first, *_]):
                named = (first.topic, first.partitions[0].partition)
            case ListOffsetsRequest(topics=[first, *_]):
                named = (first.name, first.partitions[0].partition_index)
            case DeleteRecordsRequest(topics=[first, *_]):
                named = (first.name, first.partitions[0].partition_index)
            case _:
                return None
        return self.leader(named)

    def _leaders(self, partitions: list[Partition]) -> dict[Partition, Machine]:
        if self._cluster is None:
            return {}
        brokers = self._cluster.brokers
        nodes = [machine.node for machine in brokers.values() if machine.is_started and machine.node is not None]
        if not nodes:
            return {}
        topics = self._source.choice(nodes).broker.image.topics
        found = {partition: topics.partition(*partition) for partition in partitions}
        return {
            partition: brokers[state.leader]
            for partition, state in found.items()
            if state is not None and state.leader in brokers
        }

    # Coordinators

    def coordinated(self, request: Request[Any]) -> Coordinated | None:
        """The coordinator that the request is for, if it is for one."""
        if self._cluster is None:
            return None
        match request:
            case (
                JoinGroupRequest()
                | SyncGroupRequest()
                | HeartbeatRequest()
                | LeaveGroupRequest()
                | ConsumerGroupHeartbeatRequest()
                | OffsetCommitRequest()
                | TxnOffsetCommitRequest()
            ):
                return GROUP, request.group_id
            case OffsetFetchRequest():
                return GROUP, request.groups[0].group_id if request.groups else request.group_id
            case InitProducerIdRequest(transactional_id=str(name)):
                return TRANSACTION, name
            case AddOffsetsToTxnRequest() | EndTxnRequest():
                return TRANSACTION, request.transactional_id
            case AddPartitionsToTxnRequest():
                return TRANSACTION, request.v3_and_below_transactional_id
        return None

    def coordinator(self, coordinated: Coordinated) -> Machine | None:
        """The one that was found before."""
        return self._coordinators.get(coordinated)

    def note_coordinator(self, coordinated: Coordinated, host: str) -> Machine | None:
        if self._cluster is None:
            return None
        found = next(machine for machine in self._cluster.brokers.values() if machine.name == host)
        self._coordinators[coordinated] = found
        return found

    def forget_coordinators(self) -> None:
        """They are looked for again."""
        self._coordinators.clear()
