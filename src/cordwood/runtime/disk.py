"""The Disk port: everything a node does to the files of one log directory.

A `Disk` is one log directory, and it fails alone: the first I/O error marks it offline with a clear line, and every
later call on it raises at once, while the other directories go on. Paths are relative to the directory, with `/`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

Buffer = bytes | bytearray | memoryview


class DiskError(Exception):
    """An operation on a log directory failed; the directory is offline from here on."""

    def __init__(self, root: str, operation: str, path: str, cause: str) -> None:
        super().__init__(f"log directory {root} is offline: {operation} {path or '.'}: {cause}")
        self.root = root
        self.operation = operation
        self.path = path
        self.cause = cause


class FileGone(OSError):
    """A file was deleted while somebody still wanted to read it, a slow consumer for one: no fault of the disk's."""


class Entry(NamedTuple):
    name: str
    is_directory: bool
    size: int


class Usage(NamedTuple):
    total_bytes: int
    free_bytes: int


class File(Protocol):
    """A file that grows at its end. Opening is cheap: a descriptor is taken on use and may be given back between uses.

    So use it under its own path only: rename it through itself, and let go of it before its directory is renamed.
    """

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int: ...

    def append(self, data: Buffer) -> None:
        """Writes all of `data` at the end."""

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes from `position`; fewer only at the end of the file."""

    def truncate(self, size: int) -> None: ...

    def rename(self, path: str) -> None:
        """Moves the file within its directory tree, replacing what is there."""

    def sync(self) -> None:
        """Returns once what was appended is on stable storage."""

    def fileno(self) -> int:
        """A descriptor for sendfile, good until control returns to the loop."""

    def close(self) -> None:
        """Gives the descriptor back; the next use takes one again."""

    def discard(self) -> None:
        """Closes a file that is about to be removed, or moved with its directory: every later use raises FileGone,
        where it would find nothing at the path, or another file."""


class Disk(Protocol):
    @property
    def root(self) -> str: ...

    @property
    def failure(self) -> DiskError | None:
        """What took the directory offline, or None while it works."""

    def open(self, path: str, size: int = -1) -> File:
        """A file that exists; `size` spares a look-up where a listing has just told it."""

    def create(self, path: str) -> File:
        """A new, empty file; one that is there is emptied."""

    def exists(self, path: str) -> bool: ...

    def list(self, path: str = "") -> list[Entry]:
        """What a directory holds, sorted by name; nothing if it is not there."""

    def modified_ms(self, path: str) -> int: ...

    def read_file(self, path: str) -> bytes | None:
        """A small file's bytes, or None if it is not there."""

    def write_file(self, path: str, data: bytes) -> None:
        """Replaces a small file atomically and durably: a crash leaves the old or the new content."""

    def make_directory(self, path: str, *, sync: bool = True) -> None: ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None:
        """Removes a file if it is there."""

    def remove_directory(self, path: str) -> bool:
        """Removes a directory if it is there and empty; False if it holds anything. There is no way to remove a
        directory with whatever it holds: a caller names every file that it removes."""

    def sync_directory(self, path: str = "") -> None:
        """Makes creations, renames and removals in a directory durable."""

    def sync_all(self) -> None:
        """Makes everything in the log directory durable at once: for a stop, cheaper than thousands of single files."""

    def sync_job(self, files: Sequence[File], directories: Sequence[str] = ()) -> Callable[[], None]:
        """A job for any thread that makes what `files` hold now durable, and then the names in `directories`; they may
        be renamed or removed meanwhile. It has to be run."""

    def another(self) -> "Disk":
        """The same directory for use by another thread (compaction). The owner may rename and remove what it works on:
        what is not there raises FileGone, which is no failure."""

    def usage(self) -> Usage: ...

    def lock(self) -> bool:
        """Takes the directory for this process (`.lock`); False if another process has it."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class FileRange:
    """Bytes of a file that need not be read to be sent: `net` hands them to sendfile."""

    file: File
    position: int
    length: int

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        return self.file.read(self.position, self.length)
