"""Choosing the log to compact, and installing the result, in all cases."""

import errno
import logging
import os
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from cordwood.log.checkpoints.formats import CLEANER_OFFSETS, RECOVERY_POINTS, read_offsets
from cordwood.log.cleaning.cleaner import Cleaner, CleanerConfig, Plan
from cordwood.log.cleaning.compaction import Compacted, CompactionStopped
from cordwood.log.cleaning.throttle import Throttle
from cordwood.log.config import LogConfig
from cordwood.log.dirs.directory import LogDirectory
from cordwood.log.files import CLEANED
from cordwood.log.log import Log
from cordwood.runtime.disk import DiskError, FileGone
from cordwood.runtime.files.local_disk import LocalDisk
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.virtual.disk import SimDisk, SimulatedCrash
from cordwood.wire.record import Record
from cordwood.wire.records import encode_batch
from tests.log.cleaning.compaction_model import FakeClock, World, read_uncommitted

COMPACT = LogConfig(compact=True, delete=False, segment_bytes=1000, min_cleanable_dirty_ratio=0.0)


def test_the_defaults_are_kafkas() -> None:
    assert CleanerConfig() == CleanerConfig(
        enable=True,
        threads=1,
        dedupe_buffer_size=134217728,
        io_buffer_load_factor=0.9,
        io_buffer_size=524288,
        io_max_bytes_per_second=1.7976931348623157e308,
        backoff_ms=15000,
    )


# Which log


def test_the_log_with_the_highest_dirty_ratio_goes_first() -> None:
    logs = Logs(replace(COMPACT, min_cleanable_dirty_ratio=0.2), "a", "b", "c")
    for name in "abc":
        logs.fill(name, 10)
    logs.clean_all()
    logs.fill("a", 5)
    logs.fill("b", 20)
    logs.fill("c", 1)
    assert logs.clean_all() == ["b", "a"]


def test_a_log_waits_until_more_than_the_ratio_of_it_is_dirty() -> None:
    logs = Logs(replace(COMPACT, min_cleanable_dirty_ratio=0.5), "a")
    logs.fill("a", 10)
    assert logs.clean_all() == ["a"], "which leaves five records"
    logs.fill("a", 5)
    assert logs.clean_all() == [], "half of it is not more than half"
    logs.fill("a", 1)
    assert logs.clean_all() == ["a"]


def test_logs_that_are_not_compacted_and_empty_ones_are_left_alone() -> None:
    logs = Logs(COMPACT, "a", "b")
    logs["a"].config = replace(COMPACT, compact=False)
    logs.fill("a", 10)
    assert logs.clean_all() == []


def test_nothing_is_planned_when_the_cleaner_is_off() -> None:
    logs = Logs(COMPACT, "a")
    logs.fill("a", 10)
    assert Cleaner([logs.directory], CleanerConfig(enable=False), logs.clock).next(logs.now_ms) is None


def test_a_log_that_is_being_compacted_is_not_planned_again() -> None:
    logs = Logs(COMPACT, "a", "b")
    logs.fill("a", 10)
    logs.fill("b", 10)
    first, second = logs.cleaner.next(logs.now_ms), logs.cleaner.next(logs.now_ms)
    assert first is not None
    assert second is not None
    assert {first.partition, second.partition} == {("a", 0), ("b", 0)}
    assert logs.cleaner.next(logs.now_ms) is None
    logs.cleaner.install(first.run(), logs.now_ms)
    assert not logs.cleaner.is_busy(first.partition)
    assert logs.cleaner.is_busy(second.partition)


def test_max_compaction_lag_makes_a_log_due_however_little_of_it_is_dirty() -> None:
    logs = Logs(replace(COMPACT, min_cleanable_dirty_ratio=0.9, max_compaction_lag_ms=60_000), "a")
    logs.fill("a", 50)
    logs.clean_all()
    logs.fill("a", 1)
    logs.clock.ms += 60_000
    assert logs.clean_all() == []
    logs.clock.ms += 1
    assert logs.clean_all() == ["a"]


def test_segments_younger_than_min_compaction_lag_are_not_cleaned() -> None:
    logs = Logs(replace(COMPACT, min_compaction_lag_ms=60_000), "a")
    logs.fill("a", 10)
    old_end = logs["a"].end_offset
    logs.clock.ms += 30_000
    logs.fill("a", 10)
    assert logs.clean_all() == []
    logs.clock.ms += 30_000
    assert logs.clean_all() == ["a"]
    assert logs.directory.checkpoints.cleaner_offsets["a", 0] == old_end
    logs.clock.ms += 30_000
    assert logs.clean_all() == ["a"]


