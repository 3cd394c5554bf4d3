"""A simulated disk's contents after a power loss."""

import errno
import random
from collections.abc import Callable

import pytest

from cordwood.runtime.disk import DiskError
from cordwood.sim.virtual.disk import SimDisk, SimulatedCrash
from cordwood.sim.virtual.file_system import CrashOdds

SEEDS = range(300)
NOTHING = CrashOdds(nothing=1.0, everything=0.0)
EVERYTHING = CrashOdds(nothing=0.0, everything=1.0)


def new_disk(seed: int = 0, odds: CrashOdds | None = None) -> SimDisk:
    return SimDisk(random.Random(seed), odds=odds)


def outcomes(use: Callable[[SimDisk], None], odds: CrashOdds | None = None) -> set[tuple[tuple[str, bytes], ...]]:
    """The remains of a power loss after `use`, over many seeds."""
    found = set()
    for seed in SEEDS:
        disk = new_disk(seed, odds)
        use(disk)
        found.add(tuple(disk.restart().files().items()))
    return found


def contents(use: Callable[[SimDisk], None], odds: CrashOdds | None = None) -> set[bytes]:
    """The same for a use whose one file, `f`, was made durable first."""
    return {dict(left)["f"] for left in outcomes(use, odds)}


def crash_everywhere(use: Callable[[SimDisk], None], prepare: Callable[[SimDisk], None]) -> list[SimDisk]:
    """The disks that are left when `use` is cut off at each of its steps, many times each."""
    whole = new_disk()
    prepare(whole)
    first = whole.steps + 1
    use(whole)
    left = []
    for step in range(first, whole.steps + 1):
        for seed in SEEDS:
            disk = new_disk(seed)
            prepare(disk)
            disk.crash_at(step)
            with pytest.raises(SimulatedCrash):
                use(disk)
            left.append(disk.restart())
    return left


# Data


def test_synced_data_always_survives() -> None:
    def use(disk: SimDisk) -> None:
        file = disk.create("f")
        file.append(b"synced")
        file.sync()
        file.append(b"not synced")

    assert all(content.startswith(b"synced") for content in contents(use))


def test_unsynced_data_may_survive_be_lost_or_be_torn_at_any_byte() -> None:
    def use(disk: SimDisk) -> None:
        file = disk.create("f")
        file.sync()
        file.append(b"ab")
        file.append(b"cd")

    assert contents(use, CrashOdds(zeros=0.0, garbage=0.0)) == {b"abcd"[:kept] for kept in range(5)}


def test_the_lost_rest_of_a_torn_append_may_be_zeros() -> None:
    def use(disk: SimDisk) -> None:
        file = disk.create("f")
        file.sync()
        file.append(b"abc")

    expected = {b"", b"\0\0\0", b"a\0\0", b"ab\0", b"abc"}
    assert contents(use, CrashOdds(torn=1.0, zeros=1.0, garbage=0.0)) == expected


def test_the_lost_rest_of_a_torn_append_may_be_garbage_of_its_length() -> None:
    def use(disk: SimDisk) -> None:
        file = disk.create("f")
        file.sync()
        file.append(b"x" * 100)

    found = contents(use, CrashOdds(torn=1.0, zeros=0.0, garbage=1.0))
    assert {len(content) for content in found} == {0, 100}
    assert len(found) > 50


def test_no_append_survives_an_earlier_one_that_is_lost() -> None:
    def use(disk: SimDisk) -> None:
        file = disk.create("f")
        file.sync()
        for _ in range(5):
            file.append(b"1234")

    assert all((b"1234" * 5).startswith(content) for content in contents(use, CrashOdds(zeros=0.0, garbage=0.0)))


def test_a_truncation_that_was_not_synced_may_or_may_not_have_happened() -> None:
    def use(disk: SimDisk) -> None:
        file = disk.create("f")
        file.append(b"0123456789")
        file.sync()
        file.truncate(4)

    assert contents(use) == {b"0123456789", b"0123"}


def test_appends_after_a_truncation_survive_only_together_with_it() -> None:
    def use(disk: SimDisk) -> None:
        file = disk.create("f")
        file.append(b"0123456789")
        file.sync()
        file.truncate(4)
        file.append(b"xy")

    assert contents(use, CrashOdds(torn=0.0)) == {b"0123456789", b"0123", b"0123xy"}


def test_a_synced_truncation_stays() -> None:
    def use(disk: SimDisk) -> None:
        file = disk.create("f")
        file.append(b"0123456789")
        file.sync()
        file.truncate(4)
        file.sync()

    assert contents(use) == {b"0123"}


