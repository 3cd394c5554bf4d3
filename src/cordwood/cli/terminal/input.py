"""Reads files and standard input as chunks, in a thread so that a slow pipe does not block the loop."""

import asyncio
import os
import select
import stat
import sys
import threading
from collections.abc import AsyncGenerator, Sequence

_CHUNK_BYTES = 1024 * 1024
# A pipe's default buffer size; further pieces that are available are read together.
_PIECE_BYTES = 64 * 1024


class Inputs:
    """Input files in order; "-" is standard input. Opens all of them at once, so that a wrong name fails early."""

    def __init__(self, paths: Sequence[str]) -> None:
        """Raises `OSError`."""
        self._descriptors: list[int] = []
        self._own: list[int] = []
        try:
            for path in paths:
                if path == "-":
                    self._descriptors.append(sys.stdin.fileno())
                else:
                    self._own.append(os.open(path, os.O_RDONLY))
                    self._descriptors.append(self._own[-1])
        except OSError:
            self.close()
            raise

    @property
    def size_bytes(self) -> int | None:
        """Total size; None unless all are regular files."""
        total = 0
        for descriptor in self._descriptors:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return None
            total += status.st_size
        return total

    @property
    def is_terminal(self) -> bool:
        return any(os.isatty(descriptor) for descriptor in self._descriptors)

    async def chunks(self) -> AsyncGenerator[bytes | None, None]:
        """Yields bytes as they come; None where a file ends, so that its last line is not joined with the next file's
        first.

        Raises `OSError`.
        """
        for descriptor in self._descriptors:
            while chunk := await _read(descriptor):
                yield chunk
            yield None

    def close(self) -> None:
        for descriptor in self._own:
            os.close(descriptor)
        self._own.clear()


async def _read(descriptor: int) -> bytes:
    """Runs in a daemon thread: a read that waits for a terminal must not keep the process from ending at Ctrl-C."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[bytes] = loop.create_future()

    def settle(chunk: bytes, error: OSError | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(chunk)

    def read() -> None:
        chunk, failure = b"", None
        try:
            chunk = read_available(descriptor)
        except OSError as error:
            failure = error
        # The loop is closed; the result is not needed.
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, chunk, failure)

    threading.Thread(target=read, daemon=True).start()
    return await done


def read_available(descriptor: int) -> bytes:
    """Waits for the first bytes, and takes what else is available, up to a chunk; empty at the end."""
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.read(descriptor, _CHUNK_BYTES)
    pieces = []
    size = 0
    while piece := os.read(descriptor, _PIECE_BYTES):
        pieces.append(piece)
        size += len(piece)
        # A terminal returns a line at a time, and signals its end (Ctrl-D) only once.
        if size >= _CHUNK_BYTES or os.isatty(descriptor) or not _has_more(descriptor):
            break
    return b"".join(pieces)


def _has_more(descriptor: int) -> bool:
    """True if a read would not block. Uses poll, since select handles only low descriptors. False for descriptors that
    cannot be polled."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return any(event & select.POLLIN for _, event in poller.poll(0))
