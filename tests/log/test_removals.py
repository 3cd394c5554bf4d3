"""The second step of deletions."""

import random
from pathlib import Path

import pytest

from cordwood.log.config import LogConfig
from cordwood.log.dirs.directory import LogDirectory
from cordwood.log.removals import Removals
from cordwood.log.steps import do_all
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.disk import FileGone
from cordwood.runtime.files.descriptors import DescriptorPool
from cordwood.runtime.files.local_disk import LocalDisk
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.virtual.disk import SimDisk
from tests.log.support import NOW, batch

FIRST = f"{0:020d}"


def removals_on(disk: SimDisk, *names: str) -> Removals:
    for name in names:
        disk.create(name).close()
    return Removals(disk)


def test_due_removals_run_and_others_wait() -> None:
    disk = SimDisk(random.Random(1))
    removals = removals_on(disk, "a", "b", "c")
    removals.add(30, "c")
    removals.add(10, "a")
    removals.add(20, "b")
    assert removals.next_due_ms == 10
    do_all(removals.purging(20))
    assert list(disk.files()) == ["c"]
    assert removals.next_due_ms == 30


def test_a_job_removes_a_bounded_number_of_files() -> None:
    disk = SimDisk(random.Random(1))
    names = [f"f{number:03}" for number in range(200)]
    removals = removals_on(disk, *names)
    for name in names:
        removals.add(0, name)
    left = []
    for job in removals.purging(0):
        assert not isinstance(job, int)
        job()
        left.append(len(disk.files()))
    assert left == [136, 72, 8, 0]


def test_a_clean_stop_removes_all_files_and_leaves_directories_to_the_next_start() -> None:
    disk = SimDisk(random.Random(1))
    disk.make_directory("d")
    removals = removals_on(disk, "a", "d/b")
    removals.add(1_000, "a")
    removals.add(1_000, "d", is_partition=True)
    do_all(removals.purging(None))
    assert list(disk.files()) == ["d/b"]
    assert removals.next_due_ms == 1_000


def test_the_name_of_a_tree_is_durable_before_its_files_go() -> None:
    """Half a partition must not come back."""
    for seed in range(50):
        disk = SimDisk(random.Random(seed))
        disk.make_directory("t-0")
        for name in (f"t-0/{FIRST}.log", f"t-0/{FIRST}.index"):
            file = disk.create(name)
            file.append(b"x")
            file.sync()
        disk.sync_directory("t-0")
        disk.rename("t-0", "t-0.x-delete")
        removals = Removals(disk)
        removals.add(0, "t-0.x-delete", is_partition=True)
        disk.crash_at(disk.steps + 1 + seed % 4)
        with pytest.raises(BaseException, match="step"):
            do_all(removals.purging(0))
        files = list(disk.restart().files())
        assert not [name for name in files if name.startswith("t-0/")] or files == [
            f"t-0/{FIRST}.index",
            f"t-0/{FIRST}.log",
        ]


def test_deleting_a_partition_leaves_foreign_files(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimDisk(random.Random(1))
    for name in ("t-0", "u-0"):
        disk.make_directory(f"{name}/notes")
        for file in (f"{FIRST}.log", f"{FIRST}.log.corrupt.2", "leader-epoch-checkpoint", "partition.metadata"):
            disk.create(f"{name}/{file}").close()
    assert disk.remove_directory("u-0/notes")
    disk.create("t-0/notes/a.txt").close()
    disk.create("t-0/b.txt").close()
    removals = Removals(disk)
    removals.add(0, "t-0", is_partition=True)
    removals.add(0, "u-0", is_partition=True)
    do_all(removals.purging(0))
    assert list(disk.files()) == ["t-0/b.txt", "t-0/notes/a.txt"]
    assert not disk.exists("u-0")
    assert "Keeping /sim/t-0: it holds files that are not a partition's: b.txt, notes" in caplog.text


def test_readers_of_a_replaced_file_get_file_gone() -> None:
    disk = SimDisk(random.Random(1))
    removals = removals_on(disk, "a.deleted")
    first = disk.open("a.deleted")
    removals.add(10, "a.deleted", first)
    second = disk.create("a")
    second.append(b"second")
    second.rename("a.deleted")
    removals.add(20, "a.deleted", second)
    with pytest.raises(FileGone):
        first.read(0, 1)
    do_all(removals.purging(10))
    assert second.read(0, 6) == b"second", "it is not due yet"
    do_all(removals.purging(20))
    with pytest.raises(FileGone):
        second.read(0, 1)
    assert disk.failure is None


def test_a_file_that_takes_a_name_which_a_thread_is_about_to_remove_is_gone_at_once() -> None:
    disk = SimDisk(random.Random(1))
    removals = removals_on(disk, "a.deleted")
    removals.add(10, "a.deleted", disk.open("a.deleted"))
    steps = removals.purging(10)
    job = next(steps)
    assert not isinstance(job, int)
    second = disk.create("a")
    second.rename("a.deleted")
    removals.add(20, "a.deleted", second)
    job()
    with pytest.raises(FileGone):
        second.read(0, 1)
    do_all(steps)
    do_all(removals.purging(20))
    assert disk.failure is None


def test_a_reader_of_a_segment_that_was_compacted_away_twice_costs_no_directory(tmp_path: Path) -> None:
    """Both passes leave a file of the same name, and the reader's descriptor was given back in the meantime."""
    disk = LocalDisk(str(tmp_path), DescriptorPool(2))
    config = LogConfig(segment_bytes=150)
    directory = LogDirectory(disk, lambda _topic: config, SystemClock(), SeededRandom(3))
    directory.open()
    log = directory.create("t", 0, bytes(16), NOW)
    readers = []
    for _ in range(2):
        log.truncate_fully(0, NOW)
        for number in range(6):
            log.append_as_leader(batch(str(number)), 0, NOW)
        log.advance_high_watermark(log.end_offset)
        readers.append(log.read(0, 1_000, log.end_offset))
        log.delete_segments([log.segments.first], NOW, "a test")
    for name in ("x", "y", "z"):
        disk.create(name)
    directory.purge(NOW + 60_000)
    for reader in readers:
        assert reader is not None
        with pytest.raises(FileGone):
            reader.read()
    assert not directory.is_offline
