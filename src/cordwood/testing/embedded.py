"""A node inside the test process, on its own thread and event loop."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from cordwood.runtime.event_loop import loop_factory
from cordwood.testing import NodeError
from cordwood.testing.assembly import START_ERRORS, start_node, start_registry
from cordwood.testing.local_node import LocalNode, Setup

_numbers = itertools.count(1)
_LOG_LINES = 10_000
_LOGGER = logging.getLogger("cordwood")


class EmbeddedNode(LocalNode):
    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._name = f"cordwood-node-{next(_numbers)}"
        self._lines = _LogLines(self._name)
        self._level_before = logging.NOTSET
        self._ended: Future[None] = Future()
        self._end: asyncio.Event
        self._loop: asyncio.AbstractEventLoop

    @property
    def log(self) -> str:
        return "".join(f"{line}\n" for line in tuple(self._lines.kept))

    def kill(self) -> None:
        raise NodeError("killing an in-process node would kill the test process: use node(subprocess=True)")

    def _start(self) -> tuple[str, str | None]:
        self._listen_to_logs()
        ready: Future[tuple[str, str | None]] = Future()
        self._ended = Future()
        threading.Thread(target=self._run, args=(ready, self._ended), name=self._name, daemon=True).start()
        try:
            return ready.result()
        except BaseException as error:
            self._leave_logs()
            if isinstance(error, START_ERRORS):
                raise NodeError(f"the node did not start: {error}") from error
            raise

    def _stop(self) -> None:
        try:
            # Already closed if the node stopped because of an error, which the result reports.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._end.set)
            self._ended.result()
        finally:
            self._leave_logs()

    # On the node's thread

    def _run(self, ready: Future[tuple[str, str | None]], ended: Future[None]) -> None:
        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(self._serve(ready))
        except BaseException as error:  # noqa: BLE001  # raised where the node was started or is stopped
            (ended if ready.done() else ready).set_exception(error)
        else:
            ended.set_result(None)

    async def _serve(self, ready: Future[tuple[str, str | None]]) -> None:
        self._loop = asyncio.get_running_loop()
        # `log` recognises the node's threads by their names.
        self._loop.set_default_executor(ThreadPoolExecutor(thread_name_prefix=self._name))
        self._end = asyncio.Event()
        node = await start_node(self.settings, str(self.data), self._port, stopped=self._end)
        registry = await start_registry(node, self._registry_port) if self._has_registry else None
        ready.set_result((node.bootstrap, None if registry is None else registry.url))
        await node.stopped.wait()
        if registry is not None:
            await registry.stop()
        await node.stop()
        if node.failure is not None:
            raise NodeError(f"the node had stopped unexpectedly: {node.failure}")

    # Logging

    def _listen_to_logs(self) -> None:
        _LOGGER.addHandler(self._lines)
        if self._log_level is not None:
            self._level_before = _LOGGER.level
            _LOGGER.setLevel(self._log_level.upper())

    def _leave_logs(self) -> None:
        _LOGGER.removeHandler(self._lines)
        if self._log_level is not None:
            _LOGGER.setLevel(self._level_before)


class _LogLines(logging.Handler):
    """The last log lines of one of several nodes in this process."""

    def __init__(self, thread_prefix: str) -> None:
        super().__init__()
        self.kept: deque[str] = deque(maxlen=_LOG_LINES)
        self._thread_prefix = thread_prefix
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        thread = record.threadName or ""
        if thread == self._thread_prefix or thread.startswith(f"{self._thread_prefix}_"):
            self.kept.append(self.format(record))
