"""The controller of this node: takes decisions, has their records committed, and publishes what they change.

It is a shard as those of coordinators are: decisions see everything that was decided before them, the broker sees what
is committed, and whoever asked is answered then. One commit serves all that was decided while the one before it was
under way.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from cordwood.metadata.delta import MetadataDelta
from cordwood.metadata.image import MetadataImage, OffsetAndEpoch
from cordwood.metadata.log import SingleNodeLog
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import DiskError
from cordwood.shard.decision import Decision, ProducerIdAndEpoch
from cordwood.shard.promise import settled
from cordwood.shard.refusal import Refusal
from cordwood.shard.shard import Shard
from cordwood.shard.timers import Timers
from cordwood.wire.errors import ErrorCode
from cordwood.wire.schema import MetadataRecord

R = TypeVar("R")
Publish = Callable[[MetadataDelta, MetadataImage], None]


class Controller:
    """`publish` is called in the order of the log with each change that is committed. `failed` is called when the
    metadata log cannot be written: there is no going on without it."""

    def __init__(
        self,
        log: SingleNodeLog,
        image: MetadataImage,
        clock: Clock,
        publish: Publish,
        failed: Callable[[DiskError], None],
    ) -> None:
        self.log = log
        self._failed = failed
        self._failure: DiskError | None = None
        self._state = ControllerState(log, image, clock)
        self._commits = CommittedLog(log, self._state, clock, publish, self.fail)
        self._shard = Shard(self._state, self._commits, clock)

    @property
    def image(self) -> MetadataImage:
        """As of the last record that was written."""
        return self._state.image

    @property
    def committed(self) -> MetadataImage:
        """As of the last record that was committed."""
        return self._commits.image

    @property
    def is_active(self) -> bool:
        """Whether it may decide: it leads the metadata quorum."""
        return self._failure is None

    async def decide(self, decision: Callable[[MetadataImage], Decision[R]]) -> R:
        """What was decided, once it is committed and published. Of what a decision saw, nothing can be taken back when
        this returns, also where it changed nothing itself."""

        try:
            return await settled(self._shard.decide(lambda state: decision(state.image)))
        except Refusal:
            # The log takes what is decided, or the node is at its end.
            assert self._failure is not None
            raise self._failure from None

    def fail(self, error: DiskError) -> None:
        """The disk of the metadata log has failed: nothing can be decided any more."""
        if self._failure is None:
            self._failure = error
            self._shard.close(_storage_error(error))
            self._failed(error)

    async def finish(self) -> None:
        """Returns when nothing is under way."""
        await self._commits.finish()


class ControllerState:
    """The newest image, and what has made it of the one that is committed."""

    def __init__(self, log: SingleNodeLog, image: MetadataImage, clock: Clock) -> None:
        self.image = image
        # Of changes that are written and not committed, oldest first.
        self.unpublished: deque[tuple[MetadataDelta, MetadataImage]] = deque()
        # The time of the last append.
        self.written_ms = 0
        self.timers = Timers(clock)
        self._log = log

    def replay(self, records: Sequence[MetadataRecord], first_offset: int, producer_id: int) -> None:
        delta = MetadataDelta(self.image).replay_all(list(records))
        covers = OffsetAndEpoch(first_offset + len(records), self._log.epoch)
        self.image = delta.apply(covers, self.written_ms)
        self.unpublished.append((delta, self.image))


class CommittedLog:
    """The metadata log as a shard needs it: flushes in a thread commit what is appended, which is published then."""

    def __init__(
        self,
        log: SingleNodeLog,
        state: ControllerState,
        clock: Clock,
        publish: Publish,
        failed: Callable[[DiskError], None],
    ) -> None:
        # As of the last record that was committed.
        self.image = state.image
        self._log = log
        self._state = state
        self._clock = clock
        self._publish = publish
        self._failed = failed
        self._waiting: deque[tuple[int, Callable[[ErrorCode], None]]] = deque()
        self._commits: asyncio.Task[None] | None = None

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def is_committed(self) -> bool:
        return not self._state.unpublished

    def append(self, records: Sequence[MetadataRecord], producer: ProducerIdAndEpoch | None) -> int:
        first_offset, now_ms = self._log.end_offset, self._clock.now_ms()
        try:
            self._log.append(records, self._state.image.metadata_version, now_ms)
        except DiskError as error:
            self._failed(error)
            raise _storage_error(error) from error
        self._state.written_ms = now_ms
        return first_offset

    def when_committed(self, end_offset: int, then: Callable[[ErrorCode], None]) -> None:
        self._waiting.append((end_offset, then))
        if self._commits is None:
            self._commits = asyncio.get_running_loop().create_task(self._commit_all())

    async def _commit_all(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._state.unpublished:
                job = self._log.begin_commit(self._clock.now_ms())
                await loop.run_in_executor(None, job.run)
                self._log.end_commit(job)
                self._publish_committed()
        except DiskError as error:
            self._failed(error)
        finally:
            self._commits = None

    def _publish_committed(self) -> None:
        high_watermark, unpublished = self._log.high_watermark, self._state.unpublished
        while unpublished and unpublished[0][1].covers.offset <= high_watermark:
            delta, self.image = unpublished.popleft()
            self._publish(delta, self.image)
        while self._waiting and self._waiting[0][0] <= high_watermark:
            self._waiting.popleft()[1](ErrorCode.NONE)

    async def finish(self) -> None:
        while self._commits is not None:
            await asyncio.shield(self._commits)


def _storage_error(error: DiskError) -> Refusal:
    return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
