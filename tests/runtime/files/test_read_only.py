"""Looking at files leaves no trace."""

import os
from pathlib import Path

import pytest

from cordwood.runtime.files.read_only import ReadOnlyFile, is_directory, list_directory


def test_a_file_that_may_not_be_written_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"0123456789")
    path.chmod(0o400)
    before = _traces(tmp_path)
    with ReadOnlyFile(str(path)) as file:
        assert (file.size, file.read(2, 4), file.read(8, 100), file.read(50, 1)) == (10, b"2345", b"89", b"")
    assert _traces(tmp_path) == before


def _traces(directory: Path) -> list[tuple[str, int, int]]:
    return [(path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(directory.rglob("*"))]


def test_the_descriptor_is_open_for_reading_only(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x")
    with ReadOnlyFile(str(path)), pytest.raises(OSError, match="Bad file descriptor"):
        os.write(_descriptor_of(path), b"y")


def _descriptor_of(path: Path) -> int:
    links = {fd: os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")}
    return int(next(fd for fd, target in links.items() if target == str(path.resolve())))


def test_reading_creates_nothing(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(FileNotFoundError):
        list_directory(str(missing))
    with pytest.raises(FileNotFoundError):
        is_directory(str(missing))
    with pytest.raises(FileNotFoundError):
        ReadOnlyFile(str(missing))
    assert not missing.exists()


def test_a_file_is_seen_to_grow_only_when_it_is_examined_again(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"ab")
    with ReadOnlyFile(str(path)) as file:
        assert not file.refresh()
        path.write_bytes(b"abcd")
        assert file.size == 2
        assert file.refresh()
        assert file.size == 4


def test_chunks_have_the_requested_length(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"0123456789")
    with ReadOnlyFile(str(path)) as file:
        assert list(file.chunks(1, 4)) == [b"1234", b"5678", b"9"]


def test_a_listing_is_sorted_and_shows_directories(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "a").touch()
    (tmp_path / "c").symlink_to("nowhere")
    assert list_directory(str(tmp_path)) == [("a", False), ("b", True)]
    assert (is_directory(str(tmp_path)), is_directory(str(tmp_path / "a"))) == (True, False)
