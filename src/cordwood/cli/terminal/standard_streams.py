"""The three standard streams of the process, made safe: a closed or full one is an error message, never a crash."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

EXIT_CANNOT_WRITE = 1

_STDIN, _STDOUT, _STDERR = range(3)


class CannotWrite(Exception):
    """Standard output cannot be written, for example because its disk is full.

    Not an `OSError`: code that handles the errors of its own files must not mistake this for one of them.
    """


class OutputClosed(CannotWrite):
    """The process was started without a standard output."""


class ReaderGone(CannotWrite):
    """The reader of the pipe has closed it, as `head` does when it has seen enough."""


@contextmanager
def standard_streams() -> Iterator[None]:
    """Repairs the streams of this process, and turns a failing standard output into one line and an exit code."""
    for descriptor in (_STDIN, _STDOUT, _STDERR):
        _occupy(descriptor)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(_STDIN, closefd=False)), encoding="utf-8")
    sys.stdout = _text_output(_Output(_STDOUT, "w", closefd=False), sys.stdout)
    sys.stderr = _text_output(_ErrorOutput(_STDERR, "w", closefd=False), sys.stderr)
    exit_code: Any = 0
    try:
        try:
            yield
        except SystemExit as ended:
            exit_code = ended.code
            raise
        finally:
            sys.stdout.flush()
    except CannotWrite as error:
        discard_output()
        if not isinstance(error, ReaderGone):
            print(f"cordwood: {error}", file=sys.stderr)
            exit_code = exit_code or EXIT_CANNOT_WRITE
        sys.exit(exit_code)


def discard_output() -> None:
    """Drops buffered and later output, so that the flush at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), _STDOUT)


def _occupy(descriptor: int) -> None:
    """Opens a standard descriptor that is closed; otherwise the next file or socket would get its number.

    Makes standard input unreadable and standard output unwritable, so that commands which need them fail. Error
    messages are dropped.
    """
    try:
        os.fstat(descriptor)
    except OSError:
        # `open` returns the lowest free number, and those below are open by now.
        os.open(os.devnull, os.O_RDONLY if descriptor == _STDOUT else os.O_WRONLY)


class _Output(io.FileIO):
    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise ReaderGone("standard output was closed by its reader") from error
            if error.errno == errno.EBADF:
                raise OutputClosed("cannot write to standard output: it is closed") from error
            raise CannotWrite(f"cannot write to standard output: {error.strerror}") from error


class _ErrorOutput(io.FileIO):
    """Drops what cannot be written; the exit code still reports the failure."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def _text_output(raw: io.FileIO, old: Any) -> io.TextIOWrapper:
    """Opens it as Python does, except that characters which the encoding lacks are escaped instead of raising."""
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding="utf-8" if old is None else old.encoding,
        errors="backslashreplace" if old is None or old.errors == "strict" else old.errors,
        # Python writes unbuffered through the text layer alone; a `BufferedWriter` would hold data back.
        line_buffering=old is not None and (old.line_buffering or old.write_through),
    )
