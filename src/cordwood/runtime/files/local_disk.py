"""The real Disk: a directory of the local file system."""

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from cordwood.runtime.disk import Buffer, DiskError, Entry, File, FileGone, Usage

from .descriptors import DescriptorPool

_FILE_MODE = 0o644
# Another thread's view of a directory uses few files at a time; the node's own pool stays bounded separately.
_DESCRIPTORS_OF_ANOTHER = 64
# Stored in place of a file's descriptor: closed for now, or discarded for good.
_CLOSED, _DISCARDED = -1, -2
# C's struct flock: type, whence, start, length (0: however long the file gets), process id.
_WHOLE_FILE_LOCK = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


class LocalDisk:
    """See `Disk`. Not thread-safe: another thread uses `another()`."""

    def __init__(self, root: str, descriptors: DescriptorPool | None = None) -> None:
        self.root = os.path.abspath(root)
        self._health = _Health()
        self._descriptors = descriptors if descriptors is not None else DescriptorPool()
        self._lock_fd = -1
        self._is_owner = True
        # An unusable directory is offline from the start: its first use reports the error.
        with suppress(DiskError), self._guard("create", ""):
            os.makedirs(self.root, exist_ok=True)

    @property
    def failure(self) -> DiskError | None:
        return self._health.failure

    def open(self, path: str, size: int = -1) -> "LocalFile":
        if size < 0:
            with self._guard("open", path):
                size = os.stat(self._absolute(path)).st_size
        return LocalFile(self, path, size)

    def create(self, path: str) -> "LocalFile":
        file = LocalFile(self, path, 0)
        with self._guard("create", path):
            self._descriptors.adopt(
                file, os.open(self._absolute(path), os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _FILE_MODE)
            )
        return file

    def exists(self, path: str) -> bool:
        with self._guard("stat", path):
            try:
                os.stat(self._absolute(path))
            except (FileNotFoundError, NotADirectoryError):
                return False
            return True

    def list(self, path: str = "") -> list[Entry]:
        with self._guard("list", path):
            try:
                found = os.scandir(self._absolute(path))
            except FileNotFoundError:
                return []
            with found:
                entries = [entry for entry in map(_entry, found) if entry is not None]
        entries.sort(key=lambda entry: entry.name)
        return entries

    def modified_ms(self, path: str) -> int:
        with self._guard("stat", path):
            return os.stat(self._absolute(path)).st_mtime_ns // 1_000_000

    def read_file(self, path: str) -> bytes | None:
        with self._guard("read", path):
            try:
                fd = os.open(self._absolute(path), os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return None
            try:
                return _read_fully(fd, 0, os.fstat(fd).st_size)
            finally:
                os.close(fd)

    def write_file(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        with self._guard("write", path):
            fd = os.open(self._absolute(temporary), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _FILE_MODE)
            try:
                _write_fully(fd, data, 0)
                os.fsync(fd)
            finally:
                os.close(fd)
            os.replace(self._absolute(temporary), self._absolute(path))
        self.sync_directory(os.path.dirname(path))

    def make_directory(self, path: str, *, sync: bool = True) -> None:
        with self._guard("create", path):
            os.makedirs(self._absolute(path), exist_ok=True)
        if sync:
            self.sync_directory(os.path.dirname(path))

    def rename(self, old: str, new: str) -> None:
        with self._guard("rename", old):
            os.replace(self._absolute(old), self._absolute(new))

    def remove(self, path: str) -> None:
        with self._guard("remove", path):
            try:
                os.unlink(self._absolute(path))
            except FileNotFoundError:
                return

    def remove_directory(self, path: str) -> bool:
        with self._guard("remove", path):
            try:
                os.rmdir(self._absolute(path))
            except FileNotFoundError:
                return True
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    return False
                raise
            return True

    def sync_directory(self, path: str = "") -> None:
        with self._guard("sync", path):
            fd = self._open_directory(path)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def sync_all(self) -> None:
        with self._guard("sync", ""):
            fd = self._open_directory("")
            try:
                _sync_file_system(fd)
            finally:
                os.close(fd)

    def sync_job(self, files: Sequence[File], directories: Sequence[str] = ()) -> Callable[[], None]:
        # Duplicate the descriptors here, on the owner's thread: the pool may close its own, and paths may change.
        opened: list[tuple[str, int]] = []
        try:
            for file in files:
                fd = file.fileno()
                with self._guard("sync", file.path):
                    opened.append((file.path, os.dup(fd)))
            for path in directories:
                with self._guard("sync", path):
                    opened.append((path, self._open_directory(path)))
        except (DiskError, FileGone):
            for _, fd in opened:
                os.close(fd)
            raise

        def job() -> None:
            try:
                for path, fd in opened:
                    with self._guard("sync", path):
                        os.fsync(fd)
            finally:
                for _, fd in opened:
                    os.close(fd)

        return job

    def another(self) -> "LocalDisk":
        self._health.check()
        other = LocalDisk(self.root, DescriptorPool(_DESCRIPTORS_OF_ANOTHER))
        other._health = self._health
        other._is_owner = False
        return other

    def usage(self) -> Usage:
        with self._guard("stat", ""):
            status = os.statvfs(self.root)
        return Usage(status.f_frsize * status.f_blocks, status.f_frsize * status.f_bavail)

    def lock(self) -> bool:
        with self._guard("lock", ".lock"):
            fd = os.open(self._absolute(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
            try:
                # Java uses this kind of lock, which `flock` does not see. It belongs to the open file, not to the
                # process, so that another LocalDisk of the same process is rejected too.
                fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _WHOLE_FILE_LOCK)
            except (BlockingIOError, PermissionError):
                os.close(fd)
                return False
            self._lock_fd = fd
            return True

    def close(self) -> None:
        self._descriptors.close_all(self)
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def _open_directory(self, path: str) -> int:
        return os.open(self._absolute(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def _absolute(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    @contextmanager
    def _guard(self, operation: str, path: str) -> Iterator[None]:
        self._health.check()
        try:
            yield
        except OSError as error:
            raise self._fail(operation, path, error) from error

    def _fail(self, operation: str, path: str, error: OSError) -> DiskError | FileGone:
        if isinstance(error, FileNotFoundError) and not self._is_owner:
            return FileGone(f"{path} no longer exists")
        return self._health.fail(DiskError(self.root, operation, path, error.strerror or str(error)))


class _Health:
    """The state of a directory, shared by all threads; the first failure is kept."""

    __slots__ = ("failure",)

    def __init__(self) -> None:
        self.failure: DiskError | None = None

    def check(self) -> None:
        if self.failure is not None:
            # Raised repeatedly while the directory is offline: drop the traceback, which would grow each time.
            raise self.failure.with_traceback(None)

    def fail(self, failure: DiskError) -> DiskError:
        if self.failure is None:
            self.failure = failure
        return failure


class LocalFile:
    """See `File`. Appends go to the known size, so a torn write is overwritten, never followed."""

    __slots__ = ("_disk", "fd", "path", "recently_used", "size")

    def __init__(self, disk: LocalDisk, path: str, size: int) -> None:
        self._disk = disk
        self.path = path
        self.size = size
        self.fd = _CLOSED
        self.recently_used = True

    def append(self, data: Buffer) -> None:
        fd = self.fileno()
        try:
            # Fast path: one write takes everything.
            written = os.pwrite(fd, data, self.size)
            if written != len(data):
                _write_fully(fd, memoryview(data)[written:], self.size + written)
        except OSError as error:
            raise self._disk._fail("append to", self.path, error) from error
        self.size += len(data)

    def read(self, position: int, length: int) -> bytes:
        fd = self.fileno()
        try:
            return _read_fully(fd, position, length)
        except OSError as error:
            raise self._disk._fail("read", self.path, error) from error

    def truncate(self, size: int) -> None:
        fd = self.fileno()
        try:
            os.ftruncate(fd, size)
        except OSError as error:
            raise self._disk._fail("truncate", self.path, error) from error
        self.size = size

    def rename(self, path: str) -> None:
        self._disk.rename(self.path, path)
        self.path = path

    def sync(self) -> None:
        fd = self.fileno()
        try:
            os.fsync(fd)
        except OSError as error:
            raise self._disk._fail("sync", self.path, error) from error

    def fileno(self) -> int:
        disk = self._disk
        if disk._health.failure is not None:
            disk._health.check()
        self.recently_used = True
        if self.fd >= 0:
            return self.fd
        if self.fd == _DISCARDED:
            raise FileGone(f"{self.path} was deleted")
        try:
            fd = os.open(disk._absolute(self.path), os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise disk._fail("open", self.path, error) from error
        disk._descriptors.adopt(self, fd)
        return fd

    def close(self) -> None:
        self._disk._descriptors.release(self)

    def discard(self) -> None:
        self.close()
        self.fd = _DISCARDED

    @property
    def disk(self) -> LocalDisk:
        return self._disk


def _entry(found: os.DirEntry[str]) -> Entry | None:
    """None if the entry disappeared since it was listed (another thread's rename), or is a dangling link."""
    if found.is_dir():
        return Entry(found.name, True, 0)
    try:
        return Entry(found.name, False, found.stat().st_size)
    except FileNotFoundError:
        return None


def _sync_file_system(fd: int) -> None:
    """Linux's syncfs, which unlike `os.sync` reports what could not be written; `os.sync` elsewhere."""
    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:
        os.sync()
    elif syncfs(fd) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def _write_fully(fd: int, data: Buffer, position: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, position)
        view = view[written:]
        position += written


def _read_fully(fd: int, position: int, length: int) -> bytes:
    data = os.pread(fd, length, position)
    if len(data) == length or not data:
        return data
    parts = [data]
    missing = length - len(data)
    while missing:
        data = os.pread(fd, missing, position + length - missing)
        if not data:
            break
        parts.append(data)
        missing -= len(data)
    return b"".join(parts)
