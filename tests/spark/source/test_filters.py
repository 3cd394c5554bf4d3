from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

pytest.importorskip("pyspark", minversion="4.1")

from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from cordwood.client.cluster import TopicPartition
from cordwood.spark.source.filters import Bounds, narrowed

OFFSET, PARTITION, TOPIC, TIMESTAMP = ("offset",), ("partition",), ("topic",), ("timestamp",)


def bounds(*filters: Any) -> Bounds:
    return narrowed(filters, lambda name: name)


def test_offsets_are_bounded_from_both_sides() -> None:
    assert bounds(GreaterThan(OFFSET, 4), LessThanOrEqual(OFFSET, 9)) == Bounds(start=5, end=10)
    assert bounds(GreaterThanOrEqual(OFFSET, 4), LessThan(OFFSET, 9), LessThan(OFFSET, 20)) == Bounds(start=4, end=9)


def test_equal_offsets_are_a_range_around_all_of_them() -> None:
    assert bounds(EqualTo(OFFSET, 7)) == Bounds(start=7, end=8)
    assert bounds(In(OFFSET, (9, 3, 5))) == Bounds(start=3, end=10)


def test_partitions_and_topics_match_all_filters() -> None:
    found = bounds(In(PARTITION, (1, 2, 3)), In(PARTITION, (2, 3, 4)), EqualTo(TOPIC, "a"))
    assert found.partitions == frozenset({2, 3})
    assert found.covers(TopicPartition("a", 2))
    assert not found.covers(TopicPartition("b", 2))
    assert not found.covers(TopicPartition("a", 4))


def test_a_time_bounds_from_below_to_the_millisecond() -> None:
    time = datetime(1970, 1, 1, 0, 0, 2, 3_456, tzinfo=UTC)
    assert bounds(GreaterThan(TIMESTAMP, time)).since_ms == 2_003
    east = time.astimezone(timezone(timedelta(hours=5)))
    assert bounds(GreaterThanOrEqual(TIMESTAMP, east)).since_ms == 2_003


def test_a_time_does_not_bound_from_above_because_records_may_be_out_of_order() -> None:
    assert bounds(LessThan(TIMESTAMP, datetime(2026, 1, 1, tzinfo=UTC))) == Bounds()


def test_unsupported_filters_do_not_narrow_the_range() -> None:
    assert (
        bounds(Not(EqualTo(OFFSET, 5)), IsNotNull(OFFSET), EqualTo(("value",), b""), EqualTo(("a", "b"), 1)) == Bounds()
    )
