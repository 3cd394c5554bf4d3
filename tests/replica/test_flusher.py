"""Group commit: rounds of flushes, what joins them, and a disk that fails in one."""

from __future__ import annotations

import asyncio

from cordwood.replica.flusher import Flusher
from cordwood.replica.partition import ACKS_ALL, Partition
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.disk import DiskError
from cordwood.wire.errors import ErrorCode
from tests.replica.partitions import NOW, batch, disk, log_of, partition_on


class Failures:
    def __init__(self) -> None:
        self.errors: list[DiskError] = []

    def __call__(self, error: DiskError) -> None:
        self.errors.append(error)


def test_all_requests_of_one_turn_form_one_round() -> None:
    async def test() -> None:
        flusher = Flusher(SystemClock(), Failures())
        where = disk()
        partitions = [partition_on(where, flusher.request, index=index, flush_messages="1") for index in range(5)]
        for partition in partitions:
            partition.append(batch("a"), ACKS_ALL, NOW)
        await flusher.finish()
        assert [log_of(partition).high_watermark for partition in partitions] == [1] * 5
        assert (flusher.rounds, flusher.flushes) == (1, 5)

    asyncio.run(test())


def test_requests_during_a_round_join_the_next() -> None:
    async def test() -> None:
        flusher = Flusher(SystemClock(), Failures())
        partition = partition_on(disk(), flusher.request, flush_messages="1")
        told: list[int] = []

        def append_again(_error: ErrorCode) -> None:
            told.append(log_of(partition).high_watermark)
            if len(told) < 3:
                last = partition.append(batch("a"), ACKS_ALL, NOW).last_offset
                assert not partition.acknowledge(last, append_again)

        partition.acknowledge(partition.append(batch("a"), ACKS_ALL, NOW).last_offset, append_again)
        await flusher.finish()
        assert told == [1, 2, 3]

    asyncio.run(test())


def test_a_disk_that_fails_does_not_keep_others_from_being_flushed() -> None:
    async def test() -> None:
        failures = Failures()
        flusher = Flusher(SystemClock(), failures)
        bad, good = disk(1), disk(2)
        on_bad = partition_on(bad, flusher.request, flush_messages="1")
        on_good = partition_on(good, flusher.request, flush_messages="1")
        bad.fail_next("sync")
        on_bad.append(batch("a"), ACKS_ALL, NOW)
        on_good.append(batch("a"), ACKS_ALL, NOW)
        await flusher.finish()
        assert len({str(error) for error in failures.errors}) == 1
        assert log_of(on_bad).high_watermark == 0
        assert log_of(on_good).high_watermark == 1

    asyncio.run(test())


def test_a_partition_that_is_removed_during_its_flush_is_left_alone() -> None:
    async def test() -> None:
        failures = Failures()
        flusher = Flusher(SystemClock(), failures)
        partition = partition_on(disk(), flusher.request, flush_messages="1")
        log = log_of(partition)
        partition.append(batch("a"), ACKS_ALL, NOW)
        await asyncio.sleep(0)
        partition.removed()
        await flusher.finish()
        assert failures.errors == []
        assert log.high_watermark == 0

    asyncio.run(test())


def test_many_segments_are_flushed_in_several_rounds() -> None:
    async def test() -> None:
        asked: list[Partition] = []
        flusher = Flusher(SystemClock(), Failures())
        partition = partition_on(disk(), asked.append, internal_segment_bytes="120")
        for _ in range(40):
            partition.append(batch("a" * 50), ACKS_ALL, NOW)
        log = log_of(partition)
        assert len(log.segments) == 40
        flusher.request(asked[0])
        await flusher.finish()
        assert log.durability.recovery_point == log.end_offset == 40
        assert flusher.rounds > 1

    asyncio.run(test())
