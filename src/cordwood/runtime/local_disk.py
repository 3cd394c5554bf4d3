"""The real Disk: a directory of the local file system."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from .descriptors import DescriptorPool
from .disk import Buffer, DiskError, Entry, File, Usage

_FILE_MODE = 0o644


class LocalDisk:
    """See `Disk`. Not for several threads at once: a thread of its own takes `another()`."""

    def __init__(self, root: str, descriptors: DescriptorPool | None = None) -> None:
        self.root = os.path.abspath(root)
        self.failure: DiskError | None = None
        self._descriptors = descriptors or DescriptorPool()
        self._lock_fd = -1
        with self._guard("create", ""):
            os.makedirs(self.root, exist_ok=True)

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
        return os.path.exists(self._absolute(path))

    def list(self, path: str = "") -> list[Entry]:
        with self._guard("list", path):
            try:
                with os.scandir(self._absolute(path)) as found:
                    entries = [
                        Entry(entry.name, is_directory, 0 if is_directory else entry.stat().st_size)
                        for entry in found
                        for is_directory in (entry.is_dir(),)
                    ]
            except FileNotFoundError:
                return []
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

    def make_directory(self, path: str) -> None:
        with self._guard("create", path):
            os.makedirs(self._absolute(path), exist_ok=True)
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

    def remove_tree(self, path: str) -> None:
        with self._guard("remove", path):
            try:
                shutil.rmtree(self._absolute(path))
            except FileNotFoundError:
                return

    def sync_directory(self, path: str = "") -> None:
        with self._guard("sync", path):
            fd = os.open(self._absolute(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def sync_job(self, files: Sequence[File]) -> Callable[[], None]:
        # The descriptors are duplicated here, on the owner's thread, so that the pool may close its own meanwhile.
        with self._guard("sync", ""):
            duplicates = [(file.path, os.dup(file.fileno())) for file in files]

        def job() -> None:
            try:
                for path, fd in duplicates:
                    with self._guard("sync", path):
                        os.fsync(fd)
            finally:
                for _, fd in duplicates:
                    os.close(fd)

        return job

    def another(self) -> "LocalDisk":
        return LocalDisk(self.root)

    def usage(self) -> Usage:
        with self._guard("stat", ""):
            status = os.statvfs(self.root)
        return Usage(status.f_frsize * status.f_blocks, status.f_frsize * status.f_bavail)

    def lock(self) -> bool:
        with self._guard("lock", ".lock"):
            fd = os.open(self._absolute(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                return False
            self._lock_fd = fd
            return True

    def close(self) -> None:
        self._descriptors.close_all(self)
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def _absolute(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    @contextmanager
    def _guard(self, operation: str, path: str) -> Iterator[None]:
        if self.failure is not None:
            raise self.failure
        try:
            yield
        except OSError as error:
            raise self._fail(operation, path, error) from error

    def _fail(self, operation: str, path: str, error: OSError) -> DiskError:
        self.failure = DiskError(self.root, operation, path, error.strerror or str(error))
        return self.failure


class LocalFile:
    """See `File`. Appends go to the known size, so a torn write that failed is overwritten, never followed."""

    __slots__ = ("_disk", "fd", "path", "recently_used", "size")

    def __init__(self, disk: LocalDisk, path: str, size: int) -> None:
        self._disk = disk
        self.path = path
        self.size = size
        self.fd = -1
        self.recently_used = True

    def append(self, data: Buffer) -> None:
        try:
            # The common case first: one write takes it all.
            written = os.pwrite(self.fileno(), data, self.size)
            if written != len(data):
                _write_fully(self.fd, memoryview(data)[written:], self.size + written)
        except OSError as error:
            raise self._disk._fail("append to", self.path, error) from error
        self.size += len(data)

    def read(self, position: int, length: int) -> bytes:
        try:
            return _read_fully(self.fileno(), position, length)
        except OSError as error:
            raise self._disk._fail("read", self.path, error) from error

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self.fileno(), size)
        except OSError as error:
            raise self._disk._fail("truncate", self.path, error) from error
        self.size = size

    def rename(self, path: str) -> None:
        self._disk.rename(self.path, path)
        self.path = path

    def sync(self) -> None:
        try:
            os.fsync(self.fileno())
        except OSError as error:
            raise self._disk._fail("sync", self.path, error) from error

    def fileno(self) -> int:
        self.recently_used = True
        if self.fd >= 0:
            return self.fd
        disk = self._disk
        if disk.failure is not None:
            raise disk.failure
        try:
            fd = os.open(disk._absolute(self.path), os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise disk._fail("open", self.path, error) from error
        disk._descriptors.adopt(self, fd)
        return fd

    def close(self) -> None:
        self._disk._descriptors.release(self)

    @property
    def disk(self) -> LocalDisk:
        return self._disk


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
