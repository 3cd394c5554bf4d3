"""Filters of a query that narrow what is read: on topic, partition, offset and timestamp; sans-IO.

They only narrow: Spark checks each row again. So a filter may be applied less strictly than given, never more.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from cordwood.client.cluster import TopicPartition


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of the offsets and timestamps that may match."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    start: int = 0
    end: int | None = None
    """Without it, to the end of each partition."""
    since_ms: int | None = None
    """The lower bound of timestamps. There is no upper bound: records need not be in timestamp order, so matching ones
    may follow a later one."""

    def covers(self, partition: TopicPartition) -> bool:
        return (self.topics is None or partition.topic in self.topics) and (
            self.partitions is None or partition.partition in self.partitions
        )


def narrowed(filters: Iterable[Any], column_of: Callable[[str], str | None]) -> Bounds:
    """`filters` are Spark's, combined with AND; `column_of` maps a column of the table to the connector's name."""
    bounds = Bounds()
    for each in filters:
        attribute: tuple[str, ...] = getattr(each, "attribute", ())
        column = column_of(attribute[0]) if len(attribute) == 1 else None
        narrow = _NARROWING.get((column or "", type(each).__name__))
        if narrow is not None:
            bounds = narrow(bounds, each.value)
    return bounds


def _topics(bounds: Bounds, value: Any) -> Bounds:
    wanted = frozenset(_values(value))
    return replace(bounds, topics=wanted if bounds.topics is None else bounds.topics & wanted)


def _partitions(bounds: Bounds, value: Any) -> Bounds:
    wanted = frozenset(_values(value))
    return replace(bounds, partitions=wanted if bounds.partitions is None else bounds.partitions & wanted)


def _from(extra: int) -> Callable[[Bounds, Any], Bounds]:
    return lambda bounds, value: replace(bounds, start=max(bounds.start, value + extra))


def _up_to(extra: int) -> Callable[[Bounds, Any], Bounds]:
    def narrow(bounds: Bounds, value: Any) -> Bounds:
        end = value + extra
        return replace(bounds, end=end if bounds.end is None else min(bounds.end, end))

    return narrow


def _at(bounds: Bounds, value: Any) -> Bounds:
    values = _values(value)
    return _up_to(1)(_from(0)(bounds, min(values)), max(values)) if values else bounds


def _since(bounds: Bounds, value: Any) -> Bounds:
    values = _values(value)
    if not values or not all(isinstance(each, datetime) for each in values):
        return bounds
    first = min(_milliseconds(each) for each in values)
    return replace(bounds, since_ms=first if bounds.since_ms is None else max(bounds.since_ms, first))


def _values(value: Any) -> Sequence[Any]:
    return value if isinstance(value, tuple | list) else [value]


def _milliseconds(time: datetime) -> int:
    """Rounded down: times of records are whole milliseconds."""
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    since_epoch = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return (since_epoch.days * 86_400 + since_epoch.seconds) * 1000 + since_epoch.microseconds // 1000


_NARROWING: Mapping[tuple[str, str], Callable[[Bounds, Any], Bounds]] = {
    **{("topic", kind): _topics for kind in ("EqualTo", "EqualNullSafe", "In")},
    **{("partition", kind): _partitions for kind in ("EqualTo", "EqualNullSafe", "In")},
    **{("offset", kind): _at for kind in ("EqualTo", "EqualNullSafe", "In")},
    ("offset", "GreaterThan"): _from(1),
    ("offset", "GreaterThanOrEqual"): _from(0),
    ("offset", "LessThan"): _up_to(0),
    ("offset", "LessThanOrEqual"): _up_to(1),
    **{("timestamp", kind): _since for kind in ("EqualTo", "EqualNullSafe", "In", "GreaterThan", "GreaterThanOrEqual")},
}
