"""The simulated Disk: in memory, deterministic, and able to lose power at any step.

    disk = SimDisk(random.Random(seed))
    disk.crash_at(step)           # a run without faults counts the steps: `disk.steps` try:
        use(disk)
    except SimulatedCrash:
        disk = disk.restart()     # the surviving data; see `file_system.py`

Two things are stricter than a real disk, to show a careless caller: a file's descriptor is always the one that the
pool has just given back, so a file is looked up by its path at each use; and a file whose path leads to another file
by now is an error of the caller.
"""

import errno
import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Protocol, TypeVar

from cordwood.runtime.disk import Buffer, DiskError, Entry, File, FileGone, Usage

from .file_system import CrashOdds, Directory, FileSystem, Inode

_TOTAL_BYTES = 1 << 40
# They fail when the disk is full.
_NEEDS_SPACE = frozenset({"append to", "create", "write"})

T = TypeVar("T")


class SimulatedCrash(BaseException):
    """The power failed. Not an Exception: no handler of the code under test may survive it."""


class DiskWatcher(Protocol):
    """An observer of a disk, called as things happen."""

    def disk_stepped(self, root: str, operation: str, path: str) -> None: ...

    def disk_crashed(self, root: str) -> None:
        """Called at the step of `crash_at`, before its caller gets the exception."""


