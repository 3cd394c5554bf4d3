"""**Leftovers**: transactions that a pipeline was writing in when it was stopped. They are ended on the way out.

Spark kills tasks in the middle of a batch, and does not wait for the sink's abort when a query is stopped. Readers of
committed records would wait at what is left open, until the query's next start or `kafka.transaction.timeout.ms`.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from cordwood.client.errors import ClientError
from cordwood.runtime.sockets import SocketNetwork
from cordwood.spark.errors import SparkError
from cordwood.spark.sink.driver import perform
from cordwood.spark.sink.options import SinkOptions
from cordwood.spark.sink.outlet import Outlet
from cordwood.spark.sink.process import COMMITTING_JOB, WRITING
from cordwood.spark.sink.protocol import sweep_job, sweep_run
from cordwood.spark.sink.transactions import Scope

# Somebody has pressed Ctrl-C, and waits.
_ENDED_WITHIN_S = 10.0


class Leftovers:
    def __init__(self) -> None:
        self._written: dict[Scope, SinkOptions] = {}

    def take(self, report: Mapping[str, Any]) -> None:
        if report["kind"] == WRITING:
            self._written[Scope(report["query"], report["run"])] = SinkOptions(**report["options"])
        elif report["kind"] == COMMITTING_JOB:
            # What is committed of a batch job is written nowhere, so that nobody else may end it.
            self._written = {scope: sink for scope, sink in self._written.items() if scope.run != report["run"]}

    def end(self) -> Iterator[str]:
        """To be called once Spark has stopped. What could not be ended is told, a line for each query."""
        for scope, sink in self._written.items():
            try:
                asyncio.run(_end(scope, sink))
            except (ClientError, SparkError, TimeoutError) as error:
                reason = str(error) or f"no answer within {_ENDED_WITHIN_S:g} s"
                yield (
                    f"transactions of a batch that was stopped may be open, and hold up readers of committed records "
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
