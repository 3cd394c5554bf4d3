"""Group commit: partitions whose logs are to be flushed, in rounds. What is asked for during a round joins the next."""

import asyncio
import logging
from collections.abc import Callable
from itertools import islice

from cordwood.log.log import FlushJob, Log
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import DiskError

from .partition import Partition

_log = logging.getLogger(__name__)

_PARTITIONS_PER_ROUND = 64


class Flusher:
    """The fsyncs of a round run in a thread, one after the other; appends go on meanwhile."""

    def __init__(self, clock: Clock, disk_failed: Callable[[DiskError], None]) -> None:
        self._clock = clock
        self._disk_failed = disk_failed
        # Since the start: rounds, and logs that were flushed in them.
        self.rounds = 0
        self.flushes = 0
        self._due: dict[Partition, None] = {}
        self._round: asyncio.Task[None] | None = None

    def request(self, partition: Partition) -> None:
        self._due[partition] = None
        if self._round is None:
            self._round = asyncio.get_running_loop().create_task(self._rounds())

    async def finish(self) -> None:
        """Returns when nothing is under way."""
        while self._round is not None:
            await asyncio.shield(self._round)

    async def _rounds(self) -> None:
        try:
            while self._due:
                # The others wait for the next round: a flush holds descriptors, and beginning one takes its time.
                due = list(islice(self._due, _PARTITIONS_PER_ROUND))
                for partition in due:
                    del self._due[partition]
                await self._flush(due)
        finally:
            self._round = None

    async def _flush(self, partitions: list[Partition]) -> None:
        begun: list[tuple[Partition, Log, FlushJob]] = []
        for partition in partitions:
            log = partition.log
            if log is not None:
                try:
                    begun.append((partition, log, log.begin_flush(self._clock.now_ms())))
                except DiskError as error:
                    self._disk_failed(error)
        loop = asyncio.get_running_loop()
        errors = await loop.run_in_executor(None, _run_all, [job for _, _, job in begun])
        self.rounds += 1
        for (partition, log, job), failure in zip(begun, errors, strict=True):
            if failure is not None:
                self._disk_failed(failure)
            elif partition.log is log:
                self.flushes += 1
                log.end_flush(job)
                partition.flushed()
                if not job.is_whole:
                    self._due[partition] = None


def _run_all(jobs: list[FlushJob]) -> list[DiskError | None]:
    errors: list[DiskError | None] = []
    for job in jobs:
        try:
            job.run()
            errors.append(None)
        except DiskError as error:
            errors.append(error)
    return errors
