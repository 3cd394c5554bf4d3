"""The controller of this node: takes decisions, has their records committed, and publishes what they change.

Decisions see everything that was decided before them; the broker sees what is committed. One commit serves all that was
decided while the one before it was under way.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from cordwood.metadata.controller.decision import Decision
from cordwood.metadata.delta import MetadataDelta
from cordwood.metadata.image import MetadataImage, OffsetAndEpoch
from cordwood.metadata.log import SingleNodeLog
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import DiskError

_log = logging.getLogger(__name__)

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
        # As of the last record that was written.
        self.image = image
        self._clock = clock
        self._publish = publish
        self._failed = failed
        self._failure: DiskError | None = None
        # Written and not committed, oldest first.
        self._unpublished: deque[tuple[MetadataDelta, MetadataImage]] = deque()
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._commits: asyncio.Task[None] | None = None
        # As of the last record that was committed.
        self.committed = image

    @property
    def is_active(self) -> bool:
        """Whether it may decide: it leads the metadata quorum."""
        return self._failure is None

    async def decide(self, decision: Callable[[MetadataImage], Decision[R]]) -> R:
        """What was decided, once it is committed and published. Of what a decision saw, nothing can be taken back when
        this returns, also where it changed nothing itself."""
        decided = decision(self.image)
        if decided.records:
            self._write(decided)
        await self._committed(self.log.end_offset)
        return decided.response

    def _write(self, decided: Decision[R]) -> None:
        if self._failure is not None:
            raise self._failure
        now_ms = self._clock.now_ms()
        try:
            self.log.append(decided.records, self.image.metadata_version, now_ms)
        except DiskError as error:
            self.fail(error)
            raise
        delta = MetadataDelta(self.image).replay_all(decided.records)
        self.image = delta.apply(OffsetAndEpoch(self.log.end_offset, self.log.epoch), now_ms)
        self._unpublished.append((delta, self.image))

    # Committing

    async def _committed(self, offset: int) -> None:
        if self._failure is not None:
            raise self._failure
        if self.committed.covers.offset >= offset or not self._unpublished:
            return
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append((offset, future))
        if self._commits is None:
            self._commits = loop.create_task(self._commit_all())
        await future

    async def _commit_all(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._unpublished:
                job = self.log.begin_commit(self._clock.now_ms())
                await loop.run_in_executor(None, job.run)
                self.log.end_commit(job)
                self._publish_committed()
        except DiskError as error:
            self.fail(error)
        finally:
            self._commits = None

    def _publish_committed(self) -> None:
        high_watermark = self.log.high_watermark
        while self._unpublished and self._unpublished[0][1].covers.offset <= high_watermark:
            delta, image = self._unpublished.popleft()
            self.committed = image
            self._publish(delta, image)
        while self._waiting and self._waiting[0][0] <= high_watermark:
            future = self._waiting.popleft()[1]
            if not future.done():
                future.set_result(None)

    def fail(self, error: DiskError) -> None:
        """The disk of the metadata log has failed: nothing can be decided any more."""
        if self._failure is not None:
            return
        self._failure = error
        while self._waiting:
            future = self._waiting.popleft()[1]
            if not future.done():
                future.set_exception(error)
        self._failed(error)

    async def finish(self) -> None:
        """Returns when nothing is under way."""
        while self._commits is not None:
            await asyncio.shield(self._commits)
