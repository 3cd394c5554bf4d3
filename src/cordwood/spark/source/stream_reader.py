"""A streaming read. It lives in a process of its own beside the driver for as long as its query; tasks get a copy.

PySpark 4.2 has brought admission control and a fixed end for AvailableNow; before that a batch takes all there is.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from cordwood.spark.errors import BadOption, SparkError, told_plainly
from cordwood.spark.source.link import link_to
from cordwood.spark.source.offsets import OffsetsJson, offsets_from_json, offsets_to_json
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

_log = logging.getLogger(__name__)


def stream_reader(options: SourceOptions, schema: StructType) -> DataSourceStreamReader:
    """Raises `BadOption`, also for what this PySpark cannot do."""
    if HAS_ADMISSION_CONTROL:
        return LimitedStreamReader(options, schema)
    if options.limits.is_limited:
        raise BadOption(
            "maxOffsetsPerTrigger, minOffsetsPerTrigger and maxBytesPerTrigger need PySpark 4.2 or newer: "
            "earlier versions do not tell a source where a batch starts"
        )
    return UnlimitedStreamReader(options, schema)


class RefusedStreamReader(DataSourceStreamReader):
    """Raises why there is no reader, when it is first asked for something.

    Of an error that is raised where a reader is made, Spark's process says nothing but that it has no reader to stop.
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
    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._table = Table(options, schema)
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
            return offsets_to_json(self._progress.initial())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with told_plainly():
            ranges = self._progress.ranges(offsets_from_json(start), offsets_from_json(end))
            return self._options.tasks.tasks(ranges)

    def commit(self, end: dict[str, Any]) -> None:
        with told_plainly():
            self._progress.commit(offsets_from_json(end))

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
            return offsets_to_json(self._progress.latest(None, is_limited=False))


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
                return offsets_to_json(self._progress.latest(offsets_from_json(start), is_limited=is_limited))

        def reportLatestOffset(self) -> OffsetsJson | None:  # noqa: N802  Spark's name
            known = self._progress.known_latest
            return offsets_to_json(known) if known is not None else None

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
            with told_plainly():
                self._progress.fix_end()
