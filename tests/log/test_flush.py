"""Flushing in a thread, while the log continues: what the recovery point promises then, and what must not go wrong."""

import random
from pathlib import Path

from cordwood.log.idempotence.producers import AppendOrigin
from cordwood.log.log import Log
from cordwood.runtime.disk import Disk
from cordwood.sim.virtual.disk import SimDisk
from cordwood.sim.virtual.file_system import CrashOdds
from cordwood.wire.control import end_txn_marker
from tests.log.dirs.test_directory import TOPIC_ID, directory_at, fill
from tests.log.support import NOW, batch, open_at, values


def forgetful_disk() -> SimDisk:
    """A crash takes everything that was not synced."""
    return SimDisk(random.Random(1), odds=CrashOdds(nothing=1.0, everything=0.0))


def opened(disk: Disk) -> Log:
    log = open_at(disk)
    log.flush(NOW)
    return log


def append(log: Log, *texts: str, epoch: int = 0) -> None:
    for text in texts:
        log.append_as_leader(batch(text), epoch, NOW)


def test_the_recovery_point_moves_to_where_the_log_ended_when_the_flush_began() -> None:
    disk = forgetful_disk()
    log = opened(disk)
    append(log, "a", "b")
    job = log.begin_flush(NOW)
    append(log, "c")
    job.run()
    log.end_flush(job)
    assert log.durability.recovery_point == 2
    assert values(open_at(disk.restart(), recovery_point=2)) == ["a", "b"]


def test_writes_after_a_truncation_do_not_count_as_flushed() -> None:
    disk = forgetful_disk()
    log = opened(disk)
    append(log, "a", "b", "c", "d")
    job = log.begin_flush(NOW)
    job.run()
    log.truncate_to(1, NOW)
    append(log, "B", "C", "D", epoch=1)
    log.end_flush(job)
    assert log.durability.recovery_point <= 1
    log.flush(NOW)
    assert log.durability.recovery_point == 4
    assert values(open_at(disk.restart(), recovery_point=4)) == ["a", "B", "C", "D"]


def test_writes_after_a_full_truncation_do_not_count_as_flushed() -> None:
    log = opened(forgetful_disk())
    append(log, "a", "b", "c", "d")
    job = log.begin_flush(NOW)
    job.run()
    log.truncate_fully(0, NOW)
    append(log, "A", "B", "C", "D", epoch=1)
    log.end_flush(job)
    assert log.durability.recovery_point == 0


def test_a_segment_that_is_sealed_during_a_flush_has_its_indexes_below_the_recovery_point() -> None:
    """They are not rebuilt from there, and without them aborted data would be shown and old segments kept or lost."""
    disk = forgetful_disk()
    log = opened(disk)
    log.append_as_leader(batch("x", producer_id=1, epoch=0, sequence=0, transactional=True), 0, NOW)
    log.append_as_leader(end_txn_marker(0, NOW, 1, 0, False, 1, 0), 0, NOW, AppendOrigin.COORDINATOR)
    job = log.begin_flush(NOW)
    log.roll(NOW)
    job.run()
    log.end_flush(job)
    disk.sync_directory("t-0")
    again = open_at(disk.restart(), recovery_point=log.durability.recovery_point)
    assert again.durability.recovery_point == 2
    assert [txn.first_offset for txn in again.aborted_txns_between(0, 2)] == [0]
    assert again.segments.first.max_timestamp == NOW


def test_a_partition_that_is_deleted_during_its_flush_leaves_the_directory_online(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    directory.open()
    fill(directory)
    job = directory.logs["t", 0].begin_flush(NOW)
    directory.delete("t", 0, NOW)
    job.run()
    assert not directory.is_offline
    directory.create("t", 0, TOPIC_ID, NOW)


def test_a_roll_makes_a_flush_due() -> None:
    """As Kafka does; else only a clean stop would ever move the recovery point of a log with the default settings."""
    log = opened(forgetful_disk())
    append(log, "a")
    assert not log.flush_due(NOW)
    log.roll(NOW)
    assert log.flush_due(NOW)
    log.flush(NOW)
    append(log, "b")
    assert not log.flush_due(NOW)


def test_however_many_segments_were_sealed_a_flush_takes_few_descriptors(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    for _ in range(100):
        append(log, "a")
        log.roll(NOW)
    log.truncate_to(99, NOW)
    append(log, "b")
    points = []
    while log.flush_due(NOW):
        before = len(list(Path("/proc/self/fd").iterdir()))
        job = log.begin_flush(NOW)
        assert len(list(Path("/proc/self/fd").iterdir())) - before < 100
        job.run()
        log.end_flush(job)
        assert log.durability.recovery_point == job.end_offset
        points.append(log.durability.recovery_point)
    assert points == [16, 32, 48, 64, 80, 96, 100]
