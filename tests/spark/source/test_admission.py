from hypothesis import given
from hypothesis import strategies as st

from cordwood.client.cluster import TopicPartition
from cordwood.spark.source.admission import BatchDelay, ReadLimits, admitted

A, B, C = (TopicPartition("t", number) for number in range(3))


def test_without_limits_all_is_admitted() -> None:
    assert admitted({A: 0}, {A: 1_000}, ReadLimits()) == {A: 1_000}


def test_a_limit_is_shared_in_proportion_to_the_backlog() -> None:
    ends = admitted({A: 0, B: 100, C: 50}, {A: 300, B: 200, C: 50}, ReadLimits(max_offsets=40))
    assert ends == {A: 30, B: 110, C: 50}


def test_a_small_partition_is_not_starved() -> None:
    assert admitted({A: 0, B: 0}, {A: 1_000_000, B: 1}, ReadLimits(max_offsets=10)) == {A: 9, B: 1}


def test_a_limit_of_bytes_takes_fewer_of_larger_records() -> None:
    ends = admitted({A: 0, B: 0}, {A: 100, B: 100}, ReadLimits(max_bytes=1_100), {A: 10.0, B: 100.0})
    assert ends == {A: 10, B: 10}


def test_both_limits_hold() -> None:
    assert admitted({A: 0}, {A: 100}, ReadLimits(max_offsets=50, max_bytes=200), {A: 10.0}) == {A: 20}


@given(
    st.dictionaries(
        st.builds(TopicPartition, st.just("t"), st.integers(0, 50)),
        st.tuples(st.integers(0, 10**12), st.integers(0, 10**6)),
        min_size=1,
    ),
    st.integers(1, 10**6),
)
def test_ends_stay_between_start_and_latest_within_the_limit(
    waiting: dict[TopicPartition, tuple[int, int]], limit: int
) -> None:
    start = {partition: begin for partition, (begin, _) in waiting.items()}
    latest = {partition: begin + size for partition, (begin, size) in waiting.items()}
    ends = admitted(start, latest, ReadLimits(max_offsets=limit))
    assert all(start[partition] <= ends[partition] <= latest[partition] for partition in waiting)
    # One more for each partition that would have got none.
    assert sum(ends.values()) - sum(start.values()) <= limit + len(waiting)
    if latest != start:
        assert ends != start


def test_a_batch_waits_for_the_least_or_for_the_delay() -> None:
    delay = BatchDelay(ReadLimits(min_offsets=10, max_trigger_delay_ms=1_000))
    assert delay.is_over({A: 0}, {A: 0}, now_ms=0)
    assert not delay.is_over({A: 0}, {A: 9}, now_ms=999)
    assert delay.is_over({A: 0}, {A: 10}, now_ms=999)
    assert not delay.is_over({A: 10}, {A: 11}, now_ms=1_998)
    assert delay.is_over({A: 10}, {A: 11}, now_ms=1_999)
