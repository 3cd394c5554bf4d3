"""The Disk port: every operation of a node on the files of one log directory.

A `Disk` is one log directory, and fails on its own: the first I/O error marks it offline with a log line, and every
later call on it raises at once, while the other directories continue. Paths are relative to the directory, with `/`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

Buffer = bytes | bytearray | memoryview


class DiskError(Exception):
    """An operation on a log directory failed; the directory is offline from now on."""

    def __init__(self, root: str, operation: str, path: str, cause: str) -> None:
        super().__init__(f"log directory {root} is offline: {operation} {path or '.'}: {cause}")
        self.root = root
        self.operation = operation
        self.path = path
        self.cause = cause


class FileGone(OSError):
    """A file was deleted while it was still being read, for example by a slow consumer; not a disk failure."""


class Entry(NamedTuple):
    name: str
    is_directory: bool
    size: int


class Usage(NamedTuple):
    total_bytes: int
    free_bytes: int


class File(Protocol):
    """A file that grows at its end. Opening is cheap: a descriptor is acquired on use and may be released between uses.

    Because files are reopened by path, rename a file only through this object, and discard it before its directory is
    renamed.
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
        """Moves the file within its directory tree, replacing an existing one."""

    def sync(self) -> None:
        """Returns once the appended data is on stable storage."""

    def fileno(self) -> int:
        """A descriptor for sendfile, valid until control returns to the event loop."""

    def close(self) -> None:
        """Releases the descriptor; the next use acquires one again."""

    def discard(self) -> None:
        """Closes a file that is about to be removed, or moved with its directory. Every later use raises FileGone,
        because the path may be missing or belong to another file."""


class Disk(Protocol):
    @property
    def root(self) -> str: ...

    @property
    def failure(self) -> DiskError | None:
        """The error that took the directory offline, or None."""

    def open(self, path: str, size: int = -1) -> File:
        """Opens an existing file; `size` saves a stat call if a listing has just returned it."""

    def create(self, path: str) -> File:
        """Creates an empty file; truncates an existing one."""

    def exists(self, path: str) -> bool: ...

    def list(self, path: str = "") -> list[Entry]:
        """The entries of a directory, sorted by name; empty if it does not exist."""

    def modified_ms(self, path: str) -> int: ...

    def read_file(self, path: str) -> bytes | None:
        """A small file's bytes, or None if it does not exist."""

    def write_file(self, path: str, data: bytes) -> None:
        """Replaces a small file atomically and durably: after a crash it has either the old or the new content."""

    def make_directory(self, path: str, *, sync: bool = True) -> None: ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None:
        """Removes a file if it exists."""

    def remove_directory(self, path: str) -> bool:
        """Removes a directory if it exists and is empty; returns False if it is not empty. There is no recursive
        removal: a caller names every file that it removes."""

    def sync_directory(self, path: str = "") -> None:
        """Makes creations, renames and removals in a directory durable."""

    def sync_all(self) -> None:
        """Makes everything in the log directory durable at once: at shutdown this is cheaper than syncing thousands of
        files."""

    def sync_job(self, files: Sequence[File], directories: Sequence[str] = ()) -> Callable[[], None]:
        """Returns a job for any thread that syncs the current contents of `files`, and then the names in `directories`;
        both may be renamed or removed in between. The job must be run."""

    def another(self) -> "Disk":
        """The same directory for use by another thread (compaction). The owner may rename and remove files
        concurrently: a missing file raises FileGone, which does not take the directory offline."""

    def usage(self) -> Usage: ...

    def lock(self) -> bool:
        """Locks the directory for this process (`.lock`); returns False if another process holds the lock."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class FileRange:
    """A range of a file that is sent without reading it: `net` passes it to sendfile."""

    file: File
    position: int
    length: int

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        return self.file.read(self.position, self.length)
