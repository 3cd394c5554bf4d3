"""Keeps PySpark from printing tracebacks when Spark has closed the pipe of a Python process.

`show()`, `limit()` and `first()` take the rows they want and close the pipe while the Python worker still writes; so
does a query that is stopped. PySpark's processes then print that they could not flush, for any Python data source, and
exit. Nothing has failed. Only that error is silenced, and only where PySpark itself raises it while it writes to Spark.
"""

import sys
import traceback
from types import TracebackType
from typing import Any

_PYSPARK = "pyspark."
_CLOSED = (BrokenPipeError, ConnectionResetError)


def silence_closed_pipes() -> None:
    """Takes effect in Python processes started by Spark; in others, such as the user's program, it changes nothing.
    Call it from code that Spark calls: a forked process has imported its modules in another one.
    """
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name.startswith(_PYSPARK):
        vars(main)["print"] = print_unless_closed
        silence_process()


def silence_process() -> None:
    """PySpark's daemon prints a worker's fatal error with `traceback`; that of other processes goes to the hook."""
    if traceback.print_exc is not _print_exc:
        traceback.print_exc = _print_exc
        sys.excepthook = _hook


def print_unless_closed(*values: object, **how: Any) -> None:
    """`print` of PySpark's daemon: in some settings, it prints a message with the traceback in it."""
    if not is_closed_by_spark(sys.exception()):
        print(*values, **how)


def is_closed_by_spark(error: BaseException | None) -> bool:
    """The other end closed the pipe, and the error was raised in PySpark's code, not in ours or a user's."""
    if not isinstance(error, _CLOSED):
        return False
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    while frames and frames[-1].f_globals.get("__name__") == "socket":
        # A pipe is a socket's file where Spark has not forked the process.
        frames.pop()
    spec = frames[-1].f_globals.get("__spec__") if frames else None
    return spec is not None and spec.name.startswith(_PYSPARK)


def _print_exc(*arguments: Any, **how: Any) -> None:
    if not is_closed_by_spark(sys.exception()):
        _loud_print_exc(*arguments, **how)


def _hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not is_closed_by_spark(error):
        sys.__excepthook__(kind, error, trace)


_loud_print_exc = traceback.print_exc