# How far


def test_the_active_segment_is_not_cleaned() -> None:
    logs = Logs(COMPACT, "a")
    logs.fill("a", 100, roll=False)
    active = logs["a"].active
    content = active.file.read(0, active.size)
    assert logs.clean_all() == ["a"]
    assert logs.directory.checkpoints.cleaner_offsets["a", 0] == active.base_offset
    assert logs["a"].active is active
    assert active.file.read(0, active.size) == content


def test_unreplicated_records_are_not_compacted() -> None:
    logs = Logs(COMPACT, "a")
    logs.fill("a", 10)
    replicated = logs["a"].end_offset
    logs.fill("a", 10)
    logs["a"].advance_high_watermark(replicated + 3)
    logs.clean_all()
    assert logs.directory.checkpoints.cleaner_offsets["a", 0] == replicated, "whole segments only"


def test_a_checkpoint_before_the_logs_start_is_moved_up_to_it(caplog: pytest.LogCaptureFixture) -> None:
    logs = Logs(COMPACT, "a")
    logs.fill("a", 10)
    logs.clean_all()
    logs.fill("a", 10)
    log = logs["a"]
    log.advance_start(log.end_offset - 2)
    logs.cleaner.next(logs.now_ms)
    assert read_offsets(logs.disk, CLEANER_OFFSETS) == {("a", 0): log.start_offset}
    assert "a-0: cleaner checkpoint 10 " in caplog.text


def test_a_log_that_is_also_deleted_from_moves_its_checkpoint_quietly(caplog: pytest.LogCaptureFixture) -> None:
    logs = Logs(replace(COMPACT, delete=True), "a")
    logs.fill("a", 10)
    logs.clean_all()
    logs.fill("a", 10)
    logs["a"].advance_start(logs["a"].end_offset - 2)
    logs.cleaner.next(logs.now_ms)
    assert "cleaner checkpoint" not in caplog.text


def test_a_checkpoint_past_the_logs_end_is_no_good(caplog: pytest.LogCaptureFixture) -> None:
    logs = Logs(COMPACT, "a")
    logs.fill("a", 10)
    logs.directory.checkpoints.cleaner_offsets["a", 0] = 1000
    plan = logs.cleaner.next(logs.now_ms)
    assert plan is not None
    assert read_offsets(logs.disk, CLEANER_OFFSETS) == {("a", 0): 0}
    assert "a-0: cleaner checkpoint 1000 " in caplog.text


def test_a_truncation_takes_the_clean_point_back() -> None:
    logs = Logs(COMPACT, "a")
    logs.fill("a", 10)
    logs.clean_all()
    logs.directory.truncate("a", 0, 9, logs.now_ms)
    assert logs.directory.checkpoints.cleaner_offsets["a", 0] == 9
    logs.fill("a", 10)
    assert logs.clean_all() == ["a"]


# Concurrent changes


def delete_the_first_segment(logs: "Logs") -> None:
    log = logs["a"]
    log.delete_segments([log.segments.first], logs.now_ms, "a test")


def truncate_within_the_range(logs: "Logs") -> None:
    log = logs["a"]
    end = log.end_offset
    logs.directory.truncate("a", 0, end - 2, logs.now_ms)
    logs.fill("a", 2)
    assert log.end_offset == end


def delete_the_partition(logs: "Logs") -> None:
    logs.directory.delete("a", 0, logs.now_ms)


def recreate_the_partition(logs: "Logs") -> None:
    logs.directory.delete("a", 0, logs.now_ms)
    logs.directory.create("a", 0, bytes(16), logs.now_ms)


@pytest.mark.parametrize(
    "change", [delete_the_first_segment, truncate_within_the_range, delete_the_partition, recreate_the_partition]
)
@pytest.mark.parametrize("when", ["before it ran", "after it ran"])
def test_the_result_is_discarded_when_the_log_has_changed(change: Callable[["Logs"], None], when: str) -> None:
    logs = Logs(COMPACT, "a")
    logs.fill("a", 40)
    plan = logs.plan()
    if when == "before it ran":
        change(logs)
        outcome = plan.run()
    else:
        outcome = plan.run()
        assert isinstance(outcome.result, Compacted)
        change(logs)
    is_there = logs.directory.logs.get(("a", 0)) is plan.log
    before = read_uncommitted(plan.log) if is_there else []
    assert not logs.cleaner.install(outcome, logs.now_ms)
    assert logs.cleaner.uncleanable == {}
    assert logs.disk.failure is None
    assert [path for path in logs.disk.files() if CLEANED in path and "-delete" not in path] == []
    if is_there:
        assert read_uncommitted(plan.log) == before


