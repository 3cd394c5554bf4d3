"""The bound on open descriptors."""

import gc
import os
import resource
from pathlib import Path

import pytest

from cordwood.runtime.files.descriptors import DescriptorPool, default_limit
from cordwood.runtime.files.local_disk import LocalDisk, LocalFile

LIMIT = 16
FILES = 3_000


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def pool() -> DescriptorPool:
    return DescriptorPool(LIMIT)


@pytest.fixture
def disk(tmp_path: Path, pool: DescriptorPool) -> LocalDisk:
    return LocalDisk(str(tmp_path), pool)


def test_thousands_of_files_share_a_few_descriptors(disk: LocalDisk, pool: DescriptorPool) -> None:
    # Descriptors that others have left open must not be closed in the meantime.
    gc.collect()
    before = open_descriptors()
    files = []
    for number in range(FILES):
        files.append(disk.create(f"{number}.log"))
        assert len(pool) <= LIMIT
    for _ in range(2):
        for number, file in enumerate(files):
            file.append(b"%d;" % number)
            assert len(pool) <= LIMIT
    assert open_descriptors() - before == LIMIT
    assert all(file.read(0, 100) == b"%d;%d;" % (number, number) for number, file in enumerate(files))
    disk.close()
    assert open_descriptors() == before


def test_the_file_that_was_not_used_for_longest_gives_up_its_descriptor(disk: LocalDisk) -> None:
    files = [disk.create(f"{number}.log") for number in range(LIMIT)]
    disk.create("one more")
    assert [file.path for file in files if file.fd < 0] == ["0.log"]
    files[1].fileno()
    disk.create("and another")
    assert [file.path for file in files if file.fd < 0] == ["0.log", "2.log"]


def test_a_file_in_steady_use_keeps_its_descriptor(disk: LocalDisk) -> None:
    active = disk.create("active.log")
    first = active.fileno()
    for number in range(10 * LIMIT):
        disk.create(f"{number}.log")
        active.append(b"x")
        assert active.fd == first


def test_closing_a_file_gives_its_descriptor_back_at_once(disk: LocalDisk, pool: DescriptorPool) -> None:
    before = open_descriptors()
    file = disk.create("a")
    file.close()
    file.close()
    assert (len(pool), open_descriptors(), file.fd) == (0, before, -1)


def test_closing_a_disk_leaves_the_others_of_the_pool_alone(tmp_path: Path, pool: DescriptorPool) -> None:
    one, two = LocalDisk(str(tmp_path / "1"), pool), LocalDisk(str(tmp_path / "2"), pool)
    mine, other = one.create("a"), two.create("a")
    one.close()
    assert mine.fd == -1
    assert other.fd >= 0
    two.close()


def test_directories_that_share_a_pool_share_its_limit(tmp_path: Path, pool: DescriptorPool) -> None:
    disks = [LocalDisk(str(tmp_path / str(number)), pool) for number in range(4)]
    files: list[LocalFile] = [disk.create(f"{number}") for number in range(LIMIT) for disk in disks]
    assert len(pool) == sum(file.fd >= 0 for file in files) == LIMIT
    for disk in disks:
        disk.close()


def test_the_default_limit_leaves_descriptors_for_sockets() -> None:
    limit = default_limit()
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 64 <= limit <= 16_384
    assert soft == resource.RLIM_INFINITY or limit == 64 or limit <= soft - 256
