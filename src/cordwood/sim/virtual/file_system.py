"""The files of a simulated disk: the view of programs, and the results of a power loss.

Data: each file remembers the changes since its last sync, in order; a power loss keeps a prefix of them, and the first
append that is lost may leave a part of itself. Names: creations, renames and removals go through one journal per disk,
as on ext4 and XFS; a power loss keeps a prefix of it, so no operation outlives an earlier one that is lost.
"""

import errno
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CrashOdds:
    """The odds for unsynced changes in a power loss: to each file's data, and to the journal."""

    nothing: float = 0.25
    """Nothing of it survives."""
    everything: float = 0.25
    """All of it survives. Otherwise any number of whole changes does, and then:"""
    torn: float = 0.5
    """the first lost append leaves a prefix of its bytes,"""
    zeros: float = 0.15
    """with the rest of that append there as zeros (the size reached the disk, the data did not),"""
    garbage: float = 0.15
    """or with the rest there as other bytes (a block's former content)."""

    def cut(self, source: random.Random, count: int) -> tuple[int, bool]:
        """Draws how many of `count` changes survive whole, and whether the next one leaves a part of itself."""
        luck = source.random()
        if luck < self.nothing:
            return 0, False
        if luck < self.nothing + self.everything:
            return count, False
        return source.randrange(count + 1), source.random() < self.torn

    def remains(self, source: random.Random, data: bytes) -> bytes:
        """Draws the rest of a torn append."""
        kept = source.randrange(len(data) + 1)
        luck = source.random()
        if luck < self.zeros:
            return data[:kept] + bytes(len(data) - kept)
        if luck < self.zeros + self.garbage:
            return data[:kept] + source.randbytes(len(data) - kept)
        return data[:kept]


