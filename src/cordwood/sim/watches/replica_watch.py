"""Looks at the replicas of a cluster's partitions from outside, again and again: leaders, and contents."""

import asyncio
from collections.abc import Iterator, Mapping

from cordwood.log.log import Log
from cordwood.replica.partition import Partition as Replica
from cordwood.runtime.disk import DiskError
from cordwood.sim.clients.client import Run
from cordwood.sim.histories.quorum import Batch
from cordwood.sim.histories.replicas import Held, Led
from cordwood.sim.partition import Partition, partition_name
from cordwood.wire.batch_header import batch_headers

from .partition_watch import PartitionWatch

_LOOK_S = 0.1
# Comparing whole logs takes its time.
_COMPARISONS = 10


class ReplicaWatch:
    def __init__(self, run: Run, committed: PartitionWatch) -> None:
        assert run.cluster is not None
        self._run = run
        self._committed = committed
        self._brokers = run.cluster.brokers
        self._history = run.history.replicas
        # The log that each broker has of a partition, and how many it has had before.
        self._logs: dict[tuple[int, Partition], tuple[Log, int]] = {}

    async def work(self) -> None:
        looks = 0
        while not self._run.is_over:
            await asyncio.sleep(_LOOK_S)
            looks += 1
            for partition in list(self._committed.states):
                self._find_stale_settings(partition)
                if not self._run.history.is_loose(partition):
                    self._look(partition)
            if looks % _COMPARISONS == 0:
                for partition in self._run.partitions:
                    self.compare(partition)

    def replicas(self, partition: Partition) -> Iterator[tuple[int, Replica]]:
        """Those on brokers that run and can read them."""
        for node_id, machine in self._brokers.items():
            is_readable = all(disk.failure is None for disk in machine.disks.values())
            if machine.is_started and machine.node is not None and is_readable:
                replica = machine.node.broker.replicas.get(*partition)
                if replica is not None and replica.log is not None:
                    yield node_id, replica

    def _look(self, partition: Partition) -> None:
        replicas = dict(self.replicas(partition))
        for node_id, replica in replicas.items():
            assert replica.log is not None
            incarnation = self._brokers[node_id].incarnation
            self._history.held.append(
                Held(
                    self._run.now_s,
                    node_id,
                    incarnation,
                    partition,
                    self._number_of(node_id, partition, replica.log),
                    replica.log.high_watermark,
                    replica.state.leader_epoch,
                    replica.leader is not None,
                )
            )
            if replica.leader is None:
                continue
            led = Led(
                self._run.now_s,
                node_id,
                incarnation,
                partition,
                replica.state.leader_epoch,
                replica.leader.high_watermark,
                replica.leader.isr,
                replica.leader.partition_epoch,
            )
            self._history.led.append(led)
        self._find_shortfalls(partition, replicas)

    def _number_of(self, node_id: int, partition: Partition, log: Log) -> int:
        known, number = self._logs.get((node_id, partition), (log, 0))
        if known is not log:
            number += 1
        self._logs[node_id, partition] = (log, number)
        return number

    def _find_shortfalls(self, partition: Partition, replicas: Mapping[int, Replica]) -> None:
        """A replica in the committed in-sync set has everything that the committed leader exposes."""
        state = self._committed.states.get(partition)
        leader = None if state is None else replicas.get(state.leader)
        if state is None or leader is None or leader.leader is None or leader.leader.epoch != state.leader_epoch:
            return
        for node_id in state.isr:
            replica = replicas.get(node_id)
            if replica is None or replica.log is None:
                continue
            if replica.log.end_offset < leader.leader.high_watermark:
                self._history.shortfalls.append(
                    f"{self._run.now_s:.6f}: {partition_name(partition)} on node {node_id} ends at "
                    f"{replica.log.end_offset}; node {state.leader} leads epoch {state.leader_epoch} and shows "
                    f"{leader.leader.high_watermark}; in sync are {state.isr}"
                )

    def _find_stale_settings(self, partition: Partition) -> None:
        for node_id, replica in self.replicas(partition):
            node = self._brokers[node_id].node
            assert node is not None
            known = node.broker.topic_configs.of(partition[0])
            if replica.config != known:
                self._history.stale_settings.append(
                    f"{self._run.now_s:.6f}: {partition_name(partition)} on node {node_id} uses {replica.config}; "
                    f"its broker knows {known}"
                )

    def compare(self, partition: Partition) -> None:
        """All in-sync replicas of the newest leader have everything below both high watermarks."""
        replicas = dict(self.replicas(partition))
        leaders = [(replica.state.leader_epoch, node_id) for node_id, replica in replicas.items() if replica.leader]
        if not leaders:
            return
        epoch, leader_id = max(leaders)
        leader = replicas[leader_id]
        assert leader.leader is not None
        assert leader.log is not None
        for node_id in leader.leader.isr:
            other = replicas.get(node_id)
            if other is None or other.log is None or node_id == leader_id:
                continue
            end = min(leader.log.high_watermark, other.log.high_watermark)
            start = max(leader.log.start_offset, other.log.start_offset)
            try:
                ours, theirs = batches(leader.log, start, end), batches(other.log, start, end)
            except DiskError:
                # The injected fault of the node has hit this read.
                return
            if ours != theirs:
                differing = sorted(set(ours) ^ set(theirs))[:4]
                self._history.differences.append(
                    f"{self._run.now_s:.6f}: {partition[0]}-{partition[1]} on node {leader_id}, which leads epoch "
                    f"{epoch}, and on node {node_id}, in sync, differ below {end}: {differing}"
                )


def batches(log: Log, start: int, end: int) -> list[Batch]:
    found: list[Batch] = []
    while start < end:
        there = log.read(start, 1 << 24, end)
        if there is None:
            break
        data = there.read()
        found += [Batch.of(header) for _, header in batch_headers(data)]
        start = found[-1].next_offset
    return found
