"""The metadata log as a node uses it, replicated by a quorum of one or more voters.

The leader appends in its epoch. Listeners get each committed batch once, in order. They also get changes of leadership,
but only after every batch before the new epoch, so that a new leader decides on all earlier records."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from cordwood.log.steps import Job, Steps
from cordwood.metadata.storage.batch import MetadataBatch
from cordwood.metadata.storage.snapshot import QuorumVoters, Snapshot
from cordwood.metadata.storage.snapshot_files import SnapshotJob
from cordwood.raft.identity import LeaderAndEpoch as LeaderAndEpoch
from cordwood.wire.primitives import Uuid
from cordwood.wire.schema import MetadataRecord, Request, Response

from .image import MetadataImage, OffsetAndEpoch


class MetadataLog(Protocol):
    @property
    def leader(self) -> LeaderAndEpoch: ...

    @property
    def quorum(self) -> QuorumVoters:
        """The voters and kraft.version, which are control records and no part of an image."""

    @property
    def high_watermark(self) -> int:
        """Records below it are committed: no crash and no change of leader takes them back."""

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""

    # Loss and deletion

    @property
    def was_cut_for_good(self) -> bool:
        """True if a damaged part was ever cut off, and no other voter can have given it back."""

    def deleted_topics(self) -> set[Uuid]:
        """The ids of all topics whose deletion is in the log."""

    # Writing

    def append(self, records: Sequence[MetadataRecord], epoch: int, metadata_version: int) -> MetadataBatch:
        """Appends the records as one batch, all or none, and returns the batch. It is committed once the high watermark
        has passed it. Raises Refusal NOT_CONTROLLER if this node does not lead in `epoch`, or can no longer write."""

    def upgrade_kraft_version(self, epoch: int, version: int, *, validate_only: bool) -> None:
        """Appends the records that finalize a higher kraft.version, after which the log contains the voters; does
        nothing if the level is already in effect. Raises Refusal if this node does not lead in `epoch`, or the voters
        do not support the level."""

    # Listening

    def on_commit(self, listener: Callable[[Sequence[MetadataBatch]], None]) -> None:
        """Calls the listener with later batches as they are committed. Listeners are called in the order in which they
        were added, each with all new batches; the high watermark has already moved."""

    def on_snapshot(self, listener: Callable[[OffsetAndEpoch, Snapshot], None]) -> None:
        """Calls the listener with a snapshot that replaces all batches before its end, when this node is too far behind
        the leader."""

    def on_leader_change(self, listener: Callable[[LeaderAndEpoch], None]) -> None:
        """Calls the listener at once with the current leader, and then with each new one. A failed log reports an epoch
        without a leader."""

    # Serving

    def answer(self, request: Request[Any], version: int, listener: str) -> Awaitable[Response]:
        """The response to a request of the quorum's own: votes, fetches of the log, changes and descriptions of the
        voters."""

    # Upkeep

    def recording(self) -> Job | None:
        """A job that records, in any thread, how far the log is committed; None if it was recorded."""

    def snapshot_due(self, image: MetadataImage, now_ms: int) -> bool: ...

    async def flushed(self, offset: int) -> None:
        """Returns once everything below an offset is on stable storage here, or the log has failed."""

    def begin_snapshot(self, image: MetadataImage, now_ms: int) -> SnapshotJob:
        """A job that writes a snapshot, in any thread. The image is of committed records, and ends where a batch
        does."""

    def end_snapshot(self, job: SnapshotJob, now_ms: int) -> None: ...

    def clean(self, now_ms: int) -> None:
        """Deletes snapshots by size and age, and the log that they cover."""

    def purging(self, now_ms: int) -> Steps[object]:
        """The second step of deletions, as far as they are due."""
