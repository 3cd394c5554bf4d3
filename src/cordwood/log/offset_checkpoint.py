"""One of the checkpoint files of a log directory, which say an offset of each partition.

It is written at once (`write`), or in steps (`begin` … `writing`), the slow ones for a thread. If it was written in the
meantime by other steps or at once, the steps end without a trace, since what they gathered may be out of date.
"""

from collections.abc import Mapping
from functools import partial
from itertools import count

from cordwood.runtime.disk import Disk

from .checkpoint import encode_offsets, read_offsets, write_offsets
from .steps import Steps

TopicPartition = tuple[str, int]

# Beside the file until it takes its place; with a number, since there may be several under way.
_DRAFT = ".draft"


class CheckpointDraft:
    """What a checkpoint is to say: gathered partition by partition, while partitions come and go."""

    def __init__(self, path: str, writes: int, gone: frozenset[TopicPartition]) -> None:
        self.offsets: dict[TopicPartition, int] = {}
        self.path = path
        # It is outdated if the file has been written since.
        self.writes = writes
        # They were gone before the first was looked at.
        self.gone = gone


class OffsetCheckpoint:
    def __init__(self, disk: Disk, name: str, *, is_sealed: bool = False) -> None:
        self.name = name
        self._is_sealed = is_sealed
        self._disk = disk
        # What the file says, durably; None when it is not there or cannot be read.
        self._said: dict[TopicPartition, int] | None = None
        # Partitions that are gone but may stand in the file.
        self._gone: set[TopicPartition] = set()
        # How often it was written, at once or in steps.
        self._writes = 0
        self._drafts: set[str] = set()

    def read(self) -> dict[TopicPartition, int]:
        """Raises CorruptCheckpoint."""
        said = read_offsets(self._disk, self.name)
        self._said = said if said or self._disk.exists(self.name) else None
        return dict(said)

    def offset_of(self, partition: TopicPartition) -> int:
        """What it says, durably; 0 when it says nothing."""
        return self._said.get(partition, 0) if self._said is not None else 0

    # Partitions that go

    @property
    def has_gone(self) -> bool:
        return bool(self._gone)

    def forget(self, partition: TopicPartition) -> None:
        """The partition is gone. It stands in the file until that is written again."""
        if self._drafts or (self._said is not None and partition in self._said):
            self._gone.add(partition)

    def may_name_gone(self, partition: TopicPartition) -> bool:
        """Whether it may speak of a partition of this name that is gone."""
        return partition in self._gone

    # Writing

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._writes += 1
        write_offsets(self._disk, self.name, offsets, is_sealed=self._is_sealed)
        self._said = dict(offsets)
        self._gone.clear()

    def begin(self) -> CheckpointDraft:
        paths = (f"{self.name}{_DRAFT}{number}" for number in count())
        path = next(path for path in paths if path not in self._drafts)
        self._drafts.add(path)
        return CheckpointDraft(path, self._writes, frozenset(self._gone))

    def writing(self, draft: CheckpointDraft) -> Steps[bool]:
        """Writes what was gathered, if it says anything new; whether it is in the file now. To be run to its end."""
        try:
            if draft.writes == self._writes and draft.offsets != self._said:
                yield partial(_write_draft, self._disk.another(), draft.path, draft.offsets, self._is_sealed)
                if draft.writes == self._writes:
                    self._disk.rename(draft.path, self.name)
                    self._writes += 1
                    draft.writes = self._writes
                    yield self._disk.sync_job([], [""])
                    if draft.writes == self._writes:
                        self._said = draft.offsets
                else:
                    self._disk.remove(draft.path)
            is_written = draft.offsets == self._said
            # Another draft that was begun before may still name what is gone, and be written.
            if is_written and self._drafts == {draft.path}:
                self._gone -= draft.gone
            return is_written
        finally:
            self._drafts.discard(draft.path)


def _write_draft(disk: Disk, path: str, offsets: Mapping[TopicPartition, int], is_sealed: bool) -> None:
    file = disk.create(path)
    file.append(encode_offsets(offsets, is_sealed=is_sealed))
    file.sync()
    file.close()
    disk.close()
