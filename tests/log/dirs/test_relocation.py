"""A replica that moves from one log directory to another."""

import random
from contextlib import suppress

import pytest

from cordwood.log.config import MAX_INT64, LogConfig
from cordwood.log.dirs.directories import LogDirectories
from cordwood.log.dirs.directory import LogDirectory
from cordwood.log.dirs.relocation import Relocation
from cordwood.log.log import Log
from cordwood.runtime.disk import DiskError
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.virtual.disk import SimDisk, SimulatedCrash
from cordwood.wire.record import Record
from cordwood.wire.records import encode_batch
from tests.log.support import NOW, batch, values

TOPIC_ID = bytes(range(16))
KEY = ("t", 0)


class StillClock:
    def now_ms(self) -> int:
        return NOW

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody blocks here")


def directories(*disks: SimDisk, config: LogConfig | None = None) -> LogDirectories:
    opened = LogDirectories(
        [LogDirectory(disk, lambda _topic: config or LogConfig(), StillClock(), SeededRandom(3)) for disk in disks]
    )
    opened.open()
    return opened


def two_disks(seed: int = 1) -> tuple[SimDisk, SimDisk]:
    return SimDisk(random.Random(seed), root="/a"), SimDisk(random.Random(-seed), root="/b")


def filled(both: LogDirectories, count: int = 5) -> Log:
    """On stable storage, in the first of them."""
    log = both.directories[0].create(*KEY, TOPIC_ID, NOW)
    append(log, *(f"v{number}" for number in range(count)))
    log.flush(NOW)
    return log


def append(log: Log, *texts: str) -> None:
    for text in texts:
        log.append_as_leader(batch(text), 0, NOW)
    log.advance_high_watermark(log.end_offset)


def relocation_of(both: LogDirectories) -> Relocation:
    return Relocation(both.directories[0], both.directories[1], *KEY, TOPIC_ID, StillClock())


def catch_up(relocation: Relocation) -> None:
    while relocation.copy(100):
        pass


def move(both: LogDirectories) -> Log:
    relocation = relocation_of(both)
    catch_up(relocation)
    relocation.future.flush(NOW)
    return relocation.finish()


def test_a_moved_replica_has_all_records_and_offsets() -> None:
    both = directories(*two_disks())
    present = filled(both)
    moved = move(both)
    assert values(moved) == ["v0", "v1", "v2", "v3", "v4"]
    assert (moved.start_offset, moved.high_watermark, moved.end_offset) == (0, 5, present.end_offset)
    assert both.directory_of(*KEY) is both.directories[1]
    assert both.directories[1].topic_ids[KEY] == TOPIC_ID
    append(moved, "after")
    assert values(moved)[-1] == "after"


def test_records_written_during_a_move_move_too() -> None:
    both = directories(*two_disks())
    present = filled(both)
    relocation = relocation_of(both)
    relocation.copy(100)
    append(present, "meanwhile")
    catch_up(relocation)
    append(present, "last")
    assert relocation.lag == 1
    assert values(relocation.finish())[5:] == ["meanwhile", "last"]


def test_records_above_the_high_watermark_are_copied_last() -> None:
    both = directories(*two_disks())
    present = filled(both)
    present.append_as_leader(batch("unsure"), 0, NOW)
    relocation = relocation_of(both)
    catch_up(relocation)
    assert relocation.future.end_offset == 5
    moved = relocation.finish()
    assert (moved.high_watermark, moved.end_offset) == (5, 6)


def test_a_start_within_a_batch_stays_where_it_is() -> None:
    both = directories(*two_disks())
    log = both.directories[0].create(*KEY, TOPIC_ID, NOW)
    log.append_as_leader(batch("gone", "gone", "kept"), 0, NOW)
    append(log, "last")
    log.advance_start(2)
    moved = move(both)
    assert moved.start_offset == 2
    assert values(moved) == ["kept", "last"]


def test_an_empty_log_that_does_not_begin_at_0_keeps_its_place() -> None:
    both = directories(*two_disks())
    log = filled(both)
    log.truncate_fully(40, NOW)
    moved = move(both)
    assert (moved.start_offset, moved.high_watermark, moved.end_offset) == (40, 40, 40)


