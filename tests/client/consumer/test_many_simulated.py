"""Whole consumers of both protocols that come, go, hang and die, while connections are lost and the node crashes.

Nothing is lost: every record is given to one of them. And a new owner does not get records committed before its
assignment.
"""

import asyncio
from random import Random
from typing import Any

import pytest

from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import CannotReachCluster, ClientError
from cordwood.sim.machine import Machine
from cordwood.sim.virtual.connection import NetworkOdds
from tests.client.group_cluster import GroupCluster, Reader, play

ODDS = NetworkOdds(loss=0.003, late_notice_s=1.0)
READERS = 3
DURATION_S = 100.0
NODE = {
    "group.consumer.session.timeout.ms": "10000",
    "group.consumer.min.session.timeout.ms": "10000",
    "group.consumer.heartbeat.interval.ms": "2000",
    "group.consumer.min.heartbeat.interval.ms": "2000",
}


class Progress:
    """The known committed offset of each partition."""

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, int] = {}
        self.commits = 0


class Worker(Reader):
    """Commits what it is through with. Its own listener."""

    progress: Progress

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self.floor = getattr(self, "floor", {}) | {
            partition: self.progress.committed.get(partition, 0) for partition in assigned
        }

    async def work(self) -> None:
        for partition, records in (await self.consumer.poll(timeout_ms=1_000)).items():
            assert records[0].offset >= self.floor[partition], (partition, records[0].offset)
            self.seen += [int(record.value or b"") for record in records]
        done = {partition: await self.consumer.position(partition) for partition in self.consumer.assignment()}
        try:
            await self.consumer.commit(done, timeout_ms=5_000)
        except ClientError:
            return
        self.progress.commits += 1
        for partition, offset in done.items():
            self.progress.committed[partition] = max(offset, self.progress.committed.get(partition, 0))


def settings(source: Random, number: int) -> dict[str, Any]:
    return {
        "group_protocol": source.choice(["consumer", "classic"]),
        "group_instance_id": f"i{number}" if source.random() < 0.3 else None,
        "partition_assignment_strategy": ("cooperative-sticky",),
        "session_timeout_ms": 10_000,
        "max_poll_interval_ms": source.choice([10_000, 30_000]),
        "request_timeout_ms": 5_000,
        "enable_auto_commit": source.random() < 0.5,
    }


async def come(cluster: GroupCluster, source: Random, progress: Progress, number: int) -> None:
    while True:
        try:
            await cluster.reader(f"r{number}", kind=Worker, progress=progress, **settings(source, number))
            return
        except CannotReachCluster:
            # At the start a client does not insist.
            await asyncio.sleep(1)


async def go(cluster: GroupCluster, source: Random) -> None:
    reader = source.choice(cluster.readers)
    match source.choice(["close", "kill", "stall"]):
        case "close":
            cluster.readers.remove(reader)
            cluster.gone.append(reader)
            await reader.close()
        case "kill":
            cluster.readers.remove(reader)
            cluster.gone.append(reader)
            await reader.kill()
        case "stall":
            await reader.stall()
            await asyncio.sleep(source.uniform(0, 40))
            reader.resume()


async def crash(node: Machine, source: Random) -> None:
    node.kill()
    await asyncio.sleep(source.uniform(0, 8))
    assert await node.start()


@pytest.mark.parametrize("seed", range(5))
def test_every_record_is_read_and_committed_ones_are_not_repeated(seed: int) -> None:
    async def scene(cluster: GroupCluster) -> None:
        assert cluster.node is not None
        source = Random(seed)
        progress = Progress()
        loop = asyncio.get_running_loop()
        end_s = loop.time() + DURATION_S
        number = 0
        while loop.time() < end_s or len(cluster.readers) < READERS:
            while len(cluster.readers) < READERS:
                await come(cluster, source, progress, number)
                number += 1
            if loop.time() >= end_s:
                break
            await cluster.produce(source.randint(0, 60))
            await asyncio.sleep(source.uniform(0, 10))
            if source.random() < 0.15:
                await crash(cluster.node, source)
            await go(cluster, source)
        await cluster.produce(50)
        await cluster.until_shared(*cluster.readers)
        await cluster.until(lambda: len(cluster.seen) == cluster.produced)
        assert progress.commits > 20

    play(scene, seed=seed, odds=ODDS, node_settings=NODE)