def test_emptying_a_file_by_create_is_a_truncation() -> None:
    def use(disk: SimDisk) -> None:
        file = disk.create("f")
        file.append(b"old")
        file.sync()
        disk.create("f")

    assert contents(use) == {b"old", b""}


def test_a_sync_job_makes_the_content_at_its_creation_durable() -> None:
    def use(disk: SimDisk) -> None:
        file = disk.create("f")
        file.append(b"before")
        job = disk.sync_job([file])
        file.append(b"after")
        job()

    assert contents(use, NOTHING) == {b"before"}
    assert contents(use, EVERYTHING) == {b"beforeafter"}


def test_a_sync_job_that_has_not_run_makes_nothing_durable() -> None:
    def use(disk: SimDisk) -> None:
        file = disk.create("f")
        file.sync()
        file.append(b"data")
        disk.sync_job([file])

    assert contents(use, NOTHING) == {b""}


def test_a_late_sync_job_does_not_take_back_a_newer_sync() -> None:
    def use(disk: SimDisk) -> None:
        file = disk.create("f")
        file.append(b"one")
        job = disk.sync_job([file])
        file.append(b"two")
        file.sync()
        file.append(b"three")
        job()

    assert contents(use, NOTHING) == {b"onetwo"}


@pytest.mark.parametrize("seed", range(100))
def test_after_any_history_a_file_is_as_it_was_at_its_last_sync_or_at_some_point_since(seed: int) -> None:
    choose = random.Random(seed)
    disk = new_disk(seed, CrashOdds(zeros=0.0, garbage=0.0))
    files = [disk.create(name) for name in "abc"]
    disk.sync_directory()
    possible = {file.path: {b""} for file in files}
    disk.crash_at(disk.steps + choose.randrange(1, 60))

    def use() -> None:
        while True:
            file = choose.choice(files)
            now = disk.files()[file.path]
            match choose.randrange(5):
                case 0:
                    # A sync that is cut off may leave an earlier state, so these go only once it has returned.
                    file.sync()
                    possible[file.path] = {now}
                case 1:
                    size = choose.randrange(len(now) + 1)
                    possible[file.path].add(now[:size])
                    file.truncate(size)
                case _:
                    data = choose.randbytes(choose.randrange(10))
                    possible[file.path] |= {now + data[:kept] for kept in range(len(data) + 1)}
                    file.append(data)

    with pytest.raises(SimulatedCrash):
        use()
    survived = disk.restart().files()
    assert all(survived[path] in contents for path, contents in possible.items()), disk.dump()


# Names


def test_names_survive_in_the_order_in_which_they_were_made() -> None:
    def use(disk: SimDisk) -> None:
        for name in "abcd":
            disk.create(name)
        disk.remove("a")

    left = {"".join(dict(one)) for one in outcomes(use)}
    assert left == {"", "a", "ab", "abc", "abcd", "bcd"}


def test_sync_directory_makes_its_operations_and_all_before_them_durable() -> None:
    def use(disk: SimDisk) -> None:
        disk.make_directory("d")
        disk.create("d/before")
        disk.create("here")
        disk.create("d/after")
        disk.sync_directory()

    left = {tuple(dict(one)) for one in outcomes(use)}
    assert left == {("d/before", "here"), ("d/after", "d/before", "here")}


def test_syncing_a_new_file_makes_its_name_durable_and_all_before_it() -> None:
    def use(disk: SimDisk) -> None:
        disk.create("earlier")
        file = disk.create("file")
        disk.create("later")
        file.sync()

    left = {tuple(dict(one)) for one in outcomes(use)}
    assert left == {("earlier", "file"), ("earlier", "file", "later")}


def test_syncing_a_file_does_not_make_its_rename_durable() -> None:
    def use(disk: SimDisk) -> None:
        file = disk.create("old")
        file.sync()
        file.rename("new")
        file.sync()

    assert {tuple(dict(one)) for one in outcomes(use)} == {("old",), ("new",)}


def test_syncing_a_renamed_directory_makes_its_contents_durable() -> None:
    def use(disk: SimDisk) -> None:
        disk.make_directory("old")
        disk.create("old/file")
        disk.rename("old", "new")
        disk.create("new/other")
        disk.sync_directory("new")

    assert {tuple(dict(one)) for one in outcomes(use, NOTHING)} == {("new/file", "new/other")}


