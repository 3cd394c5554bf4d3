"""A streaming read. It lives in a separate process beside the driver for as long as its query; tasks get a copy.
PySpark 4.2 added admission control and a fixed end for AvailableNow; before that a batch takes everything available.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from cordwood.client.cluster import TopicPartition
from cordwood.spark.errors import BadOption, CannotRead, SparkError, told_plainly
from cordwood.spark.source.link import link_to
from cordwood.spark.source.offsets import SCHEMAS, Offsets, OffsetsJson, offsets_from_json, offsets_to_json
from cordwood.spark.source.options import SourceOptions
from cordwood.spark.source.ranges import ReadTask
from cordwood.spark.source.stream_progress import StreamProgress
from cordwood.spark.source.table import Table

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:
    HAS_ADMISSION_CONTROL = False
else:
    HAS_ADMISSION_CONTROL = True

if TYPE_CHECKING:
    from cordwood.spark.source.pinned_schemas import PinnedSchemas

_log = logging.getLogger(__name__)


def stream_reader(options: SourceOptions, schema: StructType, pins: PinnedSchemas = ()) -> DataSourceStreamReader:
    """Raises `BadOption`, also for options that this PySpark does not support."""
    if HAS_ADMISSION_CONTROL:
        return LimitedStreamReader(options, schema, pins)
    if options.limits.is_limited:
        raise BadOption(
            "maxOffsetsPerTrigger, minOffsetsPerTrigger and maxBytesPerTrigger need PySpark 4.2 or newer: "
            "earlier versions do not tell a source where a batch starts"
        )
    return UnlimitedStreamReader(options, schema, pins)


class RefusedStreamReader(DataSourceStreamReader):
    """Raises the reason why there is no reader on first use. If the constructor raised it, Spark's process would only
    say that it has no reader to stop.
    """

    def __init__(self, error: SparkError) -> None:
        self._error = error

    def initialOffset(self) -> OffsetsJson:  # noqa: N802  Spark's name
        return self._refuse()

    def latestOffset(self, *_: Any) -> OffsetsJson:  # noqa: N802  Spark's name
        return self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return self._refuse()

    def commit(self, end: dict[str, Any]) -> None:
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._refuse()

    def _refuse(self) -> NoReturn:
        with told_plainly():
            raise self._error


class _StreamReader(DataSourceStreamReader):
    def __init__(self, options: SourceOptions, schema: StructType, pins: PinnedSchemas) -> None:
        self._options = options
        self._table = Table(options, schema, pins)
        self._pins = pins
        # Made when the driver first asks for something; tasks have none.
        self._made: StreamProgress | None = None

    @property
    def _progress(self) -> StreamProgress:
        if self._made is None:
            self._made = StreamProgress(link_to(self._options.client), self._options)
        return self._made

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_made": None}

    # ---- in the driver's process

    def initialOffset(self) -> OffsetsJson:  # noqa: N802  Spark's name
        with told_plainly():
            return self._told(self._progress.initial())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with told_plainly():
            ranges = self._progress.ranges(self._heard(start), self._heard(end))
            return self._options.tasks.tasks(ranges)

    def commit(self, end: dict[str, Any]) -> None:
        with told_plainly():
            self._progress.commit(self._heard(end))

    def _told(self, offsets: Offsets) -> OffsetsJson:
        """With the schemas that the query reads by, so that they are in its checkpoint."""
        from cordwood.spark.source.pinned_schemas import pins_to_json

        return {**offsets_to_json(offsets), **pins_to_json(self._pins)} if self._pins else offsets_to_json(offsets)

    def _heard(self, told: Mapping[str, Any]) -> dict[TopicPartition, int]:
        """Raises `CannotRead` if they are of a query that reads by other schemas."""
        if self._pins:
            self._check_pins(told)
        return offsets_from_json({name: partitions for name, partitions in told.items() if name != SCHEMAS})

    def _check_pins(self, told: Mapping[str, Any]) -> None:
        from cordwood.spark.source.pinned_schemas import pins_from_json

        now = {pin.part: pin for pin in self._pins if pin.given is None}
        for before in pins_from_json(told):
            if before.part in now and not now[before.part].reads_as(before):
                raise CannotRead(
                    f"the query's checkpoint was begun with {before}, and its table has {now[before.part]}; set the "
                    "source's option checkpointLocation to the query's checkpoint, and it continues with its schema"
                )

    def stop(self) -> None:
        if self._made is not None:
            self._made.close()

    # ---- in a task

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, ReadTask)
        with told_plainly():
            yield from self._table.read(partition)


class UnlimitedStreamReader(_StreamReader):
    """As PySpark 4.0 and 4.1 call it."""

    def latestOffset(self) -> OffsetsJson:  # type: ignore[override]  # noqa: N802  Spark's name
        with told_plainly():
            return self._told(self._progress.latest(None, is_limited=False))


if HAS_ADMISSION_CONTROL:

    class LimitedStreamReader(_StreamReader, SupportsTriggerAvailableNow):
        def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  Spark's name
            """Only says that there are limits: all of them are known here."""
            limits = self._options.limits
            if limits.max_offsets is not None:
                return ReadMaxRows(limits.max_offsets)
            if limits.max_bytes is not None:
                return ReadMaxBytes(limits.max_bytes)
            if limits.min_offsets is not None:
                return ReadMinRows(limits.min_offsets)
            return ReadAllAvailable()

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> OffsetsJson:  # noqa: N802  Spark's name
            with told_plainly():
                is_limited = not isinstance(limit, ReadAllAvailable)
                return self._told(self._progress.latest(self._heard(start), is_limited=is_limited))

        def reportLatestOffset(self) -> OffsetsJson | None:  # noqa: N802  Spark's name
            known = self._progress.known_latest
            return self._told(known) if known is not None else None

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
            with told_plainly():
                self._progress.fix_end()