def test_gaps_of_compaction_stay_gaps() -> None:
    both = directories(*two_disks(), config=LogConfig(compact=True))
    first, second = both.directories
    log = first.create(*KEY, TOPIC_ID, NOW)
    for offset in (3, 9, 20):
        record = Record(offset, NOW, b"k", str(offset).encode(), ())
        data = encode_batch([record], base_offset=offset, leader_epoch=0)
        log.append_as_follower(data, NOW)
    log.advance_high_watermark(21)
    first.checkpoints.cleaner_offsets[KEY] = 9
    moved = move(both)
    assert values(moved) == ["3", "9", "20"]
    assert (moved.start_offset, moved.end_offset) == (0, 21)
    assert second.checkpoints.cleaner_offsets == {KEY: 9}
    assert first.checkpoints.cleaner_offsets == {}


def test_producers_are_known_after_the_move() -> None:
    both = directories(*two_disks())
    log = both.directories[0].create(*KEY, TOPIC_ID, NOW)
    sent = batch("x", producer_id=7, epoch=0, sequence=0)
    log.append_as_leader(bytearray(sent), 0, NOW)
    log.advance_high_watermark(1)
    moved = move(both)
    again = moved.append_as_leader(bytearray(sent), 0, NOW)
    assert again.is_duplicate


def test_a_producer_whose_records_were_deleted_is_known_after_the_move() -> None:
    both = directories(*two_disks())
    log = both.directories[0].create(*KEY, TOPIC_ID, NOW)
    sent = batch("x", producer_id=7, epoch=0, sequence=0)
    log.append_as_leader(bytearray(sent), 0, NOW)
    append(log, "v1")
    log.advance_start(1)
    moved = move(both)
    assert moved.append_as_leader(bytearray(sent), 0, NOW).is_duplicate


@pytest.mark.parametrize("segment_bytes", [1 << 20, 100])
def test_a_producer_whose_records_were_deleted_is_known_after_the_move_and_a_crash(segment_bytes: int) -> None:
    disks = two_disks()
    both = directories(*disks, config=LogConfig(segment_bytes=segment_bytes))
    log = both.directories[0].create(*KEY, TOPIC_ID, NOW)
    sent = batch("x", producer_id=7, epoch=0, sequence=0)
    log.append_as_leader(bytearray(sent), 0, NOW)
    append(log, "v1", "v2", "v3")
    log.advance_start(1)
    move(both)
    again = directories(*(disk.restart() for disk in disks), config=LogConfig(segment_bytes=segment_bytes))
    moved = again.directories[1].logs[KEY]
    assert values(moved) == ["v1", "v2", "v3"]
    assert moved.append_as_leader(bytearray(sent), 0, NOW).is_duplicate


def test_each_of_a_producers_last_batches_is_still_known_as_a_duplicate() -> None:
    both = directories(*two_disks())
    log = both.directories[0].create(*KEY, TOPIC_ID, NOW)
    sent = [
        encode_batch([Record(0, NOW, b"k", b"v")], producer_id=7, producer_epoch=0, base_sequence=sequence)
        for sequence in range(5)
    ]
    for one in sent:
        log.append_as_leader(bytearray(one), 0, NOW)
    log.advance_high_watermark(log.end_offset)
    moved = move(both)
    again = [moved.append_as_leader(bytearray(one), 0, NOW) for one in sent]
    assert [(appended.first_offset, appended.is_duplicate) for appended in again] == [(at, True) for at in range(5)]


def test_a_copy_overtaken_by_retention_restarts() -> None:
    both = directories(*two_disks())
    present = filled(both)
    relocation = relocation_of(both)
    relocation.copy(1)
    present.roll(NOW)
    append(present, "new")
    present.advance_start(5)
    present.delete_segments([present.segments.first], NOW, "a test")
    catch_up(relocation)
    moved = relocation.finish()
    assert values(moved) == ["new"]
    assert moved.start_offset == 5


def test_a_move_that_is_given_up_leaves_nothing() -> None:
    a, b = two_disks()
    both = directories(a, b)
    present = filled(both)
    relocation = relocation_of(both)
    relocation.copy(100)
    relocation.give_up()
    assert not relocation.is_wanted
    both.purge(MAX_INT64)
    assert [entry.name for entry in b.list() if entry.is_directory] == []
    assert values(present) == ["v0", "v1", "v2", "v3", "v4"]


def test_a_move_is_not_wanted_any_more_once_the_partition_is_deleted() -> None:
    both = directories(*two_disks())
    filled(both)
    relocation = relocation_of(both)
    both.directories[0].delete(*KEY, NOW)
    assert not relocation.is_wanted


