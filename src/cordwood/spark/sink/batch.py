"""**BatchWriter**: `df.write.format("cordwood")`. Made on the driver, sent to each task, and back for the commit."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from cordwood.client.producer.transactions.prepared import LeftTransaction
from cordwood.spark.errors import told_plainly
from cordwood.spark.sink.columns import Columns
from cordwood.spark.sink.driver import perform
from cordwood.spark.sink.options import SinkOptions
from cordwood.spark.sink.points import Point, read_trap
from cordwood.spark.sink.process import this_process
from cordwood.spark.sink.protocol import Steps, abort_job, commit_job
from cordwood.spark.sink.task import NO_BATCH, write_task
from cordwood.spark.sink.transactions import TaskDone, batch_job

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


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
        self._end(commit_job, messages)

    def abort(self, messages: "list[WriterCommitMessage | None]") -> None:
        self._end(abort_job, messages)

    def _end(self, protocol: Callable[..., Steps[None]], messages: "list[WriterCommitMessage | None]") -> None:
        if not self._options.is_exactly_once:
            return
        process = this_process()
        outlet = process.outlet(self._options, "decide")
        at_once = {} if self._trap is None else {"at_once": 1}
        with told_plainly():
            process.run(perform(outlet, protocol(self._job, left_by(messages), **at_once), self._reached))

    def _reached(self, point: Point) -> None:
        if self._trap is not None:
            self._trap.reached(point, NO_BATCH)


def left_by(messages: "list[WriterCommitMessage | None]") -> list[LeftTransaction]:
    """By the tasks that have written something."""
    return [done.transaction for done in messages if isinstance(done, TaskDone) and done.transaction is not None]
