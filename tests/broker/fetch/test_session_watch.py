"""A follower's fetch that examines few partitions of its session gets the same answers as one that examines all."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest

from cordwood.broker.fetch.reading import READ_UNCOMMITTED, FetchRead
from cordwood.broker.fetch.session_watch import LOOK_MS
from cordwood.broker.fetch.sessions import Fetching, FetchSessions
from cordwood.broker.fetch.wanted import PartitionKey, WantedPartition
from cordwood.replica.partition import Partition
from cordwood.runtime.randomness import SeededRandom
from cordwood.wire.errors import ErrorCode
from cordwood.wire.primitives import Uuid
from data_answers.batches import batch
from tests.common.simulated_cluster import Cluster, with_cluster

LEADER, FOLLOWER = 1, 2
PARTITIONS = 6
ROUNDS = 400
MAX_BYTES = 1 << 20
STEP_S = 0.003


class Told(NamedTuple):
    error_code: int
    high_watermark: int
    log_start_offset: int
    record_bytes: int
    diverging: tuple[int, int]


class Session:
    """A follower's session with the leader, without connections."""

    def __init__(self, cluster: Cluster, topic_id: Uuid, *, looks_at_all: bool) -> None:
        self._broker = cluster.broker(LEADER)
        self._epoch = cluster.broker(FOLLOWER).epoch
        self._topic_id = topic_id
        self._sessions = FetchSessions(10, SeededRandom(1))
        self._id, self._number = 0, 0
        self._looks_at_all = looks_at_all
        self.looks = 0

    def fetch(self, positions: dict[int, tuple[int, int]], forgotten: list[int]) -> tuple[bool, dict[int, Told]]:
        """`positions` are the (offset, leader epoch) that have changed. Returns whether it would wait, and its
        answer."""
        wanted: dict[PartitionKey, WantedPartition] = {
            (self._topic_id, index): WantedPartition("t", self._topic_id, index, offset, MAX_BYTES, epoch, -1, 0)
            for index, (offset, epoch) in positions.items()
        }
        now_ms = self._broker.clock.now_ms()
        fetching = self._sessions.begin(
            self._id,
            self._number,
            uses_topic_ids=True,
            wanted=wanted,
            forgotten=[(self._topic_id, index) for index in forgotten],
            now_ms=now_ms,
            privileged=not self._looks_at_all,
        )
        assert not isinstance(fetching, ErrorCode)
        read = self._counted(fetching)
        is_idle = read.idle() is not None
        _, self._id, answers = fetching.conclude(read.all()[0], now_ms)
        self._number += 1
        return is_idle, {
            each.index: Told(
                answer.error_code,
                answer.high_watermark,
                answer.log_start_offset,
                len(answer.records or b""),
                (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset),
            )
            for each, answer in answers
        }

    def _counted(self, fetching: Fetching) -> FetchRead:
        read = FetchRead(self._broker, fetching, FOLLOWER, READ_UNCOMMITTED, MAX_BYTES)
        self.looks += len(fetching.partitions)
        read.count_follower(self._epoch)
        return read


def leading(cluster: Cluster, index: int) -> Partition:
    return cluster.partition(LEADER, "t", index)


@pytest.mark.parametrize("seed", range(6))
def test_a_session_with_resting_partitions_returns_the_same_as_a_full_scan(seed: int) -> None:
    async def test(cluster: Cluster) -> None:
        random = SeededRandom(seed)
        topic_id = await cluster.create("t", [(LEADER, FOLLOWER, 3)] * PARTITIONS)
        sessions = [Session(cluster, topic_id, looks_at_all=looks_at_all) for looks_at_all in (False, True)]
        positions = dict.fromkeys(range(PARTITIONS), (0, 0))
        changed, forgotten = dict(positions), list[int]()
        for _ in range(ROUNDS):
            await act(cluster, random)
            (is_idle, told), expected = (session.fetch(changed, forgotten) for session in sessions)
            assert (is_idle, told) == expected
            changed, forgotten = {}, []
            for index, answer in told.items():
                if answer.record_bytes:
                    changed[index] = cluster.log(LEADER, "t", index).end_offset, 0
                elif answer.log_start_offset > positions[index][0] or answer.error_code:
                    changed[index] = max(0, answer.log_start_offset), 0
            if random.below(20) == 0:
                # It is behind: it has truncated, or is restored.
                log = cluster.log(LEADER, "t", index := random.below(PARTITIONS))
                changed[index] = log.start_offset + random.below(1 + log.end_offset - log.start_offset), 0
            positions |= changed
            if random.below(60) == 0:
                forgotten.append(index := random.below(PARTITIONS))
                changed.pop(index, None)
            elif random.below(20) == 0:
                changed |= {index: position for index, position in positions.items() if random.below(3) == 0}
        few, all_of_them = (session.looks for session in sessions)
        assert few < all_of_them / 2

    with_cluster(test, seed=1 + seed)


async def act(cluster: Cluster, random: SeededRandom) -> None:
    for _ in range(random.below(3)):
        partition = leading(cluster, random.below(PARTITIONS))
        what = random.below(12)
        if what < 8:
            partition.append(batch("a"), -1, cluster.world.clock.now_ms())
        elif what == 8:
            partition.advance_start(cluster.log(LEADER, "t", partition.index).high_watermark)
    if random.below(2):
        await asyncio.sleep(STEP_S)


def test_a_resting_partition_is_examined_before_long() -> None:
    async def test(cluster: Cluster) -> None:
        topic_id = await cluster.create("t", [(LEADER, FOLLOWER, 3)] * PARTITIONS)
        for index in range(PARTITIONS):
            leading(cluster, index).append(batch("a"), 1, cluster.world.clock.now_ms())
        session = Session(cluster, topic_id, looks_at_all=False)
        session.fetch(dict.fromkeys(range(PARTITIONS), (1, 0)), [])
        session.fetch({}, [])
        await cluster.until(lambda: cluster.log(LEADER, "t", 3).high_watermark == 1)
        session.fetch({}, [])
        assert session.fetch({}, []) == (True, {})
        # Retention deletes without a word to anyone.
        cluster.log(LEADER, "t", 3).advance_start(1)
        assert session.fetch({}, []) == (True, {})
        await asyncio.sleep(LOOK_MS / 1000)
        _, told = session.fetch({}, [])
        assert told[3].log_start_offset == 1

    with_cluster(test)


def test_a_resting_follower_is_not_mistaken_for_lagging() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create("t", [(LEADER, FOLLOWER)] * PARTITIONS)
        await cluster.until_isr(LEADER, FOLLOWER)
        for _ in range(100):
            # Longer than the follower may lag, shorter than it takes until each partition is looked at.
            await asyncio.sleep(0.8)
            for index in range(PARTITIONS):
                partition, now_ms = leading(cluster, index), cluster.world.clock.now_ms()
                partition.append(batch("a"), 1, now_ms)
                partition.check_lag(now_ms)
                assert partition.leader is not None
                assert partition.leader.maximal_isr == {LEADER, FOLLOWER}
                assert partition.state.partition_epoch == 0

    with_cluster(test, replica_lag_time_max_ms="700", replica_fetch_wait_max_ms="300")
