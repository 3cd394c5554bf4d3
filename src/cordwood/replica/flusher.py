"""Group commit: flushes the logs of partitions in rounds. A request during a round joins the next one."""

import asyncio
import logging
from collections.abc import Callable
from itertools import islice

from cordwood.log.durability import FlushJob
from cordwood.log.epoch_file import writing_epochs
from cordwood.log.log import Log
from cordwood.log.steps import Job
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import DiskError, FileGone

from .partition import Partition

_log = logging.getLogger(__name__)

_PARTITIONS_PER_ROUND = 64
# Beginning a flush takes some hundred microseconds.
_PARTITIONS_PER_SLICE = 4


class Flusher:
    """The fsyncs of a round run in a thread, one after the other; appends continue."""

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
        """Returns when no flush is in progress."""
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
        await self._write_epochs(partitions)
        begun: list[tuple[Partition, Log, FlushJob]] = []
        for number, partition in enumerate(partitions, start=1):
            log = partition.log
            if log is not None:
                try:
                    begun.append((partition, log, log.begin_flush(self._clock.now_ms())))
                except DiskError as error:
                    self._disk_failed(error)
            if number % _PARTITIONS_PER_SLICE == 0:
                await asyncio.sleep(0)
        errors = await self._run([job.run for _, _, job in begun])
        self.rounds += 1
        for (partition, log, job), failure in zip(begun, errors, strict=True):
            if failure is None and partition.log is log:
                self.flushes += 1
                log.end_flush(job)
                partition.flushed()
                if not job.is_whole:
                    self._due[partition] = None

    async def _write_epochs(self, partitions: list[Partition]) -> None:
        """For logs with new leader epochs: also in the thread, not where the flush begins."""
        written = []
        for partition in partitions:
            log = partition.log
            if log is not None and log.epochs.changed:
                steps = writing_epochs(log, "flusher")
                try:
                    written.append((partition, log, steps, next(steps)))
                except DiskError as error:
                    self._disk_failed(error)
        if not written:
            return
        failures = await self._run([job for *_, job in written if not isinstance(job, int)])
        for (partition, log, steps, _), failure in zip(written, failures, strict=True):
            if failure is None and partition.log is log:
                try:
                    next(steps, None)
                except DiskError as error:
                    self._disk_failed(error)

    async def _run(self, jobs: list[Job]) -> list[DiskError | FileGone | None]:
        """Returns the error of each flush, if any; reports that of a disk."""
        failures = await asyncio.get_running_loop().run_in_executor(None, _run_all, jobs)
        for failure in failures:
            if isinstance(failure, DiskError):
                self._disk_failed(failure)
        return failures


def _run_all(jobs: list[Job]) -> list[DiskError | FileGone | None]:
    failures: list[DiskError | FileGone | None] = []
    for job in jobs:
        try:
            job()
            failures.append(None)
        except (DiskError, FileGone) as failure:
            # The partition was deleted in the meantime.
            failures.append(failure)
    return failures
