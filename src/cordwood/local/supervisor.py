"""Processes that are started, watched and stopped together.

Each is forked from this one, which has imported everything already: three nodes are up in the time of one. So this
process must have no threads and no event loop. A child ends with it, however it ends: it watches a pipe that only this
process holds open. Ctrl-C reaches this process only, which then stops the children in order.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cordwood.runtime.process import stop_signals

_log = logging.getLogger(__name__)

# A child that dies is started again after this, and then after twice as long each time.
RESTART_DELAY_S = 1.0
_LONGEST_RESTART_DELAY_S = 30.0
# One that ran for this long is started again as if it were for the first time.
_STEADY_S = 60.0
# How long a controlled shutdown may take before the process is killed.
STOP_TIMEOUT_S = 20.0
# Sent to nodes that stop together. With SIGTERM, which is for one of them, each would ask the controllers to move its
# leaders, and the last one would wait for a quorum that has left.
STOP_TOGETHER = signal.SIGUSR1

Report = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Program:
    """The work of a child process. `run` gets a function with which it reports that it is ready (or {"error": ...}),
    and a descriptor that becomes readable when the supervisor exits; it returns the exit status."""

    name: str
    run: Callable[[Report, int], int]
    # Children of a lower stage are stopped before those of a higher one.
    stage: int = 0


class ChildFailed(Exception):
    """A child could not start, or ended before it was ready."""


@dataclass(slots=True)
class _Child:
    program: Program
    pid: int | None = None
    reports: int | None = None
    received: bytes = b""
    ready: dict[str, Any] | None = None
    started_at: float = 0.0
    delay_s: float = RESTART_DELAY_S
    restart_at: float | None = None
    # One that never got ready would not get ready the next time either.
    was_ready: bool = False
    # It was asked to end.
    is_expected: bool = False


class Supervisor:
    """`start` returns once all children are ready; `watch` returns when it is told to stop."""

    def __init__(self, programs: Sequence[Program], *, restarts: bool = True) -> None:
        self._children = {program.name: _Child(program) for program in programs}
        self._restarts = restarts
        self._alive_read, self._alive_write = os.pipe()
        self._wake_read, self._wake_write = os.pipe()
        for descriptor in (self._wake_read, self._wake_write):
            os.set_blocking(descriptor, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_read, selectors.EVENT_READ, self._signalled)
        self._stop_asked = False
        self._former: dict[int, Any] = {}

    # Life

    def __enter__(self) -> Supervisor:
        self._former = {number: signal.signal(number, self._on_signal) for number in (signal.SIGCHLD, *stop_signals())}
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()
        signal.set_wakeup_fd(-1)
        for number, handler in self._former.items():
            signal.signal(number, handler)
        self._selector.close()
        for descriptor in (self._alive_read, self._alive_write, self._wake_read, self._wake_write):
            os.close(descriptor)

    def start(self) -> dict[str, dict[str, Any]]:
        """Returns the reports of the children, by name; fewer if a stop was requested. Raises ChildFailed."""
        # Children share these pages as long as no process writes to them.
        gc.collect()
        gc.freeze()
        for child in self._children.values():
            self._fork(child)
        for child in self._children.values():
            self._await_ready(child)
        return {name: child.ready for name, child in self._children.items() if child.ready is not None}

    def watch(self, on_readable: tuple[int, Callable[[], bool]] | None = None) -> None:
        """Returns when one of `stop_signals` came, or when the function of `on_readable` returns False, which is called
        whenever its descriptor can be read."""
        goes_on = True
        if on_readable is not None:
            self._selector.register(on_readable[0], selectors.EVENT_READ, None)
        while goes_on and not self._stop_asked:
            for key in self._turn(self._until_next_restart()):
                assert on_readable is not None
                goes_on = key.fd != on_readable[0] or on_readable[1]()
            for child in self._children.values():
                if child.restart_at is not None and child.restart_at <= time.monotonic():
                    self._fork(child)
        if on_readable is not None:
            self._selector.unregister(on_readable[0])

    def stop(self) -> None:
        """Ends all children, stage by stage; kills those that have not ended after `STOP_TIMEOUT_S`."""
        for child in self._children.values():
            child.restart_at = None
        for stage in sorted({child.program.stage for child in self._children.values()}):
            names = [name for name, child in self._children.items() if child.program.stage == stage]
            self._end(names, STOP_TOGETHER)

    # Single children

    def pid(self, name: str) -> int | None:
        return self._children[name].pid

    def stop_children(self, names: Sequence[str]) -> None:
        self._end(names, signal.SIGTERM)

    def kill(self, name: str) -> None:
        """SIGKILL; it stays down until `start_child`."""
        self._end([name], signal.SIGKILL)

    def start_child(self, name: str) -> dict[str, Any] | None:
        child = self._children[name]
        assert child.pid is None, f"{name} runs already"
        self._fork(child)
        self._await_ready(child)
        return child.ready

    # Within

    def _fork(self, child: _Child) -> None:
        reports_read, reports_write = os.pipe()
        os.set_blocking(reports_read, False)
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            os._exit(self._run(child, reports_read, reports_write))
        os.close(reports_write)
        child.pid, child.reports, child.received, child.ready = pid, reports_read, b"", None
        child.started_at, child.restart_at, child.is_expected = time.monotonic(), None, False
        self._selector.register(reports_read, selectors.EVENT_READ, lambda: self._read_report(child))

    def _run(self, child: _Child, reports_read: int, reports_write: int) -> int:
        """In the child."""
        # Not in the terminal's foreground: Ctrl-C is for the supervisor.
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in self._former:
            signal.signal(number, signal.SIG_DFL)
        self._selector.close()
        others = [other.reports for other in self._children.values() if other.reports is not None]
        for descriptor in (self._alive_write, self._wake_read, self._wake_write, reports_read, *others):
            os.close(descriptor)

        def report(said: dict[str, Any]) -> None:
            os.write(reports_write, json.dumps(said).encode() + b"\n")

        try:
            status = child.program.run(report, self._alive_read)
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else 1
        except BaseException:  # noqa: BLE001 - the child ends here with any error
            _log.exception("%s failed", child.program.name)
            status = 1
        sys.stdout.flush()
        sys.stderr.flush()
        return status

    def _await_ready(self, child: _Child) -> None:
        while child.ready is None and not self._stop_asked:
            if child.pid is None:
                raise ChildFailed(f"{child.program.name} ended before it was ready")
            self._turn(None)
        if child.ready is not None and "error" in child.ready:
            raise ChildFailed(f"{child.program.name}: {child.ready['error']}")

    def _end(self, names: Sequence[str], number: signal.Signals) -> None:
        ending = [self._children[name] for name in names]
        for child in ending:
            child.is_expected, child.restart_at = True, None
            if child.pid is not None:
                os.kill(child.pid, number)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while any(child.pid is not None for child in ending):
            self._turn(max(0.0, deadline - time.monotonic()))
            if time.monotonic() >= deadline:
                for child in ending:
                    if child.pid is not None:
                        _log.warning("%s has not stopped within %g s: killing it", child.program.name, STOP_TIMEOUT_S)
                        os.kill(child.pid, signal.SIGKILL)
                deadline = float("inf")

    def _turn(self, timeout_s: float | None) -> list[selectors.SelectorKey]:
        """Waits for events; returns those that are not the supervisor's own."""
        limited = None if timeout_s is None or timeout_s == float("inf") else timeout_s
        others = []
        for key, _events in self._selector.select(limited):
            if key.data is None:
                others.append(key)
            else:
                key.data()
        return others

    def _on_signal(self, number: int, _frame: object) -> None:
        if number != signal.SIGCHLD:
            self._stop_asked = True

    def _signalled(self) -> None:
        os.read(self._wake_read, 4096)
        for child in self._children.values():
            if child.pid is None:
                continue
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                self._ended(child, os.waitstatus_to_exitcode(status))

    def _ended(self, child: _Child, status: int) -> None:
        if child.reports is not None:
            self._read_report(child)
        if child.reports is not None:
            self._close_reports(child)
        pid, child.pid = child.pid, None
        if child.is_expected or self._stop_asked or not child.was_ready:
            return
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
        if not self._restarts:
            _log.error("%s (process %d) ended with %s", child.program.name, pid, how)
            return
        if time.monotonic() - child.started_at >= _STEADY_S:
            child.delay_s = RESTART_DELAY_S
        _log.error(
            "%s (process %d) ended with %s; starting it again in %g s", child.program.name, pid, how, child.delay_s
        )
        child.restart_at = time.monotonic() + child.delay_s
        child.delay_s = min(2 * child.delay_s, _LONGEST_RESTART_DELAY_S)

    def _read_report(self, child: _Child) -> None:
        assert child.reports is not None
        try:
            data = os.read(child.reports, 65536)
        except BlockingIOError:
            return
        child.received += data
        if child.ready is None and b"\n" in child.received:
            child.ready = json.loads(child.received.partition(b"\n")[0])
            child.was_ready = child.was_ready or "error" not in child.ready
        if not data:
            self._close_reports(child)

    def _close_reports(self, child: _Child) -> None:
        assert child.reports is not None
        self._selector.unregister(child.reports)
        os.close(child.reports)
        child.reports = None

    def _until_next_restart(self) -> float | None:
        times = [child.restart_at for child in self._children.values() if child.restart_at is not None]
        return max(0.0, min(times) - time.monotonic()) if times else None
