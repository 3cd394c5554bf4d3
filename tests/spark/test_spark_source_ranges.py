import pickle

from hypothesis import given
from hypothesis import strategies as st

from cordwood.client.cluster import TopicPartition
from cordwood.spark.source.ranges import OffsetRange, split_ranges


def ranges_of(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange(TopicPartition("t", number), 100, 100 + size) for number, size in enumerate(sizes)]


def sizes_of(ranges: list[OffsetRange]) -> list[int]:
    return [each.size for each in ranges]


def test_ranges_stay_as_they_are_without_limits() -> None:
    assert split_ranges(ranges_of(5, 1_000), None, None) == ranges_of(5, 1_000)


def test_empty_ranges_are_no_tasks() -> None:
    assert split_ranges(ranges_of(0, 3), None, None) == ranges_of(0, 3)[1:]


def test_a_large_partition_is_split_for_more_tasks() -> None:
    assert sizes_of(split_ranges(ranges_of(100), 4, None)) == [25, 25, 25, 25]


def test_small_partitions_stay_whole_while_large_ones_are_split() -> None:
    assert sizes_of(split_ranges(ranges_of(1, 1, 1_000), 6, None)) == [1, 1, 250, 250, 250, 250]


def test_no_range_has_more_than_the_most_records() -> None:
    assert sizes_of(split_ranges(ranges_of(10, 4), None, 4)) == [3, 3, 4, 4]


def test_a_range_goes_to_a_task_by_pickle() -> None:
    (wanted,) = ranges_of(7)
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
