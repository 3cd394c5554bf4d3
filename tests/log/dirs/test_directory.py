"""A log directory, and several of them."""

import logging
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cordwood.log.checkpoints.formats import read_offsets
from cordwood.log.config import LogConfig
from cordwood.log.dirs.directories import LogDirectories
from cordwood.log.dirs.directory import LogDirectory
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.disk import DiskError, FileGone
from cordwood.runtime.files.local_disk import LocalDisk
from cordwood.runtime.randomness import SeededRandom
from tests.log.support import NOW, batch, values

TOPIC_ID = bytes(range(16))


def directory_at(path: Path) -> LogDirectory:
    return LogDirectory(LocalDisk(str(path)), lambda _topic: LogConfig(), SystemClock(), SeededRandom(3))


def fill(directory: LogDirectory, topic: str = "t", partition: int = 0, count: int = 3) -> None:
    log = directory.create(topic, partition, TOPIC_ID, NOW)
    for number in range(count):
        log.append_as_leader(batch(f"{topic}{number}"), 0, NOW)
    log.advance_high_watermark(log.end_offset)


def test_partitions_come_back_after_a_clean_stop(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    directory.open()
    fill(directory, "a", 0)
    fill(directory, "with-dashes-1", 12)
    directory.close(broker_epoch=42)

    again = directory_at(tmp_path)
    again.open()
    assert sorted(again.logs) == [("a", 0), ("with-dashes-1", 12)]
    assert values(again.logs["a", 0]) == ["a0", "a1", "a2"]
    assert again.logs["a", 0].high_watermark == 3
    assert again.topic_ids["a", 0] == TOPIC_ID
    assert again.last_broker_epoch == 42
    assert again.metrics.recovered_bytes == 0


def test_partitions_come_back_after_a_kill(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    directory.open()
    fill(directory)
    directory.checkpoints.write_all()

    again = directory_at(tmp_path)
    again.open()
    assert values(again.logs["t", 0]) == ["t0", "t1", "t2"]
    assert again.metrics.recovered_bytes == again.logs["t", 0].size
    assert again.last_broker_epoch == -1


def test_a_clean_stop_counts_once(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    directory.open()
    fill(directory)
    directory.close()
    assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == b'{"version":0,"brokerEpoch":-1}'
    directory_at(tmp_path).open()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_deleted_records_stay_deleted_after_a_restart(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    directory.open()
    fill(directory)
    directory.logs["t", 0].advance_start(2)
    directory.close()
    assert read_offsets(directory.disk, "log-start-offset-checkpoint") == {("t", 0): 2}
    again = directory_at(tmp_path)
    again.open()
    assert again.logs["t", 0].start_offset == 2


def test_a_deleted_partition_is_gone_at_once_and_its_files_later(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    directory.open()
    fill(directory)
    directory.delete("t", 0, NOW)
    assert not (tmp_path / "t-0").exists()
    (doomed,) = tmp_path.glob("t-0.*-delete")
    directory.purge(NOW + 59_999)
    assert doomed.exists()
    directory.purge(NOW + 60_000)
    assert not doomed.exists()
    fill(directory)
    assert values(directory.logs["t", 0]) == ["t0", "t1", "t2"]


@pytest.mark.parametrize("is_killed", [False, True])
def test_the_offsets_of_a_deleted_partition_are_not_those_of_a_new_one(tmp_path: Path, is_killed: bool) -> None:
    """Of its name. Not even if the node was killed in the middle of the deletion, and is again before a checkpoint."""
    directory = directory_at(tmp_path)
    directory.open()
    fill(directory, count=9)
    directory.logs["t", 0].advance_start(8)
    directory.checkpoints.write_all()
    if is_killed:
        (tmp_path / "t-0").rename(tmp_path / f"t-0.{7:032x}-delete")
        directory = directory_at(tmp_path)
        directory.open()
    else:
        directory.delete("t", 0, NOW)
    fill(directory)
    again = directory_at(tmp_path)
    again.open()
    assert values(again.logs["t", 0]) == ["t0", "t1", "t2"]
    assert again.logs["t", 0].high_watermark == 0


def test_a_reader_of_a_deleted_partition_never_gets_the_bytes_of_a_new_one(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    directory.open()
    fill(directory)
    log = directory.logs["t", 0]
    found = log.read(0, 1000, 3)
    log.roll(NOW)
    log.delete_segments([log.segments.first], NOW, "a test")
    assert found is not None
    directory.delete("t", 0, NOW)
    fill(directory)
    with pytest.raises(FileGone):
        found.read()
    assert not directory.is_offline


def test_an_emptied_log_is_recovered_from_where_it_continued(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    directory.open()
    fill(directory, count=5)
    directory.logs["t", 0].flush(NOW)
    directory.checkpoints.cleaner_offsets["t", 0] = 4
    directory.checkpoints.write_all()
    directory.truncate_fully("t", 0, 2, NOW)
    assert (tmp_path / "recovery-point-offset-checkpoint").read_bytes() == b"0\n1\nt 0 2\n"
    assert (tmp_path / "cleaner-offset-checkpoint").read_bytes() == b"0\n1\nt 0 2\n"


def test_a_deletion_interrupted_by_a_crash_is_finished(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    directory.open()
    fill(directory)
    directory.delete("t", 0, NOW)
    again = directory_at(tmp_path)
    again.open()
    assert again.logs == {}
    again.purge(SystemClock().now_ms())
    assert not list(tmp_path.glob("*-delete"))


def test_damaged_checkpoints_cost_a_recovery_and_nothing_else(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = directory_at(tmp_path)
    directory.open()
    fill(directory)
    directory.close()
    for path in tmp_path.glob("*-checkpoint"):
        path.write_bytes(b"0\n7\nrubbish")
    again = directory_at(tmp_path)
    again.open()
    assert values(again.logs["t", 0]) == ["t0", "t1", "t2"]
    assert len([record for record in caplog.records if record.message.startswith("Ignoring a damaged ")]) == 5


def test_foreign_directories_and_the_metadata_log_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "__cluster_metadata-0").mkdir()
    (tmp_path / "lost+found").mkdir()
    directory = directory_at(tmp_path)
    directory.open()
    assert directory.logs == {}
    assert (tmp_path / "lost+found").exists()


class TestSeveral:
    @pytest.fixture
    def file_size_limit(self) -> Iterator[None]:
        """A real full disk, as far as a process can have one of its own: no file may grow past 64 KiB."""
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, hard))
        yield
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)

    def opened(self, tmp_path: Path) -> LogDirectories:
        directories = LogDirectories([directory_at(tmp_path / "one"), directory_at(tmp_path / "two")])
        directories.open()
        return directories

    def test_partitions_are_spread_evenly(self, tmp_path: Path) -> None:
        directories = self.opened(tmp_path)
        for number in range(6):
            directories.create("t", number, TOPIC_ID, NOW)
        assert [len(directory.logs) for directory in directories.directories] == [3, 3]
        assert directories.log("t", 5) is not None
        assert directories.log("t", 6) is None

    @pytest.mark.usefixtures("file_size_limit")
    def test_one_that_fails_goes_offline_alone_and_reports_it(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        offline: list[LogDirectory] = []
        directories = LogDirectories([directory_at(tmp_path / "one"), directory_at(tmp_path / "two")], offline.append)
        directories.open()
        full, good = directories.create("t", 0, TOPIC_ID, NOW), directories.create("t", 1, TOPIC_ID, NOW)
        for _ in range(6):
            full.append_as_leader(batch("x" * 10_000), 0, NOW)
        with pytest.raises(DiskError) as error:
            full.append_as_leader(batch("x" * 10_000), 0, NOW)
        directory = directories.directory_of("t", 0) or directories.directories[0]
        directories.take_offline(directory, error.value)

        assert offline == [directory]
        assert directories.log("t", 0) is None
        good.append_as_leader(batch("still here"), 0, NOW)
        assert directories.create("t", 2, TOPIC_ID, NOW) in directories.directories[1].logs.values()
        directories.checkpoint()
        line = next(record for record in caplog.records if record.levelno == logging.ERROR)
        assert str(tmp_path / "one") in line.message
        assert "offline" in line.message

    def test_one_that_cannot_be_opened_leaves_the_other(self, tmp_path: Path) -> None:
        first = directory_at(tmp_path / "one")
        first.open()
        fill(first)
        first.close()
        (tmp_path / "one" / "t-0" / "leader-epoch-checkpoint").unlink()
        (tmp_path / "one" / "t-0" / "leader-epoch-checkpoint").mkdir()
        directories = self.opened(tmp_path)
        assert [directory.is_offline for directory in directories.directories] == [True, False]
