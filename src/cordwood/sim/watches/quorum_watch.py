"""Watches the members of a cluster's metadata quorum from outside: the leader of each epoch, and the batches that each
one commits."""

from collections.abc import Sequence

from cordwood.metadata.image import OffsetAndEpoch
from cordwood.metadata.storage.batch import MetadataBatch
from cordwood.metadata.storage.snapshot import Snapshot
from cordwood.quorum.member import Member
from cordwood.raft.exceptions import InconsistentQuorum
from cordwood.raft.states import Leader
from cordwood.sim.cluster import Cluster
from cordwood.sim.histories.quorum import Batch, Commit, Election, EpochSeen, QuorumHistory, Reset
from cordwood.sim.machine import Machine

from .partition_watch import PartitionWatch


class QuorumWatch:
    """See `QuorumWatcher`. Its observations go into the history."""

    def __init__(self, cluster: Cluster, history: QuorumHistory, partitions: PartitionWatch | None = None) -> None:
        """`partitions` gets committed batches, too."""
        self._world = cluster.world
        self._history = history
        self._partitions = partitions
        self._node_ids = {machine.name: node_id for node_id, machine in cluster.machines.items()}
        self._epochs: dict[int, tuple[int, int]] = {}
        # The epoch that each node led last.
        self._led: dict[int, int] = {}
        for machine in cluster.machines.values():
            machine.watcher = self

    def member_starts(self, machine: Machine, member: Member) -> None:
        node_id, incarnation = self._node_ids[machine.name], machine.incarnation

        def committed(batches: Sequence[MetadataBatch]) -> None:
            if self._partitions is not None:
                self._partitions.committed(batches)
            first, end = batches[0].base_offset, batches[-1].next_offset
            self._history.commits.append(
                Commit(
                    self._world.loop.exact_s,
                    node_id,
                    incarnation,
                    member.state.epoch,
                    isinstance(member.state, Leader),
                    end,
                    tuple(map(Batch.of, member.log.headers(first, end))),
                )
            )

        def reset(snapshot_id: OffsetAndEpoch, _snapshot: Snapshot) -> None:
            at_s = self._world.loop.exact_s
            self._history.resets.append(Reset(at_s, node_id, incarnation, snapshot_id.offset))

        member.on_commit(committed)
        member.on_snapshot(reset)

    def metadata_written(self, machine: Machine) -> None:
        if machine.member is not None:
            self._look(self._node_ids[machine.name], machine.incarnation, machine.member)

    def member_failed(self, machine: Machine, error: Exception) -> None:
        if isinstance(error, InconsistentQuorum):
            self._history.failures.append(f"{self._world.loop.exact_s:.6f}: {machine.name}: {error}")

    def _look(self, node_id: int, incarnation: int, member: Member) -> None:
        state, now_s = member.state, self._world.loop.exact_s
        if self._epochs.get(node_id) != (incarnation, state.epoch):
            self._epochs[node_id] = (incarnation, state.epoch)
            self._history.epochs.append(EpochSeen(now_s, node_id, incarnation, state.epoch))
        if isinstance(state, Leader) and self._led.get(node_id) != state.epoch:
            self._led[node_id] = state.epoch
            self._world.trace.note("leads", f"node{node_id}", f"metadata epoch {state.epoch}")
            log = member.log
            batches = tuple(map(Batch.of, log.headers(log.start_offset, log.end_offset)))
            self._history.elections.append(Election(now_s, node_id, state.epoch, log.start_offset, batches))
