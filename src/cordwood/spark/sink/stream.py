"""**StreamWriter**: `df.writeStream.format("cordwood")`. Spark creates one for the tasks of each batch, and another, in
a separate process, for each commit; they communicate only through the tasks' messages."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from cordwood.spark.errors import SparkError, told_plainly
from cordwood.spark.sink.batch import as_far_as_possible, left_by
from cordwood.spark.sink.columns import Columns
from cordwood.spark.sink.driver import perform
from cordwood.spark.sink.leftovers import report_committed
from cordwood.spark.sink.options import SinkOptions
from cordwood.spark.sink.points import Point, read_trap
from cordwood.spark.sink.process import this_process
from cordwood.spark.sink.protocol import ENDS_AT_ONCE, CannotDecide, abort_batch, commit_batch
from cordwood.spark.sink.task import write_task
from cordwood.spark.sink.transactions import Scope, TaskDone, sweeps_seen

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter

    class DataSourceStreamArrowWriter(DataSourceArrowWriter, DataSourceStreamWriter):  # type: ignore[no-redef, misc]
        """PySpark 4.0 lacks the class, and passes Arrow batches to any Arrow writer."""


_QUERY = "sql.streaming.queryId"
_BATCH = "streaming.sql.batchId"
# Spark makes a run of a query a group of jobs.
_RUN = "spark.jobGroup.id"


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions, columns: Columns) -> None:
        self._options = options
        self._columns = columns
        self._trap = read_trap(options.testing_at)
        # The application may have changed the job group: then every batch is a separate run.
        self._else_run = uuid4().hex

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        with told_plainly():
            scope, batch = self._place()
            return write_task(iterator, self._columns, self._options, scope, batch, self._trap)

    def commit(self, messages: "list[WriterCommitMessage | None]", batchId: int) -> None:  # noqa: N803  Spark's name
        tasks = _tasks(messages)
        if not self._options.is_exactly_once or not tasks:
            return
        steps = commit_batch(
            tasks[0].scope,
            batchId,
            left_by(messages),
            begun_at=sweeps_seen(tasks),
            found_decided=any(task.found_decided for task in tasks),
            at_once=self._at_once,
        )
        process = this_process()
        with told_plainly():
            try:
                process.run(perform(process.outlet(self._options, "decide"), steps, self._reached(batchId)))
            except CannotDecide as error:
                raise SparkError(str(error)) from None
        report_committed(tasks[0].scope)

    def abort(self, messages: "list[WriterCommitMessage | None]", batchId: int) -> None:  # noqa: N803  Spark's name
        tasks = _tasks(messages)
        if not self._options.is_exactly_once or not tasks:
            return
        steps = abort_batch(tasks[0].scope, batchId, left_by(messages), at_once=self._at_once)
        process = this_process()
        with as_far_as_possible():
            process.run(perform(process.outlet(self._options, "decide"), steps, _nothing))

    def _place(self) -> tuple[Scope, int]:
        task = TaskContext.get()
        query = task.getLocalProperty(_QUERY) if task is not None else None
        batch = task.getLocalProperty(_BATCH) if task is not None else None
        if task is None or query is None or batch is None:
            raise SparkError("not running in a streaming query task: Spark provides no query id and batch id")
        return Scope(query, task.getLocalProperty(_RUN) or self._else_run), int(batch)

    @property
    def _at_once(self) -> int:
        """Transactions ended concurrently; one by one in tests that kill in between."""
        return ENDS_AT_ONCE if self._trap is None else 1

    def _reached(self, batch: int) -> Callable[[Point], None]:
        trap = self._trap
        return _nothing if trap is None else lambda point: trap.reached(point, batch)


def _tasks(messages: "list[WriterCommitMessage | None]") -> list[TaskDone]:
    return [message for message in messages if isinstance(message, TaskDone)]


def _nothing(point: Point) -> None:
    return None