def test_a_rename_over_a_file_leaves_the_one_or_the_other_whole() -> None:
    def use(disk: SimDisk) -> None:
        old, new = disk.create("f"), disk.create("f.swap")
        old.append(b"old")
        new.append(b"new")
        old.sync()
        new.sync()
        new.rename("f")

    assert outcomes(use) == {(("f", b"old"), ("f.swap", b"new")), (("f", b"new"),)}


def test_a_rename_without_a_sync_of_the_data_may_leave_an_empty_file() -> None:
    def use(disk: SimDisk) -> None:
        file = disk.create("f.swap")
        file.append(b"data")
        file.rename("f")
        disk.sync_directory()

    assert {b"", b"data"} <= contents(use)


def test_removed_files_may_be_there_in_part() -> None:
    def prepare(disk: SimDisk) -> None:
        disk.make_directory("t")
        for name in "abc":
            disk.create(f"t/{name}")
        disk.sync_directory("t")

    def remove(disk: SimDisk) -> None:
        for name in "abc":
            disk.remove(f"t/{name}")

    left = {tuple(disk.files()) for disk in crash_everywhere(remove, prepare)}
    assert left == {("t/a", "t/b", "t/c"), ("t/b", "t/c"), ("t/c",), ()}


def test_write_file_leaves_the_old_or_the_new_content_wherever_it_is_cut_off() -> None:
    def prepare(disk: SimDisk) -> None:
        disk.write_file("checkpoint", b"old")

    left = crash_everywhere(lambda disk: disk.write_file("checkpoint", b"new content"), prepare)
    assert {disk.read_file("checkpoint") for disk in left} == {b"old", b"new content"}
    assert len({len(disk.read_file("checkpoint.tmp") or b"") for disk in left}) > 5, "the temporary file may be torn"


def test_write_file_is_durable_once_it_returns() -> None:
    disk = new_disk(odds=NOTHING)
    disk.write_file("checkpoint", b"new")
    assert disk.restart().files() == {"checkpoint": b"new"}


def test_make_directory_is_durable_once_it_returns() -> None:
    disk = new_disk(odds=NOTHING)
    disk.make_directory("a/b")
    assert disk.restart().exists("a/b")


# Crashes


def test_the_crash_comes_at_the_step_requested_and_nothing_works_after_it() -> None:
    disk = new_disk()
    disk.crash_at(3)
    file = disk.create("a")
    file.append(b"x")
    with pytest.raises(SimulatedCrash, match="step 3: append to a"):
        file.append(b"y")
    for use in (lambda: file.read(0, 1), lambda: file.append(b""), lambda: disk.list(), lambda: disk.another()):
        with pytest.raises(SimulatedCrash):
            use()
    assert disk.steps == 3
    disk.close()


def test_an_append_that_is_cut_off_may_be_done_in_part() -> None:
    def append(disk: SimDisk) -> None:
        disk.open("a").append(b"data")

    left = {
        len(disk.files().get("a", b"")) for disk in crash_everywhere(append, lambda disk: disk.write_file("a", b""))
    }
    assert left == {0, 1, 2, 3, 4}


def test_a_sync_that_is_cut_off_may_or_may_not_have_worked() -> None:
    left = set()
    for seed in SEEDS:
        disk = new_disk(seed, NOTHING)
        file = disk.create("a")
        file.append(b"data")
        disk.crash_at(3)
        with pytest.raises(SimulatedCrash):
            file.sync()
        left.add(disk.restart().read_file("a"))
    assert left == {None, b"data"}


def test_no_handler_of_exceptions_survives_a_crash() -> None:
    assert not issubclass(SimulatedCrash, Exception)


def test_a_step_that_has_passed_cannot_crash() -> None:
    disk = new_disk()
    disk.create("a")
    with pytest.raises(ValueError, match="step 1 has passed"):
        disk.crash_at(1)


def test_surviving_data_is_durable() -> None:
    for seed in SEEDS:
        disk = new_disk(seed)
        disk.create("a").append(b"data")
        disk.create("b")
        survived = disk.restart()
        assert survived.restart().files() == survived.files()


def test_a_restarted_disk_resets_its_counters_and_planned_faults() -> None:
    disk = new_disk()
    disk.lock()
    disk.fail_next("create")
    disk.crash_at(5)
    again = disk.restart()
    assert again.steps == 0
    assert again.lock()
    for name in "abcdefgh":
        again.create(name)


def test_a_restart_kills_the_old_disk() -> None:
    disk = new_disk()
    file = disk.create("a")
    disk.restart()
    with pytest.raises(SimulatedCrash):
        file.append(b"x")


