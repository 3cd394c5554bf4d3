import pickle

from hypothesis import given
from hypothesis import strategies as st

from cordwood.client.cluster import TopicPartition
from cordwood.spark.source.ranges import OffsetRange, ReadTask, TaskLimits, share_tasks, split_ranges


def ranges_of(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange(TopicPartition("t", number), 100, 100 + size) for number, size in enumerate(sizes)]


def sizes_of(ranges: list[OffsetRange]) -> list[int]:
    return [each.size for each in ranges]


def test_ranges_stay_as_they_are_without_limits() -> None:
    assert split_ranges(ranges_of(5, 1_000), None, None) == ranges_of(5, 1_000)


def test_empty_ranges_give_no_tasks() -> None:
    assert split_ranges(ranges_of(0, 3), None, None) == ranges_of(0, 3)[1:]


def test_a_large_partition_is_split_for_more_tasks() -> None:
    assert sizes_of(split_ranges(ranges_of(100), 4, None)) == [25, 25, 25, 25]


def test_small_partitions_stay_whole_while_large_ones_are_split() -> None:
    assert sizes_of(split_ranges(ranges_of(1, 1, 1_000), 6, None)) == [1, 1, 250, 250, 250, 250]


def test_no_range_has_more_than_the_most_records() -> None:
    assert sizes_of(split_ranges(ranges_of(10, 4), None, 4)) == [3, 3, 4, 4]


def test_a_task_goes_to_its_worker_by_pickle() -> None:
    wanted = ReadTask(tuple(ranges_of(7, 8)))
    assert pickle.loads(pickle.dumps(wanted)) == wanted


@given(
    st.lists(st.integers(0, 10_000), max_size=20),
    st.none() | st.integers(1, 60),
    st.none() | st.integers(1, 5_000),
)
def test_splits_hold_each_offset_once_and_in_order(sizes: list[int], least: int | None, most: int | None) -> None:
    whole = ranges_of(*sizes)
    split = split_ranges(whole, least, most)
    for each in whole:
        position = each.start
        for part in split:
            if part.partition == each.partition:
                assert part.start == position
                assert part.size > 0
                assert most is None or part.size <= most
                position = part.end
        assert position == each.end


def shares_of(tasks: list[ReadTask]) -> list[list[int]]:
    return [sizes_of(list(task.ranges)) for task in tasks]


def test_each_range_is_a_task_if_the_parallelism_is_unknown() -> None:
    assert shares_of(TaskLimits().tasks(ranges_of(1, 2, 3))) == [[1], [2], [3]]


def test_small_ranges_share_as_many_tasks_as_run_at_once() -> None:
    assert shares_of(TaskLimits(parallel_tasks=2).tasks(ranges_of(10, 20, 30, 40))) == [[10, 40], [20, 30]]


def test_a_large_range_is_its_own_task_and_the_small_ones_share_the_rest() -> None:
    assert shares_of(share_tasks(ranges_of(10, 99, 10, 10), 2, 100)) == [[99], [10, 10, 10]]


def test_there_are_no_fewer_tasks_than_requested() -> None:
    assert len(TaskLimits(min_tasks=3, parallel_tasks=2).tasks(ranges_of(*[1] * 9))) == 3


def test_shared_tasks_have_no_more_than_the_most_records() -> None:
    assert shares_of(TaskLimits(max_records=20, parallel_tasks=1).tasks(ranges_of(10, 10, 10, 10))) == [[10]] * 4


@given(st.lists(st.integers(1, 300), max_size=40), st.integers(1, 8), st.integers(2, 400))
def test_shares_contain_each_range_once_within_their_limits(sizes: list[int], least: int, most: int) -> None:
    ranges = ranges_of(*sizes)
    tasks = share_tasks(ranges, least, most)
    held = [each for task in tasks for each in task.ranges]
    assert sorted(held, key=lambda each: each.partition) == ranges
    assert len(tasks) >= min(least, len(ranges))
    assert all(len(task.ranges) == 1 or task.size <= most for task in tasks)
