"""The stage of a workload: one node or a cluster, with its faults.

stage = await Stage.open(run)
…                                # the clients work
judge = await stage.close(source)    # after healing; None if that failed await stage.read_everything(judge)
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from functools import partial
from random import Random
from typing import Any

from cordwood.runtime.network import NetworkError
from cordwood.sim.clients.admin import Admin
from cordwood.sim.clients.client import Run
from cordwood.sim.cluster import Layout
from cordwood.sim.cluster_faults import ClusterFaults
from cordwood.sim.faults import Faults
from cordwood.sim.histories.history import Promise
from cordwood.sim.joining_faults import JoiningFaults
from cordwood.sim.judgement import crash_and_start, produces, read_everything
from cordwood.sim.machine import Machine
from cordwood.sim.partition import Partition, partition_name
from cordwood.sim.watches.partition_watch import PartitionWatch
from cordwood.sim.watches.quorum_watch import QuorumWatch
from cordwood.sim.watches.replica_watch import ReplicaWatch
from cordwood.wire.batch_header import batch_headers
from cordwood.wire.messages.metadata import MetadataRequest
from cordwood.wire.primitives import uuid_text
from cordwood.wire.records import decode_batch

# The time in which a cluster must recover after the last fault.
HEALING_S = 60.0
# How often each is drawn.
CLUSTER_PROMISES = {Promise.REPLICATED: 7, Promise.DURABLE: 3}
_LOOK_S = 0.2
# The time until abandoned transactions are aborted. One begun by a broker with a fast clock lasts longer by the
# difference.
_MAX_ENDING_S = 100.0


def cluster_layout(source: Random) -> Layout:
    is_combined = source.random() < 0.6
    controllers = 3 if is_combined else source.choice((1, 3))
    return Layout(controllers=controllers, brokers=source.choice((3, 3, 4)), is_combined=is_combined)


def cluster_settings(source: Random) -> dict[str, str]:
    """Three replicas of everything, and short timeouts for failure detection."""
    return {
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
        "broker.session.timeout.ms": source.choice(("2000", "6000")),
        "broker.heartbeat.interval.ms": "500",
        "replica.lag.time.max.ms": source.choice(("1500", "10000")),
        "replica.fetch.wait.max.ms": source.choice(("100", "500")),
        "replica.fetch.backoff.ms": "200",
        "replica.high.watermark.checkpoint.interval.ms": source.choice(("500", "5000")),
        "log.segment.delete.delay.ms": "800",
        "log.roll.ms": source.choice(("2000", "600000")),
        "metadata.log.max.record.bytes.between.snapshots": source.choice(("3000", "20971520")),
    }


class Stage:
    def __init__(self, run: Run) -> None:
        self._run = run
        self._faults: ClusterFaults | Faults
        self._watch: ReplicaWatch | None = None
        self._work: list[Coroutine[Any, Any, None]] = []
        if run.cluster is None:
            self._faults = Faults(run)
        else:
            partitions = PartitionWatch(run.world, run.history.replicas)
            QuorumWatch(run.cluster, run.history.quorum, partitions)
            self.partitions = run.committed = partitions
            self._watch = ReplicaWatch(run, partitions)
            self._faults = ClusterFaults(run, partitions)
            self._work += [self._watch.work(), JoiningFaults(run, self._faults, self._watch).work()]
        self._work.append(self._faults.work())
        self._tasks: list[asyncio.Future[None]] = []

    @classmethod
    async def open(cls, run: Run) -> "Stage":
        stage = cls(run)
        if run.cluster is not None:
            await run.cluster.start()
        else:
            stage.begin()
        return stage

    def begin(self) -> None:
        """From here on anything may happen. A cluster is spared until its first topics are there."""
        self._tasks += [asyncio.ensure_future(one) for one in self._work]
        self._work = []

    async def close(self, source: Random) -> Admin | None:
        """Ends all faults, and waits until all nodes run. Returns None if they don't in time."""
        run = self._run
        run.is_over = True
        await asyncio.gather(*self._tasks)
        run.is_over = False
        if run.cluster is None:
            return await crash_and_start(run, source)
        assert isinstance(self._faults, ClusterFaults)
        await self._faults.heal()
        return await self._healed(self._faults)

    async def _healed(self, faults: ClusterFaults) -> Admin | None:
        run, cluster = self._run, self._run.cluster
        assert cluster is not None
        assert self._watch is not None
        healing = Healing(run)
        if not await healing.all_start(faults, cluster.machines.values()):
            return None
        judge = Admin(run, "judge")
        for partition in run.partitions:
            if not await healing.comes(partial(produces, judge, partition)):
                healing.fails(
                    f"no produce with acks=all to {partition_name(partition)} succeeds: {self._told(partition)}"
                )
                return None
        for partition in self.partitions.states:
            if not await healing.comes(partial(self._is_in_sync, partition)):
                healing.fails(f"{partition_name(partition)} is not in sync: {self._told(partition)}")
                return None
        request = MetadataRequest(topics=None)
        metadata = await judge.ask_until_answered(request, MetadataRequest.stable_versions.high)
        run.history.final_topics = {topic.name or "": uuid_text(topic.topic_id) for topic in metadata.topics}
        return judge

    async def read_everything(self, judge: Admin) -> None:
        """Once all transactions have ended."""
        if self._watch is not None:
            deadline_s = self._run.now_s + _MAX_ENDING_S
            while self._has_open_transactions() and self._run.now_s < deadline_s:
                await asyncio.sleep(1)
        if self._watch is not None:
            # Later records, such as a retry in flight, may follow those read.
            for partition in self._run.partitions:
                self._watch.compare(partition)
                self._run.history.replicas.final_offsets[partition] = self._offsets(partition)
        await read_everything(judge)

    # A cluster's partitions

    async def _is_in_sync(self, partition: Partition) -> bool:
        assert self._watch is not None
        state, replicas = self.partitions.states[partition], dict(self._watch.replicas(partition))
        leader = replicas.get(state.leader)
        if leader is None or leader.log is None or state.is_reassigning or {*state.isr} != {*state.replicas}:
            return False
        if leader.leader is None or leader.leader.epoch != state.leader_epoch:
            # It does not know of its election yet.
            return False
        end = leader.log.end_offset
        held = [replicas[node_id].log for node_id in state.replicas if node_id in replicas]
        return len(held) == len(state.replicas) and all(
            log is not None and log.high_watermark == log.end_offset == end for log in held
        )

    def _told(self, partition: Partition) -> str:
        assert self._watch is not None
        told = [f"{self.partitions.states.get(partition)}"]
        for node_id, replica in self._watch.replicas(partition):
            role = (
                f"leads with {replica.leader.isr}" if replica.leader is not None else f"follows {replica.state.leader}"
            )
            epoch = replica.state.leader_epoch
            assert replica.log is not None
            told.append(
                f"node {node_id} {role} in epoch {epoch}, {replica.log.high_watermark} of {replica.log.end_offset}"
            )
        return "; ".join(told)

    def _has_open_transactions(self) -> bool:
        assert self._watch is not None
        return any(
            replica.leader is not None
            and replica.log is not None
            and replica.log.last_stable_offset < replica.log.high_watermark
            for partition in self._run.partitions
            for _, replica in self._watch.replicas(partition)
        )

    def _offsets(self, partition: Partition) -> list[int]:
        """Those of the records that its leader has, markers among them."""
        assert self._watch is not None
        log = next(replica.log for _, replica in self._watch.replicas(partition) if replica.leader is not None)
        assert log is not None
        offsets: list[int] = []
        position = log.start_offset
        while position < log.high_watermark and (there := log.read(position, 1 << 24, log.high_watermark)) is not None:
            data = there.read()
            for at, header in batch_headers(data):
                offsets += [record.offset for record in decode_batch(data, at)]
                position = header.next_offset
        return offsets


class Healing:
    """The time in which a cluster must recover."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._deadline_s = run.now_s + HEALING_S

    async def comes(self, attempt: Callable[[], Awaitable[bool]]) -> bool:
        while self._run.now_s < self._deadline_s:
            try:
                if await attempt():
                    return True
            except NetworkError:
                pass
            await asyncio.sleep(_LOOK_S)
        return False

    async def all_start(self, faults: ClusterFaults, machines: Collection[Machine]) -> bool:
        """Starts the nodes that are down, as often as they are: one that is being stopped in order may still be up when
        all is healed, and others wait for it."""

        async def are_started() -> bool:
            for machine in machines:
                if not machine.is_up:
                    faults.start_again(machine)
            return all(machine.is_started and not machine.is_stopping for machine in machines)

        if await self.comes(are_started):
            return True
        for machine in machines:
            if not machine.is_started:
                self.fails(f"{machine.name} has not started: {machine.refusal}")
            elif machine.is_stopping:
                self.fails(f"{machine.name} has not stopped")
        return False

    def fails(self, what: str) -> None:
        self._run.history.quorum.unhealed.append(f"within {HEALING_S} s {what}")