class SimDisk:
    """See `Disk`."""

    def __init__(
        self,
        source: random.Random,
        *,
        root: str = "/sim",
        odds: CrashOdds | None = None,
        now_ms: Callable[[], int] = lambda: 0,
        watcher: "DiskWatcher | None" = None,
    ) -> None:
        self.root = root
        self._is_owner = True
        self._machine = _Machine(FileSystem(now_ms), source, odds or CrashOdds(), watcher)

    # Faults

    @property
    def steps(self) -> int:
        """The number of steps (single changes or syncs) begun; the first one is step 1."""
        return self._machine.steps

    def crash_at(self, step: int) -> None:
        """The step with that number raises `SimulatedCrash`, done in part, in full or not at all; all calls after it
        raise it too."""
        if step <= self.steps:
            raise ValueError(f"step {step} has passed: {self.steps} were made")
        self._machine.crash_step = step

    def restart(self, *, power_lost: bool = True) -> "SimDisk":
        """Returns the disk as the next process finds it; this one is dead from here on. Without a power loss (the
        process was killed) every change is there, but unsynced changes stay unsynced.
        """
        machine = self._machine
        machine.crashed = True
        files = machine.files.after_power_loss(machine.source, machine.odds) if power_lost else machine.files
        successor = _Machine(files, machine.source, machine.odds, machine.watcher)
        successor.is_full = machine.is_full
        return self._on(successor)

    def fail_next(self, operation: str, error: int = errno.EIO, *, after: int = 0) -> None:
        """The next such operation (not counting the first `after`) fails and takes the disk offline.

        Operations have the names that a `DiskError` shows: "append to", "create", "list", "open", "read", "remove",
        "rename", "stat", "sync", "truncate", "write" (each step of `write_file` before the directory's sync), "lock".
        """
        self._machine.failures[operation] = (after, error)

    def clear_faults(self) -> None:
        """Cancels the faults that are still to come."""
        self._machine.failures.clear()
        self._machine.crash_step = 0
        self._machine.is_full = False

    def fill(self) -> None:
        """Nothing can be created or written from here on, also by later processes, until it is freed."""
        self._machine.is_full = True

    def free(self) -> None:
        """Gives back the space that `fill` has taken."""
        self._machine.is_full = False

    @property
    def has_fault_to_come(self) -> bool:
        """Returns whether a crash or an error is planned, or there is no space."""
        machine = self._machine
        return machine.crash_step > machine.steps or bool(machine.failures) or machine.is_full

    def damage(self, path: str, content: bytes | None) -> None:
        """Replaces a file's content without the node's knowledge, as bit rot does, or deletes it."""
        files = self._machine.files
        if content is None:
            files.remove(path)
        else:
            files.find_file(path).replace(content)
        files.sync_all()

    def files(self) -> dict[str, bytes]:
        """Every file's content by path, also of a crashed disk (as it was then)."""
        return {path: bytes(node.content) for path, node in self._machine.files.walk() if isinstance(node, Inode)}

    def dump(self) -> str:
        """The tree and its unsynced changes, for a failure message."""
        lines = [f"{self.root} after {self.steps} steps"]
        for path, node in self._machine.files.walk():
            if isinstance(node, Directory):
                lines.append(f"  {path}/")
            else:
                unsynced = f", {len(node.unsynced)} changes unsynced" if node.unsynced else ""
                lines.append(f"  {path}  {len(node.content)} bytes{unsynced}")
        lines += [f"  not durable: {change}" for change in self._machine.files.describe_journal()]
        return "\n".join(lines)

    # The port

    @property
    def failure(self) -> DiskError | None:
        return self._machine.failure

    def open(self, path: str, size: int = -1) -> "SimFile":
        if size >= 0:
            return SimFile(self, path, size)
        with self._guard("open", path):
            inode = self._machine.files.find_file(path)
        return SimFile(self, path, len(inode.content), inode)

    def create(self, path: str) -> "SimFile":
        inode = self._step("create", path, lambda: self._machine.files.create(path))
        return SimFile(self, path, 0, inode)

    def exists(self, path: str) -> bool:
        with self._guard("stat", path):
            return self._exists(path)

    def list(self, path: str = "") -> list[Entry]:
        with self._guard("list", path):
            try:
                directory = self._machine.files.find_directory(path)
            except FileNotFoundError:
                return []
            return [
                Entry(name, True, 0) if isinstance(node, Directory) else Entry(name, False, len(node.content))
                for name, node in sorted(directory.entries.items())
            ]

    def modified_ms(self, path: str) -> int:
        with self._guard("stat", path):
            return self._machine.files.find(path).modified_ms

    def read_file(self, path: str) -> bytes | None:
        with self._guard("read", path):
            try:
                return bytes(self._machine.files.find_file(path).content)
            except FileNotFoundError:
                return None

    def write_file(self, path: str, data: bytes) -> None:
        files = self._machine.files
        temporary = path + ".tmp"
        inode = self._step("write", path, lambda: files.create(temporary))
        self._write("write", path, inode, 0, data)
        self._step("write", path, lambda: files.sync(inode, inode.changes))
        self._step("write", path, lambda: files.rename(temporary, path))
        self.sync_directory(os.path.dirname(path))

    def make_directory(self, path: str, *, sync: bool = True) -> None:
        names = path.split("/")
        parents = ("/".join(names[:depth]) for depth in range(1, len(names)))
        missing = [parent for parent in parents if not self._exists(parent)]
        for directory in [*missing, path]:
            self._step("create", path, partial(self._machine.files.make_directory, directory))
        if sync:
            self.sync_directory(os.path.dirname(path))

    def rename(self, old: str, new: str) -> None:
        self._step("rename", old, lambda: self._machine.files.rename(old, new))

    def remove(self, path: str) -> None:
        def remove() -> None:
            with suppress(FileNotFoundError):
                self._machine.files.remove(path)

        self._step("remove", path, remove)

    def remove_directory(self, path: str) -> bool:
        files = self._machine.files
        with self._guard("remove", path):
            if not self._exists(path):
                return True
            if files.find_directory(path).entries:
                return False
        self._step("remove", path, lambda: files.remove_directory(path))
        return True

    def sync_directory(self, path: str = "") -> None:
        self._step("sync", path, lambda: self._machine.files.sync_directory(path))

    def sync_all(self) -> None:
        self._step("sync", "", self._machine.files.sync_all)

    def sync_job(self, files: Sequence[File], directories: Sequence[str] = ()) -> Callable[[], None]:
        captured = []
        for file in files:
            assert isinstance(file, SimFile), "a simulated disk syncs simulated files"
            inode = file.inode()
            captured.append((file.path, inode, inode.changes))
        found = []
        for path in directories:
            with self._guard("sync", path):
                found.append((path, self._machine.files.find_directory(path)))

        def job() -> None:
            for path, inode, changes in captured:
                self._step("sync", path, partial(self._machine.files.sync, inode, changes))
            for path, directory in found:
                self._step("sync", path, partial(self._machine.files.sync_names, directory))

        return job

    def another(self) -> "SimDisk":
        with self._guard("open", ""):
            other = self._on(self._machine)
        other._is_owner = False
        return other

    def usage(self) -> Usage:
        with self._guard("stat", ""):
            used = sum(len(content) for content in self.files().values())
            return Usage(_TOTAL_BYTES, _TOTAL_BYTES - used)

    def lock(self) -> bool:
        if not self.exists(".lock"):
            self._step("lock", ".lock", lambda: self._machine.files.create(".lock"))
        if self._machine.lock_holder is not None:
            return False
        self._machine.lock_holder = self
        return True

    def close(self) -> None:
        if self._machine.lock_holder is self:
            self._machine.lock_holder = None

    # Steps

    def _on(self, machine: "_Machine") -> "SimDisk":
        disk = SimDisk(machine.source, root=self.root)
        disk._machine = machine
        return disk

    def _exists(self, path: str) -> bool:
        try:
            self._machine.files.find(path)
        except OSError:
            return False
        return True

    def _write(self, operation: str, path: str, inode: Inode, position: int, data: bytes) -> None:
        files = self._machine.files

        def write_part() -> None:
            files.write(inode, position, data[: self._machine.source.randrange(len(data) + 1)])

        self._step(operation, path, lambda: files.write(inode, position, data), write_part)

    def _step(self, operation: str, path: str, change: Callable[[], T], part: Callable[[], object] | None = None) -> T:
        """One numbered change of the disk. One that fails or crashes may leave `part` of itself; otherwise a failure
        leaves nothing, and a crash all of it or nothing."""
        machine = self._machine
        with self._guard(operation, path, part):
            machine.steps += 1
            if machine.watcher is not None:
                machine.watcher.disk_stepped(self.root, operation, path)
            if machine.steps != machine.crash_step:
                return change()
            machine.crashed = True
            with suppress(OSError):
                if part is not None:
                    part()
                elif machine.source.random() < 0.5:
                    change()
            if machine.watcher is not None:
                machine.watcher.disk_crashed(self.root)
            raise SimulatedCrash(f"{self.root}: step {machine.steps}: {operation} {path or '.'}")

    @contextmanager
    def _guard(self, operation: str, path: str, part: Callable[[], object] | None = None) -> Iterator[None]:
        machine = self._machine
        if machine.crashed:
            raise SimulatedCrash(f"{self.root} has crashed: {operation} {path or '.'}")
        if machine.failure is not None:
            raise machine.failure.with_traceback(None)
        try:
            error = machine.injected_error(operation)
            if error is not None:
                if part is not None:
                    part()
                raise error
            yield
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not self._is_owner:
                raise FileGone(f"{path} is not there any more") from error
            machine.failure = DiskError(self.root, operation, path, error.strerror or str(error))
            raise machine.failure from error


