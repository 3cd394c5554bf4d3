"""A checkpoint file of a log directory, with one offset per partition.

It is written at once (`write`), or in steps (`begin` … `writing`), with the slow ones for a thread. If it is written
otherwise in the meantime, the steps end without effect, because their data may be out of date.
"""

from collections.abc import Mapping
from functools import partial
from itertools import count

from cordwood.log.steps import Steps
from cordwood.runtime.disk import Disk

from .formats import encode_offsets, read_offsets, write_offsets

TopicPartition = tuple[str, int]

# The temporary file; numbered, because several writes may be in progress.
_DRAFT = ".draft"


class CheckpointDraft:
    """The contents of a checkpoint, gathered partition by partition while partitions come and go."""

    def __init__(self, path: str, writes: int, gone: frozenset[TopicPartition]) -> None:
        self.offsets: dict[TopicPartition, int] = {}
        self.path = path
        # Outdated if the file has been written since.
        self.writes = writes
        # They were deleted before the first partition was gathered.
        self.gone = gone


class OffsetCheckpoint:
    def __init__(self, disk: Disk, name: str, *, is_sealed: bool = False) -> None:
        self.name = name
        self._is_sealed = is_sealed
        self._disk = disk
        # The durable contents of the file; None if it does not exist or is unreadable.
        self._said: dict[TopicPartition, int] | None = None
        # Deleted partitions that may still be in the file.
        self._gone: set[TopicPartition] = set()
        # Number of writes, at once or in steps.
        self._writes = 0
        self._drafts: set[str] = set()

    def read(self) -> dict[TopicPartition, int]:
        """Raises CorruptCheckpoint."""
        said = read_offsets(self._disk, self.name)
        self._said = said if said or self._disk.exists(self.name) else None
        return dict(said)

    def offset_of(self, partition: TopicPartition) -> int:
        """The durable offset of a partition; 0 if it has none."""
        return self._said.get(partition, 0) if self._said is not None else 0

    # Deleted partitions

    @property
    def has_gone(self) -> bool:
        return bool(self._gone)

    def forget(self, partition: TopicPartition) -> None:
        """The partition was deleted. It stays in the file until the next write."""
        if self._drafts or (self._said is not None and partition in self._said):
            self._gone.add(partition)

    def may_name_gone(self, partition: TopicPartition) -> bool:
        """Returns whether the file may contain a deleted partition of this name."""
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
        """Writes the gathered offsets if they differ, and returns whether they are in the file now. Must be run to
        completion."""
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
            # An earlier draft may still name deleted partitions, and be written.
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
