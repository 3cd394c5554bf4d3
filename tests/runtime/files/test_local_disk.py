"""The real Disk: its failures, with real causes, and its lock. Behaviour shared with the simulated one is tested in
test_disk_contract.py."""

import os
import resource
import shutil
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cordwood.runtime.disk import DiskError
from cordwood.runtime.files.descriptors import DescriptorPool
from cordwood.runtime.files.local_disk import LocalDisk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LocalDisk]:
    disk = LocalDisk(str(tmp_path / "logs"))
    yield disk
    disk.close()


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Makes writes beyond `size` fail with EFBIG (Python ignores SIGXFSZ)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_the_directory_is_made_with_its_parents(tmp_path: Path) -> None:
    disk = LocalDisk(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()
    assert disk.root == str(tmp_path / "a" / "b")


def test_a_directory_that_cannot_be_made_is_offline_from_the_start_and_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    disk = LocalDisk(str(tmp_path / "file" / "logs"))
    assert disk.failure is not None
    with pytest.raises(DiskError, match=r"log directory .*/file/logs is offline: create \.: Not a directory"):
        disk.lock()


def test_exists_does_not_take_an_error_for_an_absence(tmp_path: Path) -> None:
    disk = LocalDisk(str(tmp_path))
    assert not disk.exists("nothing")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(DiskError, match="stat loop: Too many levels of symbolic links"):
        disk.exists("loop")


def test_a_failed_append_takes_the_disk_offline_with_the_reason(disk: LocalDisk) -> None:
    file = disk.create("a.log")
    file.append(b"x" * 1_000)
    with largest_file(1_500), pytest.raises(DiskError) as raised:
        file.append(b"y" * 1_000)
    assert str(raised.value) == f"log directory {disk.root} is offline: append to a.log: File too large"
    assert isinstance(raised.value.__cause__, OSError)
    assert file.size == 1_000
    with pytest.raises(DiskError, match=r"append to a\.log"):
        file.append(b"z")


def test_a_failed_truncate_raises(disk: LocalDisk) -> None:
    file = disk.create("a.log")
    with largest_file(100), pytest.raises(DiskError, match=r"truncate a\.log: File too large"):
        file.truncate(200)
    assert file.size == 0


def test_a_failed_write_file_leaves_the_old_content(disk: LocalDisk) -> None:
    disk.write_file("checkpoint", b"old")
    with largest_file(100), pytest.raises(DiskError, match="write checkpoint: File too large"):
        disk.write_file("checkpoint", bytes(200))
    assert Path(disk.root, "checkpoint").read_bytes() == b"old"


def test_a_removed_directory_is_noticed_and_the_other_stays_online(tmp_path: Path) -> None:
    descriptors = DescriptorPool()
    lost, kept = (LocalDisk(str(tmp_path / name), descriptors) for name in ("lost", "kept"))
    shutil.rmtree(lost.root)
    with pytest.raises(DiskError, match=r"log directory .*/lost is offline: create a\.log: No such file or directory"):
        lost.create("a.log")
    assert lost.failure is not None
    assert kept.failure is None
    kept.create("a.log").append(b"x")
    assert kept.read_file("a.log") == b"x"
    kept.close()


def test_a_name_that_the_file_system_refuses_is_an_error_with_its_cause(disk: LocalDisk) -> None:
    with pytest.raises(DiskError, match=r"create n+: File name too long"):
        disk.create("n" * 300)


def test_the_first_failure_is_the_one_that_is_shown(disk: LocalDisk) -> None:
    file = disk.create("a.log")
    with pytest.raises(DiskError):
        disk.open("first")
    with pytest.raises(DiskError, match="open first"):
        file.append(b"x")
    assert disk.failure is not None
    assert disk.failure.path == "first"


def test_raising_the_same_failure_many_times_does_not_grow_it(disk: LocalDisk) -> None:
    for _ in range(50):
        with pytest.raises(DiskError) as raised:
            disk.open("missing")
    assert len(traceback.extract_tb(raised.value.__traceback__)) < 10


def test_a_link_to_nothing_hides_only_itself(disk: LocalDisk) -> None:
    disk.create("a.log")
    os.symlink("nowhere", f"{disk.root}/broken")
    assert [entry.name for entry in disk.list()] == ["a.log"]


def test_modification_time_is_in_milliseconds(disk: LocalDisk) -> None:
    disk.create("a.log")
    os.utime(f"{disk.root}/a.log", ns=(0, 1_700_000_000_123_456_789))
    assert disk.modified_ms("a.log") == 1_700_000_000_123


def test_a_sync_job_runs_in_another_thread_though_its_files_are_closed_in_the_meantime(disk: LocalDisk) -> None:
    files = [disk.create(f"{number}.log") for number in range(10)]
    before = len(os.listdir("/proc/self/fd"))
    job = disk.sync_job(files)
    for file in files:
        file.close()
    thread = threading.Thread(target=job)
    thread.start()
    thread.join()
    assert disk.failure is None
    assert len(os.listdir("/proc/self/fd")) == before - len(files)


def test_a_sync_job_that_cannot_be_made_leaks_no_descriptor(disk: LocalDisk) -> None:
    here, gone = disk.create("here"), disk.create("gone")
    gone.close()
    disk.remove("gone")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(DiskError, match="open gone"):
        disk.sync_job([here, gone])
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_lock_refuses_a_second_process_and_is_free_when_the_first_ends(disk: LocalDisk) -> None:
    script = (
        "import sys; from cordwood.runtime.files.local_disk import LocalDisk; "
        "print(LocalDisk(sys.argv[1]).lock(), flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, disk.root], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "True\n"
    assert not disk.lock()
    process.kill()
    process.communicate()
    assert disk.lock()


def test_the_lock_is_of_the_kind_that_kafka_takes(disk: LocalDisk) -> None:
    """Java's FileChannel.tryLock is a record lock of fcntl's, as lockf is; flock would not see it."""
    script = (
        "import fcntl, sys; file = open(sys.argv[1] + '/.lock', 'w'); "
        "fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB); print('locked', flush=True); sys.stdin.read()"
    )

    def kafka() -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [sys.executable, "-c", script, disk.root], stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )

    first = kafka()
    assert first.stdout is not None
    assert first.stdout.readline() == "locked\n"
    assert not disk.lock()
    first.communicate()
    assert disk.lock()
    assert "BlockingIOError" in kafka().communicate()[1]
