"""Replicas that move between the log directories of this broker, one after the other, in the background."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from cordwood.log.dirs.directory import LogDirectory, TopicPartition
from cordwood.log.dirs.relocation import Relocation
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import DiskError, FileGone
from cordwood.shard.refusal import Refusal

from .partition import Partition
from .replicas import Replicas

_log = logging.getLogger(__name__)

# Read, checked and written in well under a millisecond.
_COPY_BYTES = 256 << 10
# If no more than this remains to be written and synced, the rest is done in one step.
_LITTLE_BYTES = 1 << 20
# How long a partition may be missing before its move is dropped.
_LOOK_EVERY_S = 1.0
_SHORTEST_PAUSE_S = 0.001
# Limits the wait for a partition that is written to faster than it can be flushed.
_MAX_FLUSHES = 8


class DirectoryMoves:
    """`bytes_per_second` limits the copying (`replica.alter.log.dirs.io.max.bytes.per.second`)."""

    def __init__(self, replicas: Replicas, clock: Clock, bytes_per_second: Callable[[], int]) -> None:
        self._replicas = replicas
        self._clock = clock
        self._bytes_per_second = bytes_per_second
        # In order of request; the first one is in progress.
        self._wanted: dict[TopicPartition, LogDirectory] = {}
        self._task: asyncio.Task[None] | None = None
        self._is_stopping = False
        # Set when the requested moves may have changed.
        self._woken = asyncio.Event()

    def request(self, partition: Partition, destination: LogDirectory) -> None:
        """A request for another directory replaces an earlier one; a request for the current directory cancels it."""
        key = (partition.topic, partition.index)
        if self._wanted.get(key) is destination:
            return
        self._wanted.pop(key, None)
        self._woken.set()
        if self._replicas.directories.directory_of(*key) is destination:
            return
        self._wanted[key] = destination
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._move_all())

    def resume(self) -> None:
        """At a start: restarts moves that were in progress when the node stopped."""
        for directory in self._replicas.directories.online:
            for topic, index in directory.interrupted:
                partition = self._replicas.get(topic, index)
                if partition is not None:
                    self.request(partition, directory)
            directory.interrupted.clear()

    def lag_of(self, topic: str, index: int) -> int:
        """Number of offsets that a future replica lacks."""
        partition = self._replicas.get(topic, index)
        directory = self._wanted.get((topic, index))
        if partition is None or partition.log is None or directory is None or (topic, index) not in directory.futures:
            return 0
        return max(0, partition.log.end_offset - directory.futures[topic, index].end_offset)

    async def finish(self) -> None:
        """Abandons the move in progress, for a stop; the next start restarts it."""
        self._is_stopping = True
        self._woken.set()
        while self._task is not None:
            await asyncio.shield(self._task)

    async def _move_all(self) -> None:
        try:
            while self._wanted and not self._is_stopping:
                key, destination = next(iter(self._wanted.items()))
                partition = self._replicas.get(*key)
                if partition is not None:
                    await self._attempt(partition, destination)
                if self._wanted.get(key) is destination and not self._is_stopping:
                    del self._wanted[key]
        finally:
            self._task = None

    async def _attempt(self, partition: Partition, destination: LogDirectory) -> None:
        try:
            await self._move(partition, destination)
        except DiskError as error:
            self._replicas.disk_failed(error)
        except (Refusal, FileGone) as error:
            _log.error("%s is not moved to %s: %s", partition, destination.disk.root, error)

    async def _move(self, partition: Partition, destination: LogDirectory) -> None:
        key = (partition.topic, partition.index)
        source = self._replicas.directories.directory_of(*key)
        if source is None or source is destination or destination.is_offline:
            return
        relocation = Relocation(source, destination, *key, partition.topic_id, self._clock)

        def is_wanted() -> bool:
            return relocation.is_wanted and self._wanted.get(key) is destination and not self._is_stopping

        try:
            await self._catch_up(relocation, is_wanted)
            if is_wanted():
                for listener in self._replicas.on_delete:
                    listener(key)
                partition.replace_log(relocation.finish())
                self._replicas.on_placed(partition, destination)
                _log.info("%s has moved from %s to %s", partition, source.disk.root, destination.disk.root)
        finally:
            if not self._is_stopping and not destination.is_offline:
                relocation.give_up()

    async def _catch_up(self, relocation: Relocation, is_wanted: Callable[[], bool]) -> None:
        """Copies until the future log has nearly everything, durably."""
        loop = asyncio.get_running_loop()
        for flushes in range(_MAX_FLUSHES):
            copied = 0
            while is_wanted() and (size := relocation.copy(_COPY_BYTES)):
                copied += size
                await self._pause(size / self._bytes_per_second(), is_wanted)
            if flushes and copied <= _LITTLE_BYTES:
                return
            is_whole = False
            while is_wanted() and not is_whole:
                job = relocation.future.begin_flush(self._clock.now_ms())
                await loop.run_in_executor(None, job.run)
                if relocation.is_wanted:
                    relocation.future.end_flush(job)
                is_whole = job.is_whole
            if not is_wanted():
                return

    async def _pause(self, seconds: float, is_wanted: Callable[[], bool]) -> None:
        """Sleeps for this time, or until the move is cancelled."""
        await asyncio.sleep(0)
        while seconds > _SHORTEST_PAUSE_S and is_wanted():
            piece = min(seconds, _LOOK_EVERY_S)
            seconds -= piece
            self._woken.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(piece):
                    await self._woken.wait()
