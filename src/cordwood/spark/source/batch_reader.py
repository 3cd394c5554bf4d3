"""A batch read: its ranges are fixed when it is planned."""

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.spark.errors import CannotRead, told_plainly
from cordwood.spark.source.filters import Bounds, narrowed
from cordwood.spark.source.link import link_to
from cordwood.spark.source.offset_lookup import by_time, earliest, latest, resolve
from cordwood.spark.source.offsets import Offsets, OffsetsOption
from cordwood.spark.source.options import SourceOptions
from cordwood.spark.source.ranges import OffsetRange, split_ranges
from cordwood.spark.source.table import Table, record_column


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.pushFilters = _Pushdown(self)  # type: ignore[method-assign]
        self._options = options
        self._table = Table(options, schema)
        self._bounds = Bounds()

    def narrow(self, filters: list[Any]) -> None:
        """In the driver, before `partitions`, where Spark is set to push filters down."""
        self._bounds = narrowed(filters, lambda name: record_column(name, self._options.value_format))

    def partitions(self) -> list[OffsetRange]:
        """In the driver."""
        with told_plainly():
            link = link_to(self._options.client)
            ranges = link.run(_plan(link.client, self._options, self._bounds))
            return split_ranges(ranges, self._options.min_partitions, self._options.max_records_per_partition)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """In a task. Where there is nothing to read, Spark makes a partition of its own."""
        if isinstance(partition, OffsetRange):
            with told_plainly():
                yield from self._table.read(partition)


class _Pushdown:
    """The method `pushFilters`, for both settings of `spark.sql.python.filterPushdown.enabled`.

    Spark refuses a reader that has such a method where the setting is off, and tells by `__func__`. Here nothing
    depends on it: all filters are given back, so Spark looks at each row again.
    """

    def __init__(self, reader: BatchReader) -> None:
        self._reader = reader

    @property
    def __func__(self) -> Any:
        return getattr(DataSourceReader, "pushFilters", None)

    def __call__(self, filters: list[Any]) -> Iterable[Any]:
        self._reader.narrow(filters)
        return filters


async def _plan(client: Client, options: SourceOptions, bounds: Bounds) -> list[OffsetRange]:
    partitions = await options.topics.partitions(client)
    committed = options.read_committed
    start = await resolve(client, options.starting, partitions, read_committed=committed)
    end = await resolve(client, options.ending, partitions, read_committed=committed)
    begins = await earliest(client, partitions)
    ends = await latest(client, partitions, read_committed=committed)
    _check_readable(options.starting, start, begins, ends, committed)
    _check_readable(options.ending, end, begins, ends, committed)
    wanted = [partition for partition in partitions if bounds.covers(partition)]
    since = {} if bounds.since_ms is None else await by_time(client, wanted, bounds.since_ms, read_committed=committed)
    return [
        _range(partition, start[partition], end[partition], bounds, since.get(partition, 0)) for partition in wanted
    ]


def _range(partition: TopicPartition, start: int, end: int, bounds: Bounds, since: int) -> OffsetRange:
    """`since` is the first offset of the time that is asked for; -1: there is none."""
    start = max(start, bounds.start, since)
    end = end if bounds.end is None else min(end, bounds.end)
    return OffsetRange(partition, start, end if since >= 0 else start)


def _check_readable(option: OffsetsOption, found: Offsets, begins: Offsets, ends: Offsets, committed: bool) -> None:
    """Offsets that somebody named may never have been, or be gone."""
    if option.by_partition is None or option.is_time:
        return
    for partition, offset in found.items():
        if not begins[partition] <= offset <= ends[partition]:
            what = "committed records" if committed else "records"
            raise CannotRead(
                f"{option.name} has offset {offset} of {partition}, which holds {what} from {begins[partition]} "
                f"to {ends[partition]}"
            )
