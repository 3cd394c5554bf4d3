"""A batch read: its ranges are fixed when it is planned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.spark.errors import CannotRead, told_plainly
from cordwood.spark.source.filters import Bounds, narrowed
from cordwood.spark.source.link import link_to
from cordwood.spark.source.loss import LossReport
from cordwood.spark.source.offset_lookup import by_time, resolve
from cordwood.spark.source.offsets import Offsets
from cordwood.spark.source.options import SourceOptions
from cordwood.spark.source.ranges import OffsetRange, ReadTask
from cordwood.spark.source.table import Table, record_column

if TYPE_CHECKING:
    from cordwood.spark.source.pinned_schemas import PinnedSchemas


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions, schema: StructType, pins: PinnedSchemas = ()) -> None:
        self.pushFilters = _Pushdown(self)  # type: ignore[method-assign]
        self._options = options
        self._table = Table(options, schema, pins)
        self._bounds = Bounds()

    def narrow(self, filters: list[Any]) -> None:
        """In the driver, before `partitions`, where Spark is set to push filters down."""
        self._bounds = narrowed(filters, lambda name: record_column(name, self._options.value_format))

    def partitions(self) -> list[ReadTask]:
        """In the driver."""
        with told_plainly():
            link = link_to(self._options.client)
            ranges = link.run(_plan(link.client, self._options, self._bounds))
            return self._options.tasks.tasks(ranges)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Called in a task. With nothing to read, Spark creates a partition itself."""
        if isinstance(partition, ReadTask):
            with told_plainly():
                yield from self._table.read(partition)


class _Pushdown:
    """The method `pushFilters`, for both settings of `spark.sql.python.filterPushdown.enabled`.

    Spark rejects a reader with this method if the setting is off, and detects it by `__func__`. Here nothing depends on
    it: all filters are returned, so Spark checks each row again.
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
    losses = LossReport(fails=options.fail_on_data_loss)
    start = await resolve(client, options.starting, partitions, losses, read_committed=committed)
    end = await resolve(client, options.ending, partitions, losses, read_committed=committed)
    _check_order(options, start, end)
    wanted = [partition for partition in partitions if bounds.covers(partition)]
    since = {} if bounds.since_ms is None else await by_time(client, wanted, bounds.since_ms, read_committed=committed)
    return [
        _range(partition, start[partition], end[partition], bounds, since.get(partition, 0)) for partition in wanted
    ]


def _check_order(options: SourceOptions, start: Offsets, end: Offsets) -> None:
    """Times may well leave nothing between them; offsets that do so are a mistake."""
    if options.starting.names_offsets and options.ending.names_offsets:
        for partition, offset in start.items():
            if offset > end[partition]:
                raise CannotRead(
                    f"{options.starting.name} has offset {offset} of {partition}, which is after {end[partition]} of "
                    f"{options.ending.name}"
                )


def _range(partition: TopicPartition, start: int, end: int, bounds: Bounds, since: int) -> OffsetRange:
    """`since` is the first offset at or after the requested time; -1 if there is none."""
    start = max(start, bounds.start, since)
    end = end if bounds.end is None else min(end, bounds.end)
    return OffsetRange(partition, start, end if since >= 0 else start)
