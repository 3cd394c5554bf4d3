"""**Leftovers**: transactions of a batch or a job that was stopped while it was written. They are ended on the way out.

Spark kills tasks in the middle of a batch, and does not wait for the sink's abort when a query is stopped or a job is
interrupted. read_committed consumers would wait for open transactions, until the query's next start or
`kafka.transaction.timeout.ms`. Tasks report where they write, and commits report the end; transactions in between are
leftovers.
"""

import asyncio
import atexit
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from typing import Any

from cordwood.client.errors import ClientError
from cordwood.runtime.sockets import SocketNetwork
from cordwood.spark.errors import SparkError
from cordwood.spark.reports import is_heard, listening, report
from cordwood.spark.sink.driver import perform
from cordwood.spark.sink.options import SinkOptions
from cordwood.spark.sink.outlet import Outlet
from cordwood.spark.sink.protocol import sweep_job, sweep_run
from cordwood.spark.sink.transactions import Scope

_WRITING, _COMMITTED = "writing", "committed"
# The user has pressed Ctrl-C, and waits.
_ENDED_WITHIN_S = 10.0


def report_writing(scope: Scope, options: SinkOptions) -> None:
    """By a task, before its transaction begins."""
    if is_heard():
        plain = asdict(replace(options, testing_at=None))
        report(_WRITING, query=scope.query, run=scope.run, options=plain)


def report_committed(scope: Scope) -> None:
    """By the driver: of a query, once nothing of a batch is open; of a job, once its commit begins."""
    report(_COMMITTED, query=scope.query, run=scope.run)


def end_leftovers_at_exit() -> None:
    """The leftovers of this program: an interpreter that is interrupted while a job or a batch is written ends with
    it."""
    if is_heard():
        # Another process handles it.
        return
    leftovers, stack = Leftovers(), ExitStack()
    stack.enter_context(listening(leftovers.take))

    def end() -> None:
        from pyspark import SparkContext

        if leftovers.are_there() and (context := SparkContext._active_spark_context) is not None:
            # Tasks are not to go on writing.
            context.stop()
        stack.close()
        for line in leftovers.end():
            print(line, file=sys.stderr, flush=True)

    atexit.register(end)


class Leftovers:
    def __init__(self) -> None:
        self._written: dict[Scope, SinkOptions] = {}

    def take(self, report: Mapping[str, Any]) -> None:
        if report["kind"] == _WRITING:
            self._written[Scope(report["query"], report["run"])] = SinkOptions(**report["options"])
        elif report["kind"] == _COMMITTED:
            self._written.pop(Scope(report["query"], report["run"]), None)

    def are_there(self) -> bool:
        return bool(self._written)

    def end(self) -> Iterator[str]:
        """Call it once Spark has stopped. Reports transactions that could not be ended, one line per query."""
        for scope, sink in self._written.items():
            try:
                asyncio.run(_end(scope, sink))
            except (ClientError, SparkError, TimeoutError) as error:
                reason = str(error) or f"no answer within {_ENDED_WITHIN_S:g} s"
                yield (
                    f"transactions of the stopped batch may still be open and block read_committed consumers "
                    f"until {_until(scope, sink)}: {reason}"
                )


async def _end(scope: Scope, sink: SinkOptions) -> None:
    outlet = Outlet(sink, network=SocketNetwork())
    steps = sweep_job(scope) if scope.is_job else sweep_run(scope)
    try:
        async with asyncio.timeout(_ENDED_WITHIN_S):
            await perform(outlet, steps, lambda point: None)
    finally:
        with suppress(ClientError, TimeoutError):
            async with asyncio.timeout(1.0):
                await outlet.close()


def _until(scope: Scope, sink: SinkOptions) -> str:
    timeout = f"their timeout ({int(str(sink.transaction_timeout_ms)) / 60_000:g} min)"
    return timeout if scope.is_job else f"the query is started again, or {timeout}"
