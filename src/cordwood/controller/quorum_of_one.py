"""The metadata log of a quorum of one, run: flushes in a thread commit what was appended, and listeners are told."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from cordwood.log.steps import Job, Steps
from cordwood.metadata.batch import MetadataBatch
from cordwood.metadata.image import MetadataImage
from cordwood.metadata.log import SingleNodeLog, SnapshotJob
from cordwood.metadata.metadata_log import LeaderAndEpoch
from cordwood.metadata.snapshot import QuorumVoters
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import DiskError
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.primitives import Uuid
from cordwood.wire.schema import MetadataRecord

_NO_LEADER = -1


class QuorumOfOne:
    """The `MetadataLog` of a node that is the only voter. One flush commits everything that was appended while the one
    before it was under way. `failed` is called once, when the log cannot be written."""

    def __init__(self, log: SingleNodeLog, clock: Clock, failed: Callable[[DiskError], None]) -> None:
        self._log = log
        self._clock = clock
        self._on_failure = failed
        self._failure: DiskError | None = None
        # Appended and not committed, oldest first.
        self._pending: deque[MetadataBatch] = deque()
        self._commit_listeners: list[Callable[[Sequence[MetadataBatch]], None]] = []
        self._leader_listeners: list[Callable[[LeaderAndEpoch], None]] = []
        self._commits: asyncio.Task[None] | None = None

    @property
    def leader(self) -> LeaderAndEpoch:
        return LeaderAndEpoch(self._log.node_id if self._failure is None else _NO_LEADER, self._log.epoch)

    @property
    def quorum(self) -> QuorumVoters:
        return self._log.quorum

    @property
    def high_watermark(self) -> int:
        return self._log.high_watermark

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def was_cut(self) -> bool:
        return self._log.was_cut

    def deleted_topics(self) -> set[Uuid]:
        return self._log.deleted_topics()

    # Writing

    def append(self, records: Sequence[MetadataRecord], epoch: int, metadata_version: int) -> MetadataBatch:
        if self._failure is not None:
            raise Refusal(ErrorCode.NOT_CONTROLLER, str(self._failure))
        if epoch != self._log.epoch:
            raise Refusal(ErrorCode.NOT_CONTROLLER, f"the leader epoch is {self._log.epoch}, not {epoch}")
        first_offset, now_ms = self._log.end_offset, self._clock.now_ms()
        try:
            next_offset = self._log.append(records, metadata_version, now_ms) + 1
        except DiskError as error:
            self.fail(error)
            raise Refusal(ErrorCode.NOT_CONTROLLER, str(error)) from error
        batch = MetadataBatch(first_offset, next_offset, epoch, now_ms, 0, tuple(records))
        self._pending.append(batch)
        if self._commits is None:
            self._commits = asyncio.get_running_loop().create_task(self._commit_all())
        return batch

    async def _commit_all(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._pending:
                job = self._log.begin_commit(self._clock.now_ms())
                await loop.run_in_executor(None, job.run)
                self._log.end_commit(job)
                self._publish_committed()
        except DiskError as error:
            self.fail(error)
        finally:
            self._commits = None

    def _publish_committed(self) -> None:
        committed: list[MetadataBatch] = []
        while self._pending and self._pending[0].next_offset <= self._log.high_watermark:
            committed.append(self._pending.popleft())
        for listener in self._commit_listeners:
            listener(committed)

    def fail(self, error: DiskError) -> None:
        """The log's disk has failed: nothing is committed any more."""
        if self._failure is None:
            self._failure = error
            for listener in self._leader_listeners:
                listener(self.leader)
            self._on_failure(error)

    async def finish(self) -> None:
        """Returns when no commit is under way."""
        while self._commits is not None:
            await asyncio.shield(self._commits)

    def close(self) -> None:
        """Writes what makes the next start quick. What is committed is on the disk already."""
        if self._failure is None:
            try:
                self._log.close(self._clock.now_ms())
            except DiskError as error:
                self.fail(error)

    # Listening

    def on_commit(self, listener: Callable[[Sequence[MetadataBatch]], None]) -> None:
        self._commit_listeners.append(listener)

    def on_leader_change(self, listener: Callable[[LeaderAndEpoch], None]) -> None:
        self._leader_listeners.append(listener)
        listener(self.leader)

    # Upkeep

    def recording(self) -> Job | None:
        return self._log.recording()

    def snapshot_due(self, image: MetadataImage, now_ms: int) -> bool:
        return self._log.snapshot_due(image, now_ms)

    def begin_snapshot(self, image: MetadataImage, now_ms: int) -> SnapshotJob:
        return self._log.begin_snapshot(image, now_ms)

    def end_snapshot(self, job: SnapshotJob, now_ms: int) -> None:
        self._log.end_snapshot(job, now_ms)

    def clean(self, now_ms: int) -> None:
        self._log.clean(now_ms)

    def purging(self, now_ms: int) -> Steps[object]:
        return self._log.log.removals.purging(now_ms)
