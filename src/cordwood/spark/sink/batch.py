"""**BatchWriter**: `df.write.format("cordwood")`. Made on the driver, sent to each task, and back for the commit."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from cordwood.client.errors import ClientError
from cordwood.client.producer.transactions.prepared import LeftTransaction
from cordwood.spark.errors import SparkError, told_plainly
from cordwood.spark.sink.columns import Columns
from cordwood.spark.sink.driver import perform
from cordwood.spark.sink.leftovers import report_committed
from cordwood.spark.sink.options import SinkOptions
from cordwood.spark.sink.points import Point, read_trap
from cordwood.spark.sink.process import this_process
from cordwood.spark.sink.protocol import ENDS_AT_ONCE, Steps, abort_job, commit_job
from cordwood.spark.sink.task import NO_BATCH, write_task
from cordwood.spark.sink.transactions import TaskDone, batch_job

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_log = logging.getLogger(__name__)


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: SinkOptions, columns: Columns) -> None:
        self._options = options
        self._columns = columns
        self._job = batch_job()
        self._trap = read_trap(options.testing_at)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        with told_plainly():
            return write_task(iterator, self._columns, self._options, self._job, NO_BATCH, self._trap)

    def commit(self, messages: "list[WriterCommitMessage | None]") -> None:
        if self._options.is_exactly_once:
            with told_plainly():
                # A job's decision is not recorded: from now on no other process may end its transactions.
                report_committed(self._job)
                self._perform(commit_job(self._job, left_by(messages), at_once=self._at_once))

    def abort(self, messages: "list[WriterCommitMessage | None]") -> None:
        if self._options.is_exactly_once:
            with as_far_as_possible():
                self._perform(abort_job(self._job, left_by(messages), at_once=self._at_once))

    def _perform(self, steps: Steps[None]) -> None:
        process = this_process()
        process.run(perform(process.outlet(self._options, "decide"), steps, self._reached))

    @property
    def _at_once(self) -> int:
        """Transactions ended concurrently; one by one in tests that kill in between."""
        return ENDS_AT_ONCE if self._trap is None else 1

    def _reached(self, point: Point) -> None:
        if self._trap is not None:
            self._trap.reached(point, NO_BATCH)


@contextmanager
def as_far_as_possible() -> Iterator[None]:
    """Around an abort: Spark has something more important to say than that it failed, and the job's transactions are
    aborted by the next commit, or by their timeout."""
    try:
        yield
    except (ClientError, SparkError) as error:
        _log.warning("Some transactions of the failed write could not be aborted: %s", error)


def left_by(messages: "list[WriterCommitMessage | None]") -> list[LeftTransaction]:
    """By the tasks that have written something."""
    return [done.transaction for done in messages if isinstance(done, TaskDone) and done.transaction is not None]
