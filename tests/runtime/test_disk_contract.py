"""The contract of every Disk: run against the real file system and the simulated one, so that they cannot differ."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cordwood.runtime.disk import Disk, DiskError, Entry, FileGone, FileRange
from cordwood.runtime.files.local_disk import LocalDisk
from cordwood.sim.virtual.disk import SimDisk


@pytest.fixture(params=["local", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    disk: Disk = LocalDisk(str(tmp_path)) if request.param == "local" else SimDisk(random.Random(1))
    yield disk
    disk.close()


def names(disk: Disk, path: str = "") -> list[str]:
    return [entry.name for entry in disk.list(path)]


def test_an_appended_file_reads_back(disk: Disk) -> None:
    file = disk.create("a.log")
    file.append(b"hello ")
    file.append(memoryview(b"world"))
    assert file.size == 11
    assert file.read(0, 11) == b"hello world"
    assert file.read(6, 3) == b"wor"
    assert disk.read_file("a.log") == b"hello world"


def test_an_append_of_nothing_changes_nothing(disk: Disk) -> None:
    file = disk.create("a.log")
    file.append(b"")
    assert (file.size, file.read(0, 10)) == (0, b"")


def test_a_read_past_the_end_is_short(disk: Disk) -> None:
    file = disk.create("a.log")
    file.append(b"0123456789")
    assert file.read(8, 100) == b"89"
    assert file.read(10, 5) == b""
    assert file.read(50, 5) == b""


def test_a_file_range_reads_its_bytes(disk: Disk) -> None:
    file = disk.create("a.log")
    file.append(b"0123456789")
    piece = FileRange(file, 3, 4)
    assert (len(piece), piece.read()) == (4, b"3456")


def test_a_closed_file_is_opened_again_on_use(disk: Disk) -> None:
    file = disk.create("a.log")
    file.append(b"one")
    file.close()
    file.close()
    file.append(b"two")
    assert file.read(0, 6) == b"onetwo"


def test_a_discarded_file_stays_gone_and_the_disk_stays_online(disk: Disk) -> None:
    file = disk.create("a.log")
    file.append(b"one")
    piece = FileRange(file, 0, 3)
    file.discard()
    disk.remove("a.log")
    with pytest.raises(FileGone, match=r"a\.log was deleted"):
        piece.read()
    disk.create("a.log").append(b"another")
    with pytest.raises(FileGone):
        piece.read()
    with pytest.raises(FileGone):
        file.append(b"two")
    assert disk.failure is None
    assert disk.read_file("a.log") == b"another"


def test_an_opened_file_knows_its_size_and_is_appended_at_its_end(disk: Disk) -> None:
    disk.create("a.log").append(b"one")
    file = disk.open("a.log")
    assert file.size == 3
    file.append(b"two")
    assert disk.read_file("a.log") == b"onetwo"


def test_open_with_a_size_takes_it_as_the_end_of_the_file(disk: Disk) -> None:
    disk.create("a.log").append(b"one+torn")
    file = disk.open("a.log", 3)
    assert file.size == 3
    file.append(b"two")
    assert disk.read_file("a.log") == b"onetworn"


def test_open_with_a_size_does_not_stat_the_file(disk: Disk) -> None:
    file = disk.open("missing.log", 10)
    with pytest.raises(DiskError, match=r"open missing\.log: No such file or directory"):
        file.read(0, 1)


def test_create_empties_a_file_that_is_there(disk: Disk) -> None:
    disk.create("a.log").append(b"old content")
    assert disk.create("a.log").size == 0
    assert disk.read_file("a.log") == b""


def test_an_append_behind_the_end_leaves_zeros_between(disk: Disk) -> None:
    file = disk.create("a.log")
    file.append(b"12345")
    disk.create("a.log")
    file.append(b"6")
    assert disk.read_file("a.log") == b"\0\0\0\0\0006"


def test_truncate_cuts_and_the_next_append_follows(disk: Disk) -> None:
    file = disk.create("a.log")
    file.append(b"0123456789")
    file.truncate(4)
    assert (file.size, file.read(0, 10)) == (4, b"0123")
    file.append(b"x")
    assert file.read(0, 10) == b"0123x"


def test_truncate_to_more_fills_with_zeros(disk: Disk) -> None:
    file = disk.create("a.index")
    file.append(b"ab")
    file.truncate(5)
    assert (file.size, file.read(0, 10)) == (5, b"ab\0\0\0")


def test_a_renamed_file_stays_usable(disk: Disk) -> None:
    file = disk.create("a.log")
    file.append(b"one")
    file.rename("a.log.deleted")
    assert file.path == "a.log.deleted"
    file.append(b"two")
    file.close()
    assert file.read(0, 6) == b"onetwo"
    assert names(disk) == ["a.log.deleted"]


def test_a_rename_replaces_the_target(disk: Disk) -> None:
    disk.create("old").append(b"old")
    file = disk.create("new")
    file.append(b"new")
    file.rename("old")
    assert names(disk) == ["old"]
    assert disk.read_file("old") == b"new"


def test_a_file_can_be_renamed_to_its_own_name(disk: Disk) -> None:
    disk.create("a").append(b"x")
    disk.rename("a", "a")
    assert disk.read_file("a") == b"x"


def test_a_directory_is_renamed_with_its_contents(disk: Disk) -> None:
    disk.make_directory("topic-0")
    disk.create("topic-0/a.log").append(b"x")
    disk.rename("topic-0", "topic-0.delete")
    assert names(disk) == ["topic-0.delete"]
    assert disk.read_file("topic-0.delete/a.log") == b"x"


def test_a_directory_replaces_an_empty_one(disk: Disk) -> None:
    disk.make_directory("a")
    disk.create("a/x")
    disk.make_directory("b")
    disk.rename("a", "b")
    assert names(disk) == ["b"]
    assert names(disk, "b") == ["x"]


def test_a_listing_is_sorted_and_shows_sizes(disk: Disk) -> None:
    disk.make_directory("c")
    disk.create("d").append(b"four")
    disk.create("b")
    disk.create("a").append(b"1")
    assert disk.list() == [Entry("a", False, 1), Entry("b", False, 0), Entry("c", True, 0), Entry("d", False, 4)]


def test_a_missing_directory_lists_nothing(disk: Disk) -> None:
    assert disk.list("missing") == []
    assert disk.list("missing/deeper") == []
    assert disk.failure is None


def test_exists_finds_files_and_directories(disk: Disk) -> None:
    disk.make_directory("a/b")
    disk.create("a/file")
    assert disk.exists("a")
    assert disk.exists("a/b")
    assert disk.exists("a/file")
    assert not disk.exists("a/c")
    assert not disk.exists("a/file/x")


def test_a_missing_small_file_reads_as_none(disk: Disk) -> None:
    assert disk.read_file("missing") is None
    assert disk.read_file("missing/file") is None
    assert disk.failure is None


def test_write_file_replaces_and_leaves_nothing_else(disk: Disk) -> None:
    disk.make_directory("d")
    disk.write_file("d/checkpoint", b"a long first version")
    disk.write_file("d/checkpoint", b"second")
    assert disk.read_file("d/checkpoint") == b"second"
    assert names(disk, "d") == ["checkpoint"]


def test_write_file_takes_over_a_temporary_file_that_a_crash_left(disk: Disk) -> None:
    disk.create("checkpoint.tmp").append(b"a long torn rest of an earlier attempt")
    disk.write_file("checkpoint", b"new")
    assert disk.read_file("checkpoint") == b"new"
    assert names(disk) == ["checkpoint"]


def test_make_directory_makes_its_parents_and_may_be_repeated(disk: Disk) -> None:
    disk.make_directory("a/b/c")
    disk.make_directory("a/b/c")
    assert disk.list("a/b") == [Entry("c", True, 0)]


def test_remove_ignores_missing_files(disk: Disk) -> None:
    disk.create("a")
    disk.remove("a")
    disk.remove("a")
    assert names(disk) == []
    assert disk.failure is None


def test_a_directory_is_removed_only_if_it_is_empty(disk: Disk) -> None:
    disk.make_directory("t/deep")
    disk.create("kept")
    assert not disk.remove_directory("t")
    assert names(disk) == ["kept", "t"]
    assert disk.remove_directory("t/deep")
    assert disk.remove_directory("t")
    assert disk.remove_directory("t"), "it no longer exists"
    assert names(disk) == ["kept"]
    assert disk.failure is None


def test_sync_and_sync_jobs_leave_the_content_alone(disk: Disk) -> None:
    one, two = disk.create("one"), disk.create("two")
    one.append(b"1")
    two.append(b"2")
    one.sync()
    job = disk.sync_job([one, two])
    one.append(b"more")
    two.rename("renamed")
    job()
    disk.sync_directory()
    assert (disk.read_file("one"), disk.read_file("renamed")) == (b"1more", b"2")


def test_a_sync_job_does_not_mind_that_its_directory_is_renamed_or_removed(disk: Disk) -> None:
    for name in ("renamed", "removed"):
        disk.make_directory(name)
        file = disk.create(f"{name}/a")
        job = disk.sync_job([file], [name, ""])
        file.close()
        disk.rename(name, f"{name}-delete")
        if name == "removed":
            disk.remove(f"{name}-delete/a")
            disk.remove_directory(f"{name}-delete")
        job()
    assert disk.failure is None
    assert names(disk) == ["renamed-delete"]


def test_usage_has_room(disk: Disk) -> None:
    usage = disk.usage()
    assert 0 < usage.free_bytes <= usage.total_bytes


def test_modification_times_exist_for_files_and_directories(disk: Disk) -> None:
    disk.make_directory("d")
    disk.create("d/a")
    assert disk.modified_ms("d/a") >= 0
    assert disk.modified_ms("d") >= 0


def test_another_works_on_the_same_files(disk: Disk) -> None:
    disk.create("a").append(b"x")
    other = disk.another()
    assert other.root == disk.root
    file = other.open("a")
    file.append(b"y")
    other.close()
    assert disk.read_file("a") == b"xy"


def test_the_lock_is_taken_once_and_freed_by_close(disk: Disk) -> None:
    assert disk.lock()
    other = disk.another()
    assert not other.lock()
    other.close()
    assert not disk.another().lock()
    disk.close()
    assert other.lock()
    other.close()
    assert names(disk) == [".lock"]


FAILING: list[tuple[str, str, Callable[[Disk], object]]] = [
    ("open missing", "open missing: No such file or directory", lambda disk: disk.open("missing")),
    ("stat missing", "stat missing: No such file or directory", lambda disk: disk.modified_ms("missing")),
    ("rename missing", "rename missing: No such file or directory", lambda disk: disk.rename("missing", "a")),
    ("rename into nowhere", "rename file: No such file or directory", lambda disk: disk.rename("file", "missing/file")),
    ("create nowhere", "create missing/a: No such file or directory", lambda disk: disk.create("missing/a")),
    ("create under a file", "create file/a: Not a directory", lambda disk: disk.create("file/a")),
    ("create over a directory", "create full: Is a directory", lambda disk: disk.create("full")),
    ("write nowhere", "write missing/a: No such file or directory", lambda disk: disk.write_file("missing/a", b"x")),
    ("write over a directory", "write full: Is a directory", lambda disk: disk.write_file("full", b"x")),
    ("read a directory", "read full: Is a directory", lambda disk: disk.read_file("full")),
    ("list a file", "list file: Not a directory", lambda disk: disk.list("file")),
    ("directory over a file", "create file: File exists", lambda disk: disk.make_directory("file")),
    ("directory under a file", "create file/d: Not a directory", lambda disk: disk.make_directory("file/d")),
    ("rename over a directory", "rename file: Is a directory", lambda disk: disk.rename("file", "full")),
    ("rename over a file", "rename full: Not a directory", lambda disk: disk.rename("full", "file")),
    ("rename over a full directory", "rename empty: Directory not empty", lambda disk: disk.rename("empty", "full")),
    ("rename below itself", "rename full: Invalid argument", lambda disk: disk.rename("full", "full/below")),
    ("remove a directory", "remove empty: Is a directory", lambda disk: disk.remove("empty")),
    ("remove a file as a directory", "remove file: Not a directory", lambda disk: disk.remove_directory("file")),
    (
        "sync a missing directory",
        "sync missing: No such file or directory",
        lambda disk: disk.sync_directory("missing"),
    ),
]


@pytest.mark.parametrize(("message", "act"), [row[1:] for row in FAILING], ids=[row[0] for row in FAILING])
def test_an_error_names_directory_operation_path_and_cause(
    disk: Disk, message: str, act: Callable[[Disk], object]
) -> None:
    disk.create("file").append(b"x")
    disk.make_directory("empty")
    disk.make_directory("full")
    disk.create("full/x")
    with pytest.raises(DiskError) as raised:
        act(disk)
    assert str(raised.value) == f"log directory {disk.root} is offline: {message}"
    assert disk.failure is raised.value


USES: dict[str, Callable[[Disk], object]] = {
    "open": lambda disk: disk.open("a"),
    "create": lambda disk: disk.create("b"),
    "exists": lambda disk: disk.exists("a"),
    "list": lambda disk: disk.list(),
    "modified_ms": lambda disk: disk.modified_ms("a"),
    "read_file": lambda disk: disk.read_file("a"),
    "write_file": lambda disk: disk.write_file("b", b""),
    "make_directory": lambda disk: disk.make_directory("d"),
    "rename": lambda disk: disk.rename("a", "b"),
    "remove": lambda disk: disk.remove("a"),
    "remove_directory": lambda disk: disk.remove_directory("d"),
    "sync_directory": lambda disk: disk.sync_directory(),
    "another": lambda disk: disk.another(),
    "usage": lambda disk: disk.usage(),
    "lock": lambda disk: disk.lock(),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_every_call_on_an_offline_disk_raises_the_original_error(disk: Disk, use: Callable[[Disk], object]) -> None:
    disk.create("a").append(b"x")
    with pytest.raises(DiskError) as first:
        disk.open("missing")
    with pytest.raises(DiskError) as again:
        use(disk)
    assert again.value is first.value


def test_files_in_use_raise_too_once_the_disk_is_offline(disk: Disk) -> None:
    file = disk.create("a")
    file.append(b"x")
    job = disk.sync_job([file])
    with pytest.raises(DiskError):
        disk.open("missing")
    for use in (
        lambda: file.append(b"y"),
        lambda: file.read(0, 1),
        lambda: file.truncate(0),
        lambda: file.rename("b"),
        lambda: file.sync(),
        lambda: disk.sync_job([file]),
        job,
    ):
        with pytest.raises(DiskError, match="open missing"):
            use()
    assert (file.path, file.size) == ("a", 1)


def test_a_failure_in_another_thread_s_view_takes_the_directory_offline(disk: Disk) -> None:
    other = disk.another()
    disk.make_directory("directory")
    with pytest.raises(DiskError):
        other.create("directory")
    with pytest.raises(DiskError, match="create directory"):
        disk.list()
    assert disk.failure is other.failure


def test_files_removed_by_the_owner_do_not_fail_another_threads_view(disk: Disk) -> None:
    disk.make_directory("d")
    disk.create("d/a").append(b"x")
    other = disk.another()
    file = other.open("d/a")
    disk.rename("d", "e")
    uses: list[Callable[[], object]] = [
        lambda: file.read(0, 1),
        lambda: other.open("d/a"),
        lambda: other.create("d/b"),
        lambda: other.rename("d/a", "d/b"),
        lambda: other.write_file("d/b", b"x"),
        lambda: other.sync_directory("d"),
    ]
    for use in uses:
        with pytest.raises(FileGone):
            use()
    assert disk.failure is None
    assert disk.read_file("e/a") == b"x"
