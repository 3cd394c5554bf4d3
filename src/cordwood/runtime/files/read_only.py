"""Reads files without side effects: nothing is created, locked or written, so it works beside a running broker and on
read-only media. Errors are OSErrors: a reader has no directory to take offline."""

import os
import stat
from collections.abc import Iterator
from types import TracebackType

CHUNK_BYTES = 1 << 20


def list_directory(path: str) -> list[tuple[str, bool]]:
    """(name, is it a directory) for each entry of a directory, sorted by name; skips entries that disappear."""
    with os.scandir(path) as found:
        return sorted((entry.name, entry.is_dir()) for entry in found if entry.is_dir() or entry.is_file())


def is_directory(path: str) -> bool:
    """Raises FileNotFoundError if the path does not exist."""
    return stat.S_ISDIR(os.stat(path).st_mode)


class ReadOnlyFile:
    """A file that another process may be appending to: `size` is as of opening or of the last `refresh`."""

    __slots__ = ("_fd", "path", "size")

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = 0
        self.refresh()

    def __enter__(self) -> "ReadOnlyFile":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._fd)

    def refresh(self) -> bool:
        """Returns whether the file has grown since its size was last read."""
        before, self.size = self.size, os.fstat(self._fd).st_size
        return self.size > before

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes from `position`; fewer only at the end of the file."""
        data = os.pread(self._fd, length, position)
        while data and len(data) < length and (more := os.pread(self._fd, length - len(data), position + len(data))):
            data += more
        return data

    def chunks(self, position: int = 0, length: int = CHUNK_BYTES) -> Iterator[bytes]:
        """The rest of the file in pieces of `length` bytes; the last may be shorter."""
        while chunk := self.read(position, length):
            yield chunk
            position += len(chunk)
