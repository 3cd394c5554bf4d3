"""A partition that leads: its written offset, its notifications, its epochs; one that follows: what it discards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.replica.follower import Fetched, LeaderOffsets
from cordwood.replica.leader import FollowerFetched
from cordwood.replica.partition import ACKS_ALL, Partition
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from tests.replica.partitions import BROKER, NOW, OTHER, batch, disk, flush, log_of, partition_on, state


class Flushes:
    """The partitions that asked for a flush."""

    def __init__(self) -> None:
        self.asked: list[Partition] = []

    def __call__(self, partition: Partition) -> None:
        self.asked.append(partition)


class Reader:
    """A watcher that only counts."""

    is_follower = False

    def __init__(self) -> None:
        self.wakes = 0
        self.expired = 0

    def woken(self, partition: Partition) -> None:
        self.wakes += 1

    def high_watermark_moved(self, partition: Partition) -> None:
        raise AssertionError("it is no follower")

    def expire(self) -> None:
        self.expired += 1


def leading(**settings: str) -> Partition:
    return partition_on(disk(), Flushes(), 0, **settings)


def append(partition: Partition, *values: str, acks: int = ACKS_ALL) -> int:
    """The last offset."""
    return partition.append(batch(*values), acks, NOW).last_offset


def unexpected(error: ErrorCode) -> None:
    pytest.fail(f"told {error.name}")


# The high watermark


def test_without_a_pending_flush_all_writes_are_acknowledged() -> None:
    partition = leading()
    last = append(partition, "a", "b")
    assert log_of(partition).high_watermark == 2
    assert partition.acknowledge(last, unexpected)


def test_with_flush_messages_1_nothing_is_committed_before_its_flush() -> None:
    partition = leading(flush_messages="1")
    last = append(partition, "a", "b")
    told: list[ErrorCode] = []
    assert log_of(partition).high_watermark == 0
    assert not partition.acknowledge(last, told.append)
    flush(partition)
    assert log_of(partition).high_watermark == 2
    assert told == [ErrorCode.NONE]


def test_only_every_so_many_messages_a_flush_is_waited_for() -> None:
    partition = leading(flush_messages="3")
    append(partition, "a", "b")
    assert log_of(partition).high_watermark == 2
    append(partition, "c")
    assert log_of(partition).high_watermark == 2
    flush(partition)
    assert log_of(partition).high_watermark == 3


def test_writes_during_a_flush_wait_for_the_next_flush() -> None:
    flushes = Flushes()
    partition = partition_on(disk(), flushes, flush_messages="1")
    log = log_of(partition)
    append(partition, "a")
    job = log.begin_flush(NOW)
    append(partition, "b")
    job.run()
    flushes.asked.clear()
    log.end_flush(job)
    partition.flushed()
    assert log.high_watermark == 1
    assert flushes.asked == [partition]


def test_a_sealed_segment_is_flushed_soon() -> None:
    flushes = Flushes()
    partition = partition_on(disk(), flushes, internal_segment_bytes="200")
    append(partition, "a" * 100)
    assert flushes.asked == []
    append(partition, "b" * 100)
    assert flushes.asked == [partition]


def test_a_restarted_partition_trusts_stable_storage_only() -> None:
    where = disk()
    partition = partition_on(where, Flushes(), flush_messages="1")
    append(partition, "a")
    again = partition_on(where.restart(power_lost=False), Flushes(), flush_messages="1")
    again.flushed()
    assert log_of(again).high_watermark == log_of(again).durability.recovery_point
    flush(again)
    assert log_of(again).high_watermark == log_of(again).end_offset == 1


def test_a_follower_that_starts_with_unflushed_records_has_them_flushed() -> None:
    """It does not fetch before, and nothing that is appended would ask for it."""
    where = disk()
    append(partition_on(where, Flushes(), flush_messages="1"), "a")
    flushes = Flushes()
    again = partition_on(where.restart(power_lost=False), flushes, flush_messages="1")
    again.update(state(leader=OTHER, epoch=1, replicas=(BROKER, OTHER)), again.config)
    assert again.awaits_flush
    assert flushes.asked == [again]


# Written and committed are two things


def followed() -> Partition:
    """Broker 1 leads; broker 2 is in sync and has not fetched yet."""
    partition = leading()
    partition.update(replace(state(replicas=(BROKER, OTHER)), partition_epoch=1), partition.config)
    return partition


def fetched_by_follower(partition: Partition, offset: int) -> None:
    assert partition.leader is not None
    partition.leader.step(FollowerFetched(OTHER, 1, 1, offset), NOW)
    partition.flushed()


def test_a_produce_with_acks_1_does_not_wait_for_followers() -> None:
    partition = followed()
    last = append(partition, "a", acks=1)
    assert partition.acknowledge(last, unexpected, acks=1)
    assert log_of(partition).high_watermark == 0


def test_a_produce_with_acks_all_waits_for_every_in_sync_replica() -> None:
    partition = followed()
    told: list[ErrorCode] = []
    assert not partition.acknowledge(append(partition, "a"), told.append)
    fetched_by_follower(partition, 0)
    assert told == []
    fetched_by_follower(partition, 1)
    assert told == [ErrorCode.NONE]
    assert log_of(partition).high_watermark == 1


def test_a_produce_with_acks_1_waits_for_the_flush_that_the_topic_requests() -> None:
    partition = leading(flush_messages="1")
    told: list[ErrorCode] = []
    assert not partition.acknowledge(append(partition, "a", acks=1), told.append, acks=1)
    flush(partition)
    assert told == [ErrorCode.NONE]


def test_readers_see_nothing_above_the_high_watermark() -> None:
    partition = followed()
    reader = Reader()
    partition.watch(reader)
    append(partition, "a", acks=1)
    assert reader.wakes == 0
    fetched_by_follower(partition, 1)
    assert reader.wakes == 1


def test_lowering_min_insync_replicas_commits_pending_records() -> None:
    partition = leading(min_insync_replicas="2")
    partition.update(replace(state(replicas=(BROKER, OTHER)), isr=(BROKER,), partition_epoch=1), partition.config)
    append(partition, "a", acks=1)
    assert log_of(partition).high_watermark == 0
    partition.configure(replace(partition.config, min_insync_replicas=1))
    assert log_of(partition).high_watermark == 1


# Pending requests


def test_waiters_are_resolved_in_offset_order() -> None:
    partition = leading(flush_messages="1")
    told: list[int] = []
    offsets = [append(partition, str(number)) for number in range(4)]
    for offset in (offsets[1], offsets[3], offsets[0], offsets[2], offsets[1]):
        assert not partition.acknowledge(offset, lambda _, offset=offset: told.append(offset))  # type: ignore[misc]
    flush(partition)
    assert told == [0, 1, 1, 2, 3]


def test_a_retry_waits_for_the_original() -> None:
    partition = leading(flush_messages="1")
    records = bytes(batch("a", producer_id=1, epoch=0, sequence=0))
    partition.append(records, ACKS_ALL, NOW)
    again = partition.append(records, ACKS_ALL, NOW)
    assert again.is_duplicate
    assert not partition.acknowledge(again.last_offset, unexpected)


@pytest.mark.parametrize(
    ("happening", "error"),
    [
        (Partition.removed, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (Partition.go_offline, ErrorCode.KAFKA_STORAGE_ERROR),
        (
            lambda partition: partition.update(state(leader=OTHER, epoch=1), partition.config),
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ),
    ],
)
def test_pending_acks_fail_when_leadership_or_log_is_lost(happening: object, error: ErrorCode) -> None:
    partition = leading(flush_messages="1")
    told: list[ErrorCode] = []
    reader = Reader()
    partition.watch(reader)
    partition.acknowledge(append(partition, "a"), told.append)
    assert callable(happening)
    happening(partition)
    assert told == [error]
    assert reader.wakes == 1


def test_readers_are_woken_when_there_is_more_to_read_and_only_then() -> None:
    partition = leading(flush_messages="2")
    reader = Reader()
    partition.watch(reader)
    append(partition, "a")
    assert reader.wakes == 1
    append(partition, "b")
    assert reader.wakes == 1
    flush(partition)
    assert reader.wakes == 2
    partition.unwatch(reader)
    append(partition, "c")
    assert reader.wakes == 2


@given(
    st.lists(st.sampled_from(["append", "begin", "end", "retry"]), max_size=40),
    st.sampled_from(["1", "2", "5", "1000000"]),
)
def test_each_waiter_is_resolved_once_in_order_and_never_early(steps: list[str], flush_messages: str) -> None:
    partition = leading(flush_messages=flush_messages)
    log = log_of(partition)
    told: list[int] = []
    waiting: list[int] = []
    jobs = []
    batches: list[bytes] = []
    for step in steps:
        before = log.high_watermark
        if step == "append" or (step == "retry" and not batches):
            batches.append(bytes(batch("x", producer_id=1, epoch=0, sequence=len(batches))))
            offset = partition.append(batches[-1], ACKS_ALL, NOW).last_offset
        elif step == "retry":
            offset = partition.append(batches[-1], ACKS_ALL, NOW).last_offset
        elif step == "begin":
            jobs.append(log.begin_flush(NOW))
            continue
        else:
            if jobs:
                job = jobs.pop(0)
                job.run()
                log.end_flush(job)
                partition.flushed()
            offset = -1
        if offset >= 0:
            waiting.append(offset)
            if partition.acknowledge(offset, lambda _, offset=offset: told.append(offset)):  # type: ignore[misc]
                told.append(offset)
        assert before <= log.high_watermark <= log.end_offset
        assert log.high_watermark - log.durability.recovery_point < int(flush_messages)
        assert sorted(told) == sorted(offset for offset in waiting if offset < log.high_watermark)
    flush(partition)
    assert sorted(told) == sorted(waiting)
    assert log.high_watermark == log.end_offset == len(batches)


# Refusals


def test_requests_for_a_new_epoch_are_authenticated() -> None:
    partition = leading()
    partition.update(state(epoch=3), partition.config)
    for epoch in (-1, 3):
        assert partition.leader_log(epoch) is partition.log
    for epoch, error in ((2, ErrorCode.FENCED_LEADER_EPOCH), (4, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        with pytest.raises(Refusal) as refused:
            partition.leader_log(epoch)
        assert refused.value.error == error


def test_it_accepts_no_appends_while_another_leads() -> None:
    partition = leading()
    partition.update(state(leader=OTHER, epoch=1), partition.config)
    with pytest.raises(Refusal) as refused:
        append(partition, "a")
    assert refused.value.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert log_of(partition).end_offset == 0


def test_too_few_in_sync_replicas_refuse_only_acks_all() -> None:
    partition = leading(min_insync_replicas="2")
    partition.update(replace(state(replicas=(BROKER, OTHER)), isr=(BROKER,), partition_epoch=1), partition.config)
    with pytest.raises(Refusal) as refused:
        append(partition, "a")
    assert refused.value.error == ErrorCode.NOT_ENOUGH_REPLICAS
    assert append(partition, "a", acks=1) == 0


# Leader epochs


def test_an_epoch_that_nothing_was_written_in_begins_at_the_end() -> None:
    partition = leading()
    log = log_of(partition)
    append(partition, "a", "b")
    partition.update(state(epoch=5), partition.config)
    assert partition.leader_epoch_start(log) == 2
    assert partition.end_offset_for_epoch(log, 5) == (5, 2)
    append(partition, "c")
    assert partition.leader_epoch_start(log) == 2
    assert partition.end_offset_for_epoch(log, 5) == (5, 3)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(-1, (-1, -1)), (0, (0, 2)), (1, (1, 3)), (2, (1, 3)), (4, (1, 3)), (5, (5, 3)), (6, (-1, -1))],
)
def test_an_epoch_ends_where_the_next_begins(asked: int, answer: tuple[int, int]) -> None:
    partition = leading()
    append(partition, "a", "b")
    partition.update(state(epoch=1), partition.config)
    append(partition, "c")
    partition.update(state(epoch=5), partition.config)
    assert partition.end_offset_for_epoch(log_of(partition), asked) == answer


def test_an_epoch_before_all_others_ends_at_the_start_of_the_first() -> None:
    partition = leading()
    partition.update(state(epoch=5), partition.config)
    assert partition.end_offset_for_epoch(log_of(partition), 3) == (3, 0)


# ---- what a follower discards


def following_partition(committed: int) -> Partition:
    """Five records, of which some are committed; another broker leads."""
    partition = partition_on(disk(), lambda _partition: None)
    partition.update(state(replicas=(BROKER, OTHER)), partition.config)
    for value in "abcde":
        partition.append(batch(value), 1, NOW)
    log_of(partition).advance_high_watermark(committed)
    partition.update(state(leader=OTHER, epoch=3, replicas=(OTHER, BROKER)), partition.config)
    return partition


def discarded(partition: Partition, error: ErrorCode, offsets: LeaderOffsets | None = None, **answer: Any) -> None:
    assert partition.follower is not None
    asked = partition.follower.next_fetch(NOW)
    assert asked is not None
    partition.step(Fetched(asked, error, **answer))
    if offsets is not None:
        partition.step(offsets)


def test_uncommitted_records_that_a_follower_discards_are_named(caplog: pytest.LogCaptureFixture) -> None:
    partition = following_partition(committed=4)
    discarded(partition, ErrorCode.NONE, diverging=(0, 4))
    assert log_of(partition).end_offset == 4
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() == (
        "t-0: discarding offsets 4 to 4, which leader 2 of epoch 3 does not have; they were never committed"
    )


def test_committed_records_that_an_unclean_election_has_lost_are_named(caplog: pytest.LogCaptureFixture) -> None:
    partition = following_partition(committed=5)
    discarded(partition, ErrorCode.OFFSET_OUT_OF_RANGE, LeaderOffsets(3, log_start_offset=0, end_offset=2))
    assert log_of(partition).end_offset == 2
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert "discarding offsets 2 to 4" in record.getMessage()
    assert "those before 5 were committed, and are lost by an unclean election" in record.getMessage()


def test_a_replica_that_starts_over_logs_the_discarded_records(caplog: pytest.LogCaptureFixture) -> None:
    partition = following_partition(committed=5)
    discarded(partition, ErrorCode.OFFSET_OUT_OF_RANGE, LeaderOffsets(3, log_start_offset=100, end_offset=200))
    assert (log_of(partition).start_offset, log_of(partition).end_offset) == (100, 100)
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert "discarding this replica's offsets 0 to 4; the log of leader 2 begins at 100 only" in record.getMessage()


def test_an_empty_replica_starts_where_its_leader_does_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    partition = partition_on(disk(), lambda _partition: None)
    partition.update(state(leader=OTHER, epoch=3, replicas=(OTHER, BROKER)), partition.config)
    discarded(partition, ErrorCode.OFFSET_OUT_OF_RANGE, LeaderOffsets(3, log_start_offset=100, end_offset=200))
    assert log_of(partition).end_offset == 100
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []
