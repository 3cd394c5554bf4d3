"""A batch read: its ranges are fixed when it is planned."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from cordwood.client.client import Client
from cordwood.spark.errors import CannotRead, told_plainly
from cordwood.spark.source.link import link_to
from cordwood.spark.source.offset_lookup import earliest, latest, resolve
from cordwood.spark.source.offsets import Offsets, OffsetsOption
from cordwood.spark.source.options import SourceOptions
from cordwood.spark.source.ranges import OffsetRange, split_ranges
from cordwood.spark.source.table import Table


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._table = Table(options, schema)

    def partitions(self) -> list[OffsetRange]:
        """In the driver."""
        with told_plainly():
            link = link_to(self._options.client)
            ranges = link.run(_plan(link.client, self._options))
            return split_ranges(ranges, self._options.min_partitions, self._options.max_records_per_partition)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """In a task."""
        if isinstance(partition, OffsetRange):
            with told_plainly():
                yield from self._table.read(partition)


async def _plan(client: Client, options: SourceOptions) -> list[OffsetRange]:
    partitions = await options.topics.partitions(client)
    committed = options.read_committed
    start = await resolve(client, options.starting, partitions, read_committed=committed)
    end = await resolve(client, options.ending, partitions, read_committed=committed)
    begins = await earliest(client, partitions)
    ends = await latest(client, partitions, read_committed=committed)
    _check_readable(options.starting, start, begins, ends, committed)
    _check_readable(options.ending, end, begins, ends, committed)
    return [OffsetRange(partition, start[partition], end[partition]) for partition in partitions]


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