class _Machine:
    """The state that the disk and `another()` of the same directory share."""

    def __init__(
        self, files: FileSystem, source: random.Random, odds: CrashOdds, watcher: "DiskWatcher | None"
    ) -> None:
        self.files = files
        self.watcher = watcher
        self.source = source
        self.odds = odds
        self.steps = 0
        self.crash_step = 0
        self.crashed = False
        self.failure: DiskError | None = None
        self.failures: dict[str, tuple[int, int]] = {}
        self.is_full = False
        self.lock_holder: SimDisk | None = None

    def injected_error(self, operation: str) -> OSError | None:
        if self.is_full and operation in _NEEDS_SPACE:
            return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if operation not in self.failures:
            return None
        after, code = self.failures.pop(operation)
        if after > 0:
            self.failures[operation] = (after - 1, code)
            return None
        return OSError(code, os.strerror(code))


class SimFile:
    """See `File`. Like a real one it writes at the size it knows, even if others have written since."""

    __slots__ = ("_disk", "_inode", "_is_discarded", "path", "size")

    def __init__(self, disk: SimDisk, path: str, size: int, inode: Inode | None = None) -> None:
        self._disk = disk
        self._inode = inode
        self._is_discarded = False
        self.path = path
        self.size = size

    def append(self, data: Buffer) -> None:
        inode = self.inode()
        self._disk._write("append to", self.path, inode, self.size, bytes(data))
        self.size += len(data)

    def read(self, position: int, length: int) -> bytes:
        inode = self.inode()
        with self._disk._guard("read", self.path):
            return bytes(inode.content[position : position + length])

    def truncate(self, size: int) -> None:
        inode = self.inode()
        self._disk._step("truncate", self.path, lambda: self._disk._machine.files.truncate(inode, size))
        self.size = size

    def rename(self, path: str) -> None:
        self._disk.rename(self.path, path)
        self.path = path

    def sync(self) -> None:
        inode = self.inode()
        self._disk._step("sync", self.path, lambda: self._disk._machine.files.sync(inode, inode.changes))

    def fileno(self) -> int:
        raise NotImplementedError(f"{self.path} is simulated and has no descriptor: send what FileRange.read() gives")

    def close(self) -> None:
        """Nothing is held."""

    def discard(self) -> None:
        self._is_discarded = True

    def inode(self) -> Inode:
        if self._is_discarded:
            raise FileGone(f"{self.path} was deleted")
        with self._disk._guard("open", self.path):
            inode = self._disk._machine.files.find_file(self.path)
        assert self._inode in (None, inode), f"{self.path} was replaced: this File belongs to a deleted file"
        self._inode = inode
        return inode
