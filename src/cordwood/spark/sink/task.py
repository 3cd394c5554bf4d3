"""The rows of one task attempt: written in one transaction, which is left to the driver; or, at least once, without."""

from collections import deque
from collections.abc import Iterable, Iterator

import pyarrow as pa  # type: ignore[import-untyped]

from cordwood.client.producer.bulk import BulkDelivery
from cordwood.client.producer.producer import Producer
from cordwood.spark.sink.columns import Columns
from cordwood.spark.sink.leftovers import report_writing
from cordwood.spark.sink.options import SinkOptions
from cordwood.spark.sink.outlet import Outlet
from cordwood.spark.sink.points import Point, Trap
from cordwood.spark.sink.process import Process, this_process
from cordwood.spark.sink.transactions import Scope, TaskDone
from cordwood.spark.worker_garbage import spare_modules

NO_BATCH = -1
"""For a batch job: nothing is replayed."""


def write_task(
    batches: Iterable[pa.RecordBatch],
    columns: Columns,
    options: SinkOptions,
    scope: Scope,
    batch: int,
    trap: Trap | None = None,
) -> TaskDone:
    process = this_process()
    outlet = process.outlet(options, "write")
    attempt = _Attempt(process, outlet, columns, scope, batch, trap)
    attempt.reached(Point.TASK_BEGUN)
    # A task without rows leaves nothing to end, so it does not begin.
    rows = _with_rows(batches)
    first = next(rows, None)
    if first is None:
        return TaskDone(scope, None)
    if batch != NO_BATCH and options.is_exactly_once and process.run(attempt.finds_decided()):
        for _ in rows:
            pass
        return TaskDone(scope, None, found_decided=True)
    try:
        done = attempt.write(first, rows, in_transaction=options.is_exactly_once)
    except BaseException:
        # Its open transaction is aborted, or left to the driver's sweep.
        process.run(outlet.drop_producer())
        raise
    spare_modules()
    return done


class _Attempt:
    def __init__(
        self, process: Process, outlet: Outlet, columns: Columns, scope: Scope, batch: int, trap: Trap | None
    ) -> None:
        self._process = process
        self._outlet = outlet
        self._columns = columns
        self._scope = scope
        self._batch = batch
        self._trap = trap
        self._rows = 0
        self._bytes = 0
        self._sweeps = 0
        self._deliveries: deque[BulkDelivery] = deque()

    def reached(self, point: Point) -> None:
        if self._trap is not None:
            self._trap.reached(point, self._batch)

    async def finds_decided(self) -> bool:
        """Fenced by an earlier run of the query, or by another driver: the driver would abort our writes."""
        last = await (await self._outlet.ledger()).read(self._scope.query, latest=False)
        self._sweeps = 0 if last is None else last.sweeps
        return last is not None and last.batch >= self._batch

    def write(self, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch], *, in_transaction: bool) -> TaskDone:
        run = self._process.run
        producer = run(self._begin() if in_transaction else self._outlet.plain_producer())
        batch: pa.RecordBatch | None = first
        while batch is not None:
            run(self._send(producer, batch))
            batch = next(rest, None)
        self.reached(Point.TASK_WRITTEN)
        if in_transaction:
            left = run(producer.leave_transaction())
        else:
            left = None
            run(producer.flush())
        for delivery in self._deliveries:
            delivery.result(timeout=0)
        self.reached(Point.TASK_LEFT)
        return TaskDone(self._scope, left, self._rows, self._bytes, sweeps=self._sweeps)

    async def _begin(self) -> Producer:
        report_writing(self._scope, self._outlet.options)
        name = self._process.names(self._scope).take(self._batch)
        producer = await self._outlet.writing_as(name)
        await producer.begin_transaction()
        return producer

    async def _send(self, producer: Producer, batch: pa.RecordBatch) -> None:
        """Waits for room, so that memory use stays below `buffer.memory`."""
        columns = self._columns
        for records in columns.records(batch):
            delivery = await producer.send_arrow(
                records.rows,
                records.topic,
                key="key" if columns.has_key else None,
                value="value",
                partition=records.partition,
                headers="headers" if columns.has_headers else None,
            )
            self._deliveries.append(delivery)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        while self._deliveries and self._deliveries[0].done():
            self._deliveries.popleft().result(timeout=0)


def _with_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (batch for batch in batches if batch.num_rows)