def test_a_killed_process_loses_nothing_but_a_power_loss_after_it_may() -> None:
    disk = new_disk(odds=NOTHING)
    disk.write_file("a", b"")
    disk.open("a").append(b"data")
    survived = disk.restart(power_lost=False)
    assert survived.read_file("a") == b"data"
    assert survived.restart().read_file("a") == b""


def test_the_same_seed_gives_the_same_outcome() -> None:
    def run(seed: int) -> tuple[dict[str, bytes], str]:
        disk = new_disk(seed)
        disk.make_directory("d")
        files = [disk.create(f"d/{number}") for number in range(5)]
        for number, file in enumerate(files):
            file.append(bytes([number]) * 50)
        files[2].sync()
        disk.crash_at(disk.steps + 3)
        disk.remove("d/0")
        disk.remove("d/1")
        with pytest.raises(SimulatedCrash):
            disk.remove("d/2")
        survived = disk.restart()
        return survived.files(), survived.dump()

    assert [run(seed) for seed in SEEDS] == [run(seed) for seed in SEEDS]
    assert len({repr(run(seed)) for seed in SEEDS}) > 100


# Faults, and errors for careless callers


def test_a_planned_failure_takes_the_disk_offline_like_a_real_one() -> None:
    disk = new_disk()
    file = disk.create("a")
    disk.fail_next("append to", errno.ENOSPC, after=1)
    file.append(b"x")
    with pytest.raises(DiskError, match="log directory /sim is offline: append to a: No space left on device"):
        file.append(b"y")
    assert file.size == 1
    with pytest.raises(DiskError, match="append to a"):
        disk.list()


def test_a_failed_append_may_leave_a_part() -> None:
    left = set()
    for seed in SEEDS:
        disk = new_disk(seed)
        file = disk.create("a")
        disk.fail_next("append to")
        with pytest.raises(DiskError):
            file.append(b"data")
        left.add(disk.files()["a"])
    assert left == {b"data"[:kept] for kept in range(5)}


def test_a_failed_rename_has_not_happened() -> None:
    disk = new_disk()
    file = disk.create("a")
    disk.fail_next("rename")
    with pytest.raises(DiskError, match="rename a: Input/output error"):
        file.rename("b")
    assert list(disk.files()) == ["a"]
    assert file.path == "a"


@pytest.mark.parametrize("after", range(4))
def test_write_file_may_fail_at_each_of_its_steps(after: int) -> None:
    disk = new_disk()
    disk.write_file("a", b"old")
    disk.fail_next("write", after=after)
    with pytest.raises(DiskError, match="write a: Input/output error"):
        disk.write_file("a", b"new")
    assert disk.files()["a"] == b"old"


def test_a_file_that_was_replaced_is_an_error_of_the_caller() -> None:
    disk = new_disk()
    file = disk.create("a")
    disk.write_file("a", b"new")
    with pytest.raises(AssertionError, match="a was replaced"):
        file.append(b"x")


def test_a_file_whose_directory_was_renamed_is_not_found() -> None:
    disk = new_disk()
    disk.make_directory("d")
    file = disk.create("d/a")
    disk.rename("d", "e")
    with pytest.raises(DiskError, match="open d/a: No such file or directory"):
        file.read(0, 1)


def test_there_is_no_descriptor() -> None:
    with pytest.raises(NotImplementedError, match=r"FileRange\.read"):
        new_disk().create("a").fileno()


def test_modification_times_come_from_the_given_clock() -> None:
    now = 5_000
    disk = SimDisk(random.Random(0), now_ms=lambda: now)
    file = disk.create("a")
    now = 7_000
    file.append(b"x")
    now = 9_000
    assert disk.modified_ms("a") == 7_000


def test_dump_shows_the_tree_and_volatile_data() -> None:
    disk = new_disk()
    disk.make_directory("d")
    file = disk.create("d/a")
    file.append(b"data")
    assert disk.dump().splitlines() == [
        "/sim after 4 steps",
        "  d/",
        "  d/a  4 bytes, 1 changes unsynced",
        "  not durable: create d/a",
    ]


def test_a_full_disk_stays_full_over_restarts_until_it_is_freed() -> None:
    disk = SimDisk(random.Random(1))
    disk.write_file("before", b"x")
    disk.fill()
    with pytest.raises(DiskError, match="No space left"):
        disk.write_file("a", b"x")
    disk = disk.restart(power_lost=False)
    assert disk.read_file("before") == b"x"
    with pytest.raises(DiskError, match="No space left"):
        disk.create("b")
    disk.free()
    disk.restart(power_lost=False).write_file("a", b"x")
