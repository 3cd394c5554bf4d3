"""Maintains the metadata log: records the committed offset, takes snapshots, and deletes old snapshots and the log that
they cover."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from cordwood.metadata.loader import Loader
from cordwood.metadata.metadata_log import MetadataLog
from cordwood.replica.slices import Slices
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import DiskError

_log = logging.getLogger(__name__)

# A round that finds nothing to do costs microseconds.
_INTERVAL_S = 5.0


class Upkeep:
    """Runs a task from construction to `stop`. `failed` is called if a disk fails."""

    def __init__(self, log: MetadataLog, loader: Loader, clock: Clock, failed: Callable[[DiskError], None]) -> None:
        self._metadata_log = log
        self._loader = loader
        self._clock = clock
        self._failed = failed
        self._slices = Slices()
        self._stopping = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Finishes the work in progress."""
        self._stopping.set()
        await self._task

    async def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                async with asyncio.timeout(_INTERVAL_S):
                    await self._stopping.wait()
            except TimeoutError:
                await self._attempt()

    async def _attempt(self) -> None:
        try:
            await self._record()
            await self._snapshot()
            await self._slices.do(self._metadata_log.purging(self._clock.now_ms()), to_its_end=True)
            self._metadata_log.clean(self._clock.now_ms())
        except DiskError as error:
            self._failed(error)
        except Exception:  # noqa: BLE001 - our bug; it costs this round only
            _log.exception("Upkeep of the metadata log failed, retrying in %g s", _INTERVAL_S)

    async def _record(self) -> None:
        if (job := self._metadata_log.recording()) is not None:
            await asyncio.get_running_loop().run_in_executor(None, job)

    async def _snapshot(self) -> None:
        log, image = self._metadata_log, self._loader.image
        if self._loader.in_transaction or not log.snapshot_due(image, self._clock.now_ms()):
            return
        # Committed records need not be on stable storage here. Once recorded as committed, a start expects them.
        await log.flushed(image.covers.offset)
        await self._record()
        job = log.begin_snapshot(image, self._clock.now_ms())
        await asyncio.get_running_loop().run_in_executor(None, job.run)
        log.end_snapshot(job, self._clock.now_ms())