class FileSystem:
    """One directory tree. Errors are the ones of the operating system (`OSError` with an errno)."""

    def __init__(self, now_ms: Callable[[], int], tree: "Directory | None" = None) -> None:
        self._now_ms = now_ms
        self._live = tree if tree is not None else Directory(now_ms())
        self._durable = self._live.copy()
        self._journal: list[JournalEntry] = []

    def find(self, path: str) -> "Inode | Directory":
        return self._live.find(path)

    def find_file(self, path: str) -> "Inode":
        node = self.find(path)
        if isinstance(node, Directory):
            raise _error(errno.EISDIR, path)
        return node

    def find_directory(self, path: str) -> "Directory":
        node = self.find(path)
        if isinstance(node, Inode):
            raise _error(errno.ENOTDIR, path)
        return node

    def walk(self) -> Iterator[tuple[str, "Inode | Directory"]]:
        """Every path below the root with its entry, a directory before its content, sorted by name."""
        return self._live.walk("")

    def describe_journal(self) -> list[str]:
        """The operations on names that a power loss may undo, oldest first."""
        return [str(entry.change) for entry in self._journal]

    def create(self, path: str) -> "Inode":
        directory, name = self._live.locate(path)
        if name in directory.entries:
            inode = self.find_file(path)
            self.truncate(inode, 0)
            return inode
        inode = Inode(self._now_ms())
        # A sync of the new file makes its entry durable too, as ext4 and XFS do; hence the file is among the touched.
        self._change_names(Create(path, inode), directory, inode)
        return inode

    def make_directory(self, path: str) -> None:
        """One that is there is left alone."""
        directory, name = self._live.locate(path)
        node = directory.entries.get(name)
        if isinstance(node, Directory):
            return
        if isinstance(node, Inode):
            raise _error(errno.EEXIST, path)
        self._change_names(MakeDirectory(path, self._now_ms()), directory)

    def rename(self, old: str, new: str) -> None:
        node = self.find(old)
        source, _ = self._live.locate(old)
        target, new_name = self._live.locate(new)
        if isinstance(node, Directory) and new.startswith(old + "/"):
            raise _error(errno.EINVAL, new)
        replaced = target.entries.get(new_name)
        if replaced is node:
            return
        if replaced is not None:
            if isinstance(node, Inode) and isinstance(replaced, Directory):
                raise _error(errno.EISDIR, new)
            if isinstance(node, Directory) and isinstance(replaced, Inode):
                raise _error(errno.ENOTDIR, new)
            if isinstance(replaced, Directory) and replaced.entries:
                raise _error(errno.ENOTEMPTY, new)
        self._change_names(Rename(old, new), source, target)

    def remove(self, path: str) -> None:
        self.find_file(path)
        self._change_names(Remove(path), self._live.locate(path)[0])

    def remove_directory(self, path: str) -> None:
        if self.find_directory(path).entries:
            raise _error(errno.ENOTEMPTY, path)
        self._change_names(Remove(path), self._live.locate(path)[0])

    def write(self, inode: "Inode", position: int, data: bytes) -> None:
        inode.change(Write(position, data))
        inode.modified_ms = self._now_ms()

    def truncate(self, inode: "Inode", size: int) -> None:
        inode.change(Truncate(size))
        inode.modified_ms = self._now_ms()

    def sync(self, inode: "Inode", changes: int) -> None:
        """Makes the first `changes` changes of a file durable (all: `inode.changes`), and the file's creation."""
        inode.settle(changes)
        self._commit(inode)

    def sync_directory(self, path: str) -> None:
        self.sync_names(self.find_directory(path))

    def sync_names(self, directory: "Directory") -> None:
        """A known directory, even if it was renamed."""
        self._commit(directory)

    def sync_all(self) -> None:
        for _, node in self._live.walk(""):
            if isinstance(node, Inode):
                node.settle(node.changes)
        for entry in self._journal:
            entry.change.apply(self._durable)
        self._journal.clear()

    def after_power_loss(self, source: random.Random, odds: CrashOdds) -> "FileSystem":
        """A file system with the surviving contents, all durable."""
        tree = self._durable.copy()
        kept, _ = odds.cut(source, len(self._journal))
        for entry in self._journal[:kept]:
            entry.change.apply(tree)
        return FileSystem(self._now_ms, tree.copy(lambda inode: inode.after_power_loss(source, odds)))

    def _change_names(self, change: "NameChange", *touched: "Inode | Directory") -> None:
        change.apply(self._live)
        self._journal.append(JournalEntry(change, touched))

    def _commit(self, node: "Inode | Directory") -> None:
        """Writes the journal as far as the last operation that touched `node`: no further, to be a strict disk."""
        touching = (at for at in reversed(range(len(self._journal))) if self._journal[at].touches(node))
        end = next(touching, -1) + 1
        for entry in self._journal[:end]:
            entry.change.apply(self._durable)
        del self._journal[:end]


class Inode:
    """A file's data: a reader's view, the content on stable storage, and the changes between the two."""

    __slots__ = ("_settled", "changes", "content", "durable", "modified_ms", "unsynced")

    def __init__(self, modified_ms: int, content: bytes = b"") -> None:
        self.modified_ms = modified_ms
        self.content = bytearray(content)
        self.durable = bytearray(content)
        self.unsynced: list[Write | Truncate] = []
        self.changes = 0
        self._settled = 0

    def change(self, change: "Write | Truncate") -> None:
        change.apply(self.content)
        self.unsynced.append(change)
        self.changes += 1

    def replace(self, content: bytes) -> None:
        """Without the writer's knowledge: earlier contents and pending changes are lost."""
        self.content, self.durable = bytearray(content), bytearray(content)
        self.unsynced.clear()
        self._settled = self.changes

    def settle(self, changes: int) -> None:
        count = max(0, changes - self._settled)
        for change in self.unsynced[:count]:
            change.apply(self.durable)
        del self.unsynced[:count]
        self._settled += count

    def after_power_loss(self, source: random.Random, odds: CrashOdds) -> "Inode":
        content = bytearray(self.durable)
        kept, torn = odds.cut(source, len(self.unsynced))
        for change in self.unsynced[:kept]:
            change.apply(content)
        for lost in self.unsynced[kept : kept + 1]:
            if torn and isinstance(lost, Write):
                Write(lost.position, odds.remains(source, lost.data)).apply(content)
        return Inode(self.modified_ms, bytes(content))


