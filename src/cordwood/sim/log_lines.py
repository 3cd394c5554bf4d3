"""The node's log lines of a run: shown in the trace, and checked for escaped exceptions."""

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from .trace import Trace

# Loggers of escaped exceptions: from handlers, background work, coordinators' timers, and metadata publishers.
_ESCAPES = ("cordwood.net.serving", "cordwood.broker.background", "cordwood.coordinator.", "cordwood.metadata.loader")


@contextmanager
def log_lines(trace: Trace, warnings: list[str]) -> Iterator[list[str]]:
    """Collects exceptions that escape from handlers and background work; nothing is printed during the run. The node's
    warnings go into `warnings`."""
    failures: list[str] = []
    logger = logging.getLogger("cordwood")
    handler = _ToTrace(trace, failures, warnings)
    before = logger.handlers, logger.propagate, logger.level
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.WARNING)
    try:
        yield failures
    finally:
        logger.handlers, logger.propagate = before[:2]
        logger.setLevel(before[2])


class _ToTrace(logging.Handler):
    def __init__(self, trace: Trace, failures: list[str], warnings: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._warnings = warnings
        self._trace = trace
        self._failures = failures

    def emit(self, record: logging.LogRecord) -> None:
        self._warnings.append(record.getMessage())
        self._trace.remark("log", f"{record.levelname} {record.getMessage()}")
        if record.name.startswith(_ESCAPES) and record.levelno >= logging.ERROR:
            error = record.exc_info[1] if record.exc_info else None
            place = traceback.format_tb(error.__traceback__)[-1].strip() if error is not None else ""
            self._failures.append(f"{record.getMessage()}: {error!r} {place}")