def test_concurrent_appends_and_rolls_do_no_harm() -> None:
    logs = Logs(COMPACT, "a")
    logs.fill("a", 40)
    plan = logs.plan()
    outcome = plan.run()
    logs.fill("a", 40)
    assert logs.cleaner.install(outcome, logs.now_ms)
    assert logs.directory.checkpoints.cleaner_offsets["a", 0] == 40
    assert [record.offset for record in read_uncommitted(logs["a"])] == [*range(35, 80)]


def test_retention_leaves_a_log_alone_while_it_is_compacted() -> None:
    logs = Logs(replace(COMPACT, delete=True, retention_bytes=1000), "a")
    logs.fill("a", 40)
    plan = logs.plan()
    assert logs.cleaner.apply_retention(logs.now_ms) == 0
    logs.cleaner.install(plan.run(), logs.now_ms)
    logs.fill("a", 40)
    assert logs.cleaner.apply_retention(logs.now_ms) > 0
    assert logs["a"].start_offset > 0


def test_a_log_can_be_compacted_and_deleted_from_in_turns() -> None:
    logs = Logs(replace(COMPACT, delete=True, retention_bytes=2000), "a")
    for _ in range(8):
        logs.fill("a", 40)
        logs.cleaner.apply_retention(logs.now_ms)
        logs.clean_all()
        log = logs["a"]
        assert log.start_offset <= logs.directory.checkpoints.cleaner_offsets["a", 0] <= log.end_offset
        latest = {record.key: record.offset for record in read_uncommitted(log)}
        assert sorted(latest.values()) == list(range(log.end_offset - 5, log.end_offset))


# Failures