class Directory:
    __slots__ = ("entries", "modified_ms")

    def __init__(self, modified_ms: int) -> None:
        self.modified_ms = modified_ms
        self.entries: dict[str, Inode | Directory] = {}

    def find(self, path: str) -> "Inode | Directory":
        node: Inode | Directory = self
        for name in path.split("/") if path else ():
            if isinstance(node, Inode):
                raise _error(errno.ENOTDIR, path)
            if name not in node.entries:
                raise _error(errno.ENOENT, path)
            node = node.entries[name]
        return node

    def locate(self, path: str) -> tuple["Directory", str]:
        """The directory that holds, or would hold, `path`, and the name there."""
        parent, _, name = path.rpartition("/")
        directory = self.find(parent)
        if isinstance(directory, Inode):
            raise _error(errno.ENOTDIR, path)
        return directory, name

    def walk(self, prefix: str) -> "Iterator[tuple[str, Inode | Directory]]":
        for name, node in sorted(self.entries.items()):
            yield prefix + name, node
            if isinstance(node, Directory):
                yield from node.walk(f"{prefix}{name}/")

    def copy(self, convert: "Callable[[Inode], Inode] | None" = None) -> "Directory":
        """A copy of the tree with new directories, and the same files or the results of `convert`."""
        twin = Directory(self.modified_ms)
        for name, node in sorted(self.entries.items()):
            if isinstance(node, Directory):
                twin.entries[name] = node.copy(convert)
            else:
                twin.entries[name] = convert(node) if convert else node
        return twin


@dataclass(frozen=True, slots=True)
class Write:
    position: int
    data: bytes

    def apply(self, content: bytearray) -> None:
        if self.position > len(content):
            content.extend(bytes(self.position - len(content)))
        content[self.position : self.position + len(self.data)] = self.data


@dataclass(frozen=True, slots=True)
class Truncate:
    size: int

    def apply(self, content: bytearray) -> None:
        del content[self.size :]
        content.extend(bytes(self.size - len(content)))


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    inode: Inode

    def apply(self, root: Directory) -> None:
        directory, name = root.locate(self.path)
        directory.entries[name] = self.inode

    def __str__(self) -> str:
        return f"create {self.path}"


@dataclass(frozen=True, slots=True)
class MakeDirectory:
    path: str
    modified_ms: int

    def apply(self, root: Directory) -> None:
        directory, name = root.locate(self.path)
        directory.entries[name] = Directory(self.modified_ms)

    def __str__(self) -> str:
        return f"make directory {self.path}"


@dataclass(frozen=True, slots=True)
class Rename:
    old: str
    new: str

    def apply(self, root: Directory) -> None:
        source, old_name = root.locate(self.old)
        target, new_name = root.locate(self.new)
        target.entries[new_name] = source.entries.pop(old_name)

    def __str__(self) -> str:
        return f"rename {self.old} to {self.new}"


@dataclass(frozen=True, slots=True)
class Remove:
    path: str

    def apply(self, root: Directory) -> None:
        directory, name = root.locate(self.path)
        del directory.entries[name]

    def __str__(self) -> str:
        return f"remove {self.path}"


NameChange = Create | MakeDirectory | Rename | Remove


@dataclass(frozen=True, slots=True)
class JournalEntry:
    change: NameChange
    touched: tuple[Inode | Directory, ...]

    def touches(self, node: Inode | Directory) -> bool:
        return any(node is one for one in self.touched)


def _error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)