@pytest.mark.parametrize("operation", ["write", "append to", "sync", "rename"])
@pytest.mark.parametrize("failing", [0, 1])
def test_a_disk_that_fails_at_the_last_moment_leaves_one_replica(failing: int, operation: str) -> None:
    disks = two_disks()
    both = directories(*disks)
    present = filled(both)
    relocation = relocation_of(both)
    catch_up(relocation)
    disks[failing].fail_next(operation)
    try:
        moved: Log | None = relocation.finish()
    except DiskError:
        moved = None
    holders = [directory for directory in both.directories if KEY in directory.logs]
    assert len(holders) == 1
    if moved is not None:
        assert values(moved) == ["v0", "v1", "v2", "v3", "v4"]
    elif failing == 1 and holders[0] is both.directories[0]:
        # The other disk continues, and so does the replica on it.
        assert values(present) == ["v0", "v1", "v2", "v3", "v4"]
    else:
        # It is offline with its directory.
        assert holders[0] is both.directories[failing]


@pytest.mark.parametrize("power_lost", [True, False])
@pytest.mark.parametrize("operation", ["write", "append to", "sync", "rename"])
@pytest.mark.parametrize("failing", [0, 1])
def test_a_disk_that_fails_at_the_last_moment_and_comes_back_has_not_cost_a_record(
    failing: int, operation: str, power_lost: bool
) -> None:
    disks = two_disks()
    both = _with_a_start_within_a_batch(*disks)
    relocation = relocation_of(both)
    catch_up(relocation)
    disks[failing].fail_next(operation)
    with suppress(DiskError):
        relocation.finish()
    if not both.directories[1].is_offline:
        relocation.give_up()
        both.directories[1].checkpoints.write_all()
        both.directories[1].purge(MAX_INT64)
    # Once without the disk that failed, which decides nothing.
    first, second = (disk.restart(power_lost=power_lost) for disk in disks)
    first.fail_next("list")
    without = directories(first, second)
    assert without.directories[0].is_offline
    without.directories[1].checkpoints.write_all()
    again = directories(first.restart(power_lost=power_lost), second.restart(power_lost=power_lost))
    again.purge(MAX_INT64)
    holders = [directory for directory in again.directories if KEY in directory.logs]
    assert len(holders) == 1
    assert values(holders[0].logs[KEY]) == ["v2", "v3", "v4"]


def test_a_move_in_progress_at_a_stop_is_requested_again() -> None:
    a, b = two_disks()
    both = directories(a, b)
    filled(both)
    relocation_of(both).copy(1)
    both.close()
    again = directories(a.restart(power_lost=False), b.restart(power_lost=False))
    assert list(again.directories[1].interrupted) == [KEY]
    assert again.directory_of(*KEY) is again.directories[0]
    again.purge(MAX_INT64)
    assert [entry.name for entry in again.directories[1].disk.list() if entry.is_directory] == []


def _steps_of_a_move(both: LogDirectories, disk: SimDisk) -> int:
    before = disk.steps
    move(both)
    return disk.steps - before


def _with_a_start_within_a_batch(a: SimDisk, b: SimDisk) -> LogDirectories:
    both = directories(a, b)
    log = both.directories[0].create(*KEY, TOPIC_ID, NOW)
    log.append_as_leader(batch("v0", "v1", "v2"), 0, NOW)
    append(log, "v3", "v4")
    log.advance_start(2)
    log.flush(NOW)
    both.checkpoint()
    return both


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("power_lost", [True, False])
@pytest.mark.parametrize("crashing", [0, 1])
def test_a_crash_at_any_step_leaves_one_replica_with_all_records(crashing: int, power_lost: bool, seed: int) -> None:
    disks = two_disks()
    steps = _steps_of_a_move(_with_a_start_within_a_batch(*disks), disks[crashing])
    assert steps
    for step in range(1, steps + 1):
        disks = two_disks(seed=seed * 1000 + step)
        both = _with_a_start_within_a_batch(*disks)
        disks[crashing].crash_at(disks[crashing].steps + step)
        with pytest.raises(SimulatedCrash):
            move(both)
        again = directories(*(disk.restart(power_lost=power_lost) for disk in disks))
        holders = [directory for directory in again.directories if KEY in directory.logs]
        assert len(holders) == 1, step
        assert values(holders[0].logs[KEY]) == ["v2", "v3", "v4"], step
        assert KEY not in holders[0].interrupted, step


def test_a_concurrent_truncation_leaves_no_truncated_records() -> None:
    both = directories(*two_disks())
    log = filled(both)
    log.advance_high_watermark(log.end_offset)
    relocation = relocation_of(both)
    while relocation.copy(1 << 20):
        pass
    # As a follower does after an unclean election; then the new leader's records come.
    log.truncate_to(2, NOW)
    append(log, "other", "records", "than", "before")
    moved = relocation.finish()
    assert values(moved) == ["v0", "v1", "other", "records", "than", "before"]
