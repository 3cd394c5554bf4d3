"""Files and standard input as chunks, read in a thread so that a slow pipe does not hold the loop."""

import asyncio
import os
import select
import stat
import sys
import threading
from collections.abc import AsyncGenerator, Sequence

_CHUNK_BYTES = 1024 * 1024
# What a pipe gives at once by default; more pieces are read together, as long as they are there.
_PIECE_BYTES = 64 * 1024


class Inputs:
    """Files in their order; "-" is standard input. Opens them all at once, so that a wrong name fails early."""

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
        """None if they are not all regular files."""
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
        """Bytes as they come; None where a file ends, so that its last line is not joined with the next file's first.

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
    """In a daemon thread: a read that waits for a terminal must not keep the process from ending at Ctrl-C."""
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
        # A loop that is closed has nobody who waits.
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, chunk, failure)

    threading.Thread(target=read, daemon=True).start()
    return await done


def read_available(descriptor: int) -> bytes:
    """Waits for the first bytes, and takes what else is there already, up to a chunk; empty at the end."""
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.read(descriptor, _CHUNK_BYTES)
    pieces = []
    size = 0
    while piece := os.read(descriptor, _PIECE_BYTES):
        pieces.append(piece)
        size += len(piece)
        # A terminal gives a line at a time, and tells of its end (Ctrl-D) only once.
        if size >= _CHUNK_BYTES or os.isatty(descriptor) or not _has_more(descriptor):
            break
    return b"".join(pieces)


def _has_more(descriptor: int) -> bool:
    """A read would not wait. poll, not select, which knows only low descriptors; what cannot be polled has no more."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return any(event & select.POLLIN for _, event in poller.poll(0))
