"""A new partition: it has no files until the first write, and that is not visible otherwise."""

import errno
from collections.abc import Callable
from random import Random

import pytest

from cordwood.log.config import LogConfig
from cordwood.log.dirs.directory import LogDirectory
from cordwood.log.log import Log
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.disk import DiskError, FileGone
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.virtual.disk import SimDisk
from tests.log.support import NOW, batch, values

TOPIC_ID = bytes(range(16))


class New:
    """A directory with one partition that was just created."""

    def __init__(self) -> None:
        self.disk = SimDisk(Random(1))
        self.directory = self._open()
        self.log: Log = self.directory.create("t", 0, TOPIC_ID, NOW)

    def files(self) -> list[str]:
        return sorted(path for path in self.disk.files() if path.startswith("t-0"))

    def restart(self, *, power_lost: bool) -> None:
        self.disk = self.disk.restart(power_lost=power_lost)
        self.directory = self._open()

    def _open(self) -> LogDirectory:
        directory = LogDirectory(self.disk, lambda _topic: LogConfig(), SystemClock(), SeededRandom(3))
        directory.open()
        return directory


def test_it_has_no_files_until_its_first_batch() -> None:
    new = New()
    assert new.files() == []
    new.log.append_as_leader(batch("a"), 0, NOW)
    names = ["00000000000000000000.index", "00000000000000000000.log", "00000000000000000000.timeindex"]
    assert new.files() == [*(f"t-0/{name}" for name in names), "t-0/partition.metadata"]


def test_listing_finds_and_creates_nothing() -> None:
    new = New()
    log = new.log
    assert log.read(0, 1_000, 0) is None
    assert (log.offset_for_timestamp(0), log.offset_of_max_timestamp(), log.size) == (None, None, 0)
    assert log.active.file.read(0, 100) == b""
    assert not log.truncate_to(0, NOW)
    assert not log.flush_due(NOW)
    log.write_out()
    assert new.files() == []


ASKING: dict[str, Callable[[Log], None]] = {
    "flush": lambda log: log.flush(NOW),
    "truncate": lambda log: log.truncate_fully(7, NOW),
    "sync": lambda log: log.active.file.sync(),
}


@pytest.mark.parametrize("how", ASKING)
def test_operations_that_need_the_files_create_them(how: str) -> None:
    new = New()
    ASKING[how](new.log)
    assert "t-0/partition.metadata" in new.files()
    new.log.append_as_leader(batch("a"), 0, NOW)
    assert values(new.log) == ["a"]


@pytest.mark.parametrize("power_lost", [False, True])
def test_after_a_crash_it_is_not_there_and_can_be_created_again(power_lost: bool) -> None:
    new = New()
    new.directory.checkpoints.write_all()
    new.restart(power_lost=power_lost)
    assert not new.directory.logs
    log = new.directory.create("t", 0, TOPIC_ID, NOW)
    log.append_as_leader(batch("a"), 0, NOW)
    log.flush(NOW)
    new.restart(power_lost=True)
    assert values(new.directory.logs["t", 0]) == ["a"]
    assert new.directory.topic_ids["t", 0] == TOPIC_ID


def test_no_checkpoint_mentions_it() -> None:
    new = New()
    new.directory.checkpoints.write_all()
    assert not any(b"t 0 " in data for data in new.disk.files().values())


def test_it_is_deleted_without_a_trace() -> None:
    new = New()
    file = new.log.active.file
    new.directory.delete("t", 0, NOW)
    assert not any("t-0" in path for path in new.disk.files())
    with pytest.raises(FileGone):
        file.append(b"late")


def test_a_directory_that_has_failed_takes_no_new_one() -> None:
    new = New()
    new.disk.fail_next("create", errno.ENOSPC)
    with pytest.raises(DiskError):
        new.log.append_as_leader(batch("a"), 0, NOW)
    with pytest.raises(DiskError):
        new.directory.create("t", 1, TOPIC_ID, NOW)
