"""Looks at the replicas of a cluster's partitions from outside, again and again: leaders, and contents."""

import asyncio
from collections.abc import Iterator

from cordwood.log.log import Log
from cordwood.replica.partition import Partition as Replica
from cordwood.runtime.disk import DiskError
from cordwood.wire.batch_header import batch_headers

from .client import Run
from .partition import Partition
from .quorum_history import Batch
from .replica_history import Led

_LOOK_S = 0.05
# Comparing whole logs takes its time.
_COMPARISONS = 20


class ReplicaWatch:
    def __init__(self, run: Run) -> None:
        assert run.cluster is not None
        self._run = run
        self._brokers = run.cluster.brokers
        self._history = run.history.replicas
        self._last: dict[Partition, Led] = {}

    async def work(self) -> None:
        looks = 0
        while not self._run.is_over:
            await asyncio.sleep(_LOOK_S)
            looks += 1
            for partition in self._run.partitions:
                self._look(partition)
                if looks % _COMPARISONS == 0:
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
        for node_id, replica in self.replicas(partition):
            if replica.leader is None:
                continue
            led = Led(
                self._run.now_s,
                node_id,
                self._brokers[node_id].incarnation,
                partition,
                replica.state.leader_epoch,
                replica.leader.high_watermark,
            )
            self._history.led.append(led)

    def compare(self, partition: Partition) -> None:
        """All replicas that the newest leader counts as in sync have what both say is committed."""
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
                # The fault that was to befall the node has met this read.
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