@pytest.mark.parametrize("lost_batches", [0.5, 1, 10])
def test_a_log_that_cannot_be_compacted_does_not_delay_others(
    lost_batches: float, caplog: pytest.LogCaptureFixture
) -> None:
    logs = Logs(COMPACT, "a", "b")
    logs.fill("a", 10)
    logs.fill("b", 10)
    for _ in range(2):
        plan = logs.plan()
        if plan.partition == ("a", 0):
            first = plan.log.segments.first
            first.file.truncate(first.size - int(first.size // 10 * lost_batches))
        logs.cleaner.install(plan.run(), logs.now_ms)
    assert list(logs.cleaner.uncleanable) == [("a", 0)]
    assert logs.directory.checkpoints.cleaner_offsets == {("b", 0): 10}
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1
    assert errors[0].startswith("a-0: compaction failed; ")
    assert "CorruptBatch: " in errors[0]
    assert logs.clean_all() == []


def test_a_recreated_partition_can_be_compacted_again() -> None:
    logs = Logs(COMPACT, "a")
    logs.fill("a", 10)
    plan = logs.plan()
    plan.log.segments.first.file.truncate(5)
    logs.cleaner.install(plan.run(), logs.now_ms)
    recreate_the_partition(logs)
    logs.fill("a", 10)
    assert logs.clean_all() == ["a"]


@pytest.mark.parametrize("operation", ["read", "create", "append to", "sync"])
def test_a_failing_disk_is_its_owners_to_handle(operation: str) -> None:
    logs = Logs(COMPACT, "a")
    logs.fill("a", 10)
    plan = logs.plan()
    logs.disk.fail_next(operation, errno.EIO)
    outcome = plan.run()
    with pytest.raises(DiskError):
        logs.cleaner.install(outcome, logs.now_ms)
    assert logs.cleaner.next(logs.now_ms) is None, "an offline directory has nothing to compact"


# Installing


def test_the_log_is_flushed_and_its_recovery_point_noted_before_the_swap() -> None:
    logs = Logs(COMPACT, "a")
    logs.fill("a", 40)
    assert read_offsets(logs.disk, RECOVERY_POINTS).get(("a", 0), 0) == 0
    plan = logs.plan()
    logs.cleaner.install(plan.run(), logs.now_ms)
    assert read_offsets(logs.disk, RECOVERY_POINTS) == {("a", 0): 40}
    assert read_offsets(logs.disk, CLEANER_OFFSETS) == {("a", 0): 40}


@pytest.mark.parametrize("commit", [True, False])
def test_the_marker_of_a_transaction_is_flushed_before_compaction_relies_on_it(commit: bool) -> None:
    world = World(SimDisk(random.Random(1)), COMPACT)
    world.append(("a", "1"))
    world.append(("a", "2"), producer_id=1, transactional=True)
    world.roll()
    world.append(("b", "1"))
    world.log.flush(world.now_ms)
    world.directory.checkpoints.write_all()
    marker = world.end_txn(1, commit=commit)
    result = world.clean()
    assert result is not None
    assert result.end_offset < marker
    world.disk = sim_disk(world).restart()
    world.open()
    assert world.log.end_offset == marker + 1
    world.log.advance_high_watermark(world.log.end_offset)
    world.check(world.now_ms)


def test_a_log_that_is_flushed_far_enough_is_not_flushed_again() -> None:
    logs = Logs(COMPACT, "a")
    logs.fill("a", 40)
    logs["a"].flush(logs.now_ms)
    logs.directory.checkpoints.write_all()
    logs.fill("a", 1)
    logs["a"].advance_high_watermark(40)
    logs.clean_all()
    assert logs["a"].durability.recovery_point == 40


def test_reads_and_writes_are_counted() -> None:
    logs = Logs(COMPACT, "a")
    logs.fill("a", 40)
    size = logs["a"].size
    logs.clean_all()
    metrics = logs.directory.metrics
    assert metrics.cleaned_records == 40
    assert metrics.cleaned_bytes_read == size
    assert metrics.cleaned_bytes_written == logs["a"].size


@pytest.mark.parametrize("dedupe_buffer_size", [1 << 20, 24 * 7], ids=["one pass", "a pass that ends halfway"])
@pytest.mark.parametrize("luck", range(3))
def test_a_crash_at_any_step_leaves_a_log_that_reads_the_same(luck: int, dedupe_buffer_size: int) -> None:
    world = crash_world(luck, dedupe_buffer_size)
    first_step = sim_disk(world).steps
    result = world.clean()
    assert result is not None
    steps = sim_disk(world).steps - first_step
    assert steps > 40
    state, facts = world.expected_state(), world.facts()
    for step in range(1, steps + 1):
        world = crash_world(luck, dedupe_buffer_size)
        sim_disk(world).crash_at(first_step + step)
        with pytest.raises(SimulatedCrash):
            world.clean()
        world.disk = sim_disk(world).restart()
        world.open()
        world.log.advance_high_watermark(world.log.end_offset)
        try:
            assert world.directory.metrics.corrupt_bytes == world.directory.metrics.torn_bytes == 0
            assert world.facts() == facts
            assert world.expected_state() == state
            world.check(None)
            world.clean_all()
            world.check(world.now_ms)
            world.crash(lose_snapshots=True)
            assert world.facts() == facts
            world.check(world.now_ms)
        except AssertionError as error:
            raise AssertionError(f"step {step} of {steps}: {error}\n{sim_disk(world).dump()}") from error


def crash_world(luck: int, dedupe_buffer_size: int) -> World:
    """Several groups of segments, one of which comes out empty although it had an aborted transaction."""
    disk = SimDisk(random.Random(luck))
    world = World(disk, replace(COMPACT, segment_bytes=600), CleanerConfig(dedupe_buffer_size=dedupe_buffer_size))
    world.append(("a", "aborted"), ("b", "aborted"), producer_id=1, transactional=True)
    world.end_txn(1, commit=False)
    world.append(("a", "1"))
    world.roll()
    for number in range(30):
        world.append((f"k{number % 6}", str(number)), ("a", None if number % 5 else "x"), producer_id=number % 3)
        if number % 7 == 3:
            world.append(("b", "aborted"), producer_id=1, transactional=True)
            world.end_txn(1, commit=False)
    world.append(("b", "open"), producer_id=3, transactional=True)
    world.roll()
    # The log is on stable storage, but no checkpoint records that yet.
    world.log.flush(world.now_ms)
    return world


def sim_disk(world: World) -> SimDisk:
    assert isinstance(world.disk, SimDisk)
    return world.disk


class Logs:
    """Compacted partitions 0 of some topics, with a record per batch and five keys that go round."""

    def __init__(self, config: LogConfig, *topics: str) -> None:
        self.clock = FakeClock()
        self.disk = SimDisk(random.Random(1), now_ms=self.clock.now_ms)
        self.directory = LogDirectory(self.disk, lambda _topic: config, self.clock, SeededRandom(1))
        self.directory.open()
        for topic in topics:
            self.directory.create(topic, 0, bytes(16), self.now_ms)
        self.cleaner = Cleaner([self.directory], CleanerConfig(), self.clock)

    def __getitem__(self, topic: str) -> Log:
        return self.directory.logs[topic, 0]

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    def fill(self, topic: str, count: int, *, roll: bool = True) -> None:
        log = self[topic]
        for _ in range(count):
            key = b"k%d" % (log.end_offset % 5)
            log.append_as_leader(encode_batch([Record(0, self.now_ms, key, b"v", ())]), 0, self.now_ms)
        log.advance_high_watermark(log.end_offset)
        if roll:
            log.roll(self.now_ms)

    def plan(self) -> Plan:
        plan = self.cleaner.next(self.now_ms)
        assert plan is not None
        return plan

    def clean_all(self) -> list[str]:
        """The topics that were due, in their order."""
        cleaned = []
        while (plan := self.cleaner.next(self.now_ms)) is not None:
            assert self.cleaner.install(plan.run(), self.now_ms)
            cleaned.append(plan.partition[0])
        return cleaned


def test_a_job_that_is_stopped_leaves_no_file_open(tmp_path: Path) -> None:
    """An unlinked file that is open takes up its space until the process ends."""
    clock = FakeClock()
    now_ms = clock.now_ms()
    directory = LogDirectory(LocalDisk(str(tmp_path)), lambda _topic: COMPACT, clock, SeededRandom(1))
    directory.open()
    log = directory.create("a", 0, bytes(16), now_ms)
    for number in range(30):
        record = Record(0, now_ms, b"%d" % number, b"x" * 50, ())
        log.append_as_leader(encode_batch([record]), 0, now_ms)
    log.advance_high_watermark(log.end_offset)
    plan = Cleaner([directory], CleanerConfig(io_buffer_size=100), clock).next(now_ms)
    assert plan is not None

    class StopsInTheSecondPart(Throttle):
        spent = 0

        def spend(self, size: int) -> None:
            self.spent += size
            self.is_stopped = self.spent > log.size + 300

    plan.job._throttle = StopsInTheSecondPart(clock, 1.0)
    assert isinstance(plan.run().result, CompactionStopped)
    links = (os.readlink(entry) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink())
    assert not [target for target in links if CLEANED in target]


@pytest.mark.parametrize("after_bytes", [0, 300, 2_000, 3_000, 5_000])
@pytest.mark.parametrize("is_made_anew", [False, True])
def test_a_partition_that_is_deleted_while_a_thread_compacts_it_costs_no_directory(
    tmp_path: Path, after_bytes: int, is_made_anew: bool
) -> None:
    clock = FakeClock()
    now_ms = clock.now_ms()
    directory = LogDirectory(LocalDisk(str(tmp_path)), lambda _topic: COMPACT, clock, SeededRandom(1))
    directory.open()
    log = directory.create("a", 0, bytes(16), now_ms)
    for number in range(30):
        record = Record(0, now_ms, b"%d" % (number % 20), b"x" * 50, ())
        log.append_as_leader(encode_batch([record]), 0, now_ms)
    log.advance_high_watermark(log.end_offset)
    cleaner = Cleaner([directory], CleanerConfig(io_buffer_size=100), clock)
    plan = cleaner.next(now_ms)
    assert plan is not None

    class DeletesMeanwhile(Throttle):
        spent = 0

        def spend(self, size: int) -> None:
            if self.spent <= after_bytes < self.spent + size:
                directory.delete("a", 0, now_ms)
                if is_made_anew:
                    directory.create("a", 0, bytes(16), now_ms)
            self.spent += size

    plan.job._throttle = DeletesMeanwhile(clock, 1.0)
    assert not cleaner.install(plan.run(), now_ms)
    assert not directory.is_offline
    assert not list(tmp_path.glob("a-0/*.cleaned"))


@pytest.mark.parametrize("step", range(12))
def test_a_partition_that_is_deleted_while_the_result_is_put_in_place_costs_no_directory(step: int) -> None:
    logs = Logs(COMPACT, "a", "b")
    logs.fill("a", 40)
    plan = logs.plan()
    steps = logs.cleaner.installing(plan.run(), logs.now_ms)
    with suppress(FileGone):
        for number, each in enumerate(steps):
            if number == step:
                recreate_the_partition(logs)
            if not isinstance(each, int):
                try:
                    each()
                except FileGone as error:
                    steps.throw(error)
    assert logs.disk.failure is None
    assert not logs.cleaner.is_busy(plan.partition)
    logs.fill("a", 10)
    assert logs.clean_all() == ["a"]


def test_the_log_can_be_read_and_written_between_any_two_steps_of_the_swap() -> None:
    logs = Logs(COMPACT, "a")
    logs.fill("a", 200)
    latest = {record.key: record.value for record in read_uncommitted(logs["a"])}
    for each in logs.cleaner.installing(logs.plan().run(), logs.now_ms):
        logs.fill("a", 1, roll=False)
        assert {record.key: record.value for record in read_uncommitted(logs["a"])} == latest
        if not isinstance(each, int):
            each()
    assert {record.key: record.value for record in read_uncommitted(logs["a"])} == latest
