"""Follows the committed state of a cluster's partitions: leaders, in-sync replicas, reassignments. It gets a batch of
the metadata log as soon as any node considers it committed, so no leader is ahead of it.
"""

from collections.abc import Sequence
from dataclasses import replace

from cordwood.metadata.image import LeaderRecovery
from cordwood.metadata.image import PartitionRegistration as PartitionState
from cordwood.metadata.storage.batch import MetadataBatch
from cordwood.metadata.topics_delta import merge
from cordwood.sim.histories.replicas import ReplicaHistory, StateCommitted
from cordwood.sim.partition import Partition, partition_name
from cordwood.sim.world import World
from cordwood.wire.messages.metadata_records.clear_elr_record import ClearElrRecord
from cordwood.wire.messages.metadata_records.partition_change_record import PartitionChangeRecord
from cordwood.wire.messages.metadata_records.partition_record import PartitionRecord
from cordwood.wire.messages.metadata_records.remove_topic_record import RemoveTopicRecord
from cordwood.wire.messages.metadata_records.topic_record import TopicRecord
from cordwood.wire.primitives import Uuid
from cordwood.wire.schema import MetadataRecord


class PartitionWatch:
    def __init__(self, world: World, history: ReplicaHistory) -> None:
        # The latest committed state of each partition.
        self.states: dict[Partition, PartitionState] = {}
        # Replicas that have lost acknowledged data, until the controller removes them from the in-sync set.
        self._lossy: set[tuple[int, Partition]] = set()
        self._names: dict[Uuid, str] = {}
        self.next_offset = 0
        self._world = world
        self._history = history

    def committed(self, batches: Sequence[MetadataBatch]) -> None:
        """Takes batches from any node; known ones are skipped."""
        for batch in batches:
            if batch.base_offset >= self.next_offset:
                self.next_offset = batch.next_offset
                for record in batch.records:
                    self._replay(record)

    def _replay(self, record: MetadataRecord) -> None:
        match record:
            case TopicRecord():
                self._names[record.topic_id] = record.name
            case PartitionRecord():
                state = PartitionState(
                    tuple(record.replicas),
                    tuple(record.isr),
                    record.leader,
                    record.leader_epoch,
                    record.partition_epoch,
                    (),
                    tuple(record.adding_replicas),
                    tuple(record.removing_replicas),
                    tuple(record.eligible_leader_replicas or ()),
                    tuple(record.last_known_elr or ()),
                    LeaderRecovery(record.leader_recovery_state),
                )
                self._set((self._names[record.topic_id], record.partition_id), state)
            case PartitionChangeRecord():
                partition = (self._names[record.topic_id], record.partition_id)
                self._set(partition, merge(self.states[partition], record))
            case ClearElrRecord():
                for partition, state in list(self.states.items()):
                    if record.topic_name in ("", partition[0]) and (state.elr or state.last_known_elr):
                        # It is a change of the partition like any other, with its own partition epoch.
                        epoch = state.partition_epoch + 1
                        self._set(partition, replace(state, elr=(), last_known_elr=(), partition_epoch=epoch))
            case RemoveTopicRecord():
                name = self._names[record.topic_id]
                for partition in [partition for partition in self.states if partition[0] == name]:
                    del self.states[partition]
                self._lossy = {(node_id, lost) for node_id, lost in self._lossy if lost[0] != name}

    def _set(self, partition: Partition, state: PartitionState) -> None:
        before = self.states.get(partition)
        self.states[partition] = state
        self._history.states.append(StateCommitted(self._world.loop.exact_s, partition, before, state))
        self._lossy -= {
            (node_id, lost) for node_id, lost in self._lossy if lost == partition and node_id not in _electable(state)
        }
        if before is None or (before.leader, before.leader_epoch) != (state.leader, state.leader_epoch):
            leader = f"node{state.leader} leads epoch {state.leader_epoch}" if state.leader >= 0 else "nobody leads"
            self._world.trace.note("partition", partition_name(partition), leader, f"in sync: {_listed(state.isr)}")
        elif before.isr != state.isr:
            self._world.trace.note("isr", partition_name(partition), f"in sync: {_listed(state.isr)}")
        if before is not None and before.replicas != state.replicas:
            adding = f"adding {_listed(state.adding_replicas)}" if state.adding_replicas else None
            removing = f"removing {_listed(state.removing_replicas)}" if state.removing_replicas else None
            self._world.trace.note("replicas", partition_name(partition), _listed(state.replicas), adding, removing)

    # Permitted losses

    def loses_data(self, node_id: int) -> None:
        """A broker's disk is about to lose its contents, or a part of them."""
        self._lossy |= {(node_id, partition) for partition, state in self.states.items() if node_id in state.replicas}

    @property
    def lossy_nodes(self) -> set[int]:
        return {node_id for node_id, _ in self._lossy}

    def is_spared(self, node_id: int, alive: set[int]) -> bool:
        """Returns whether nothing acknowledged would be lost with this broker's disk: a live broker has all committed
        records of each of its partitions."""
        return all(
            any(other != node_id and other in alive and (other, partition) not in self._lossy for other in _safe(state))
            for partition, state in self.states.items()
            if node_id in state.replicas
        )


def _safe(state: PartitionState) -> tuple[int, ...]:
    """The replicas with all committed records (KIP-966)."""
    return (*state.isr, *state.elr)


def _electable(state: PartitionState) -> tuple[int, ...]:
    """Returns the replicas that may lead next. If none has all committed records, the last leader may, whatever it has
    lost; it is known from when the in-sync set becomes empty until the next election (KIP-966)."""
    return (*_safe(state), *state.last_known_elr)


def _listed(nodes: tuple[int, ...]) -> str:
    return ", ".join(map(str, nodes)) or "nobody"
