"""A broker's background work: retention, compaction, flushes by time, checkpoints, the second step of deletions,
expiring idle producers.

Each kind of work is a task that sleeps most of the time. Work on the loop is done in slices, and blocking work (fsync,
unlink, compaction) in a thread, so that requests hardly notice. An I/O error takes only its own directory offline.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from cordwood.config.broker import BrokerConfig
from cordwood.log.checkpoints.offset_checkpoint import OffsetCheckpoint
from cordwood.log.cleaning.cleaner import Cleaner, Plan
from cordwood.log.config import MAX_INT64
from cordwood.log.dirs.directory import LogDirectory
from cordwood.log.steps import Steps
from cordwood.replica.slices import Slices, Stopped
from cordwood.runtime.disk import DiskError, FileGone

from .broker import Broker

_log = logging.getLogger(__name__)

Work = Callable[[], Coroutine[Any, Any, None]]

# How often to check for work; an idle check costs microseconds.
_DELETIONS_INTERVAL_MS = 1_000
# Used if no topic has a `flush.ms`: a topic may get one at any time.
_FLUSH_INTERVAL_MS = 30_000
# A lower bound for the configured value.
_SHORTEST_INTERVAL_S = 0.01
_LONGEST_INTERVAL_S = 86_400.0
_LOGS_PER_STEP = 20


class Background:
    """Call `start` after the broker has its partitions, and `stop` before its directories are closed."""

    def __init__(self, broker: Broker) -> None:
        self.slices = Slices()
        self.cleaner = Cleaner(broker.replicas.directories.directories, broker.config.cleaner, broker.clock)
        self._broker = broker
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._pauses: dict[Pause, None] = {}
        self._cleaners = 0
        self._shortest_flush_ms = MAX_INT64

    def start(self) -> None:
        broker = self._broker
        broker.replicas.on_delete.append(self.cleaner.stop)
        initial_ms = broker.config.integer("log.initial.task.delay.ms")
        self._begin("retention", self._retain, self._interval_of("log.retention.check.interval.ms"), initial_ms)
        self._begin("flushing", self._flush, self._flush_interval_ms, initial_ms)
        self._begin(
            "the checkpoint of recovery points",
            self._checkpoint_recovery_points,
            self._interval_of("log.flush.offset.checkpoint.interval.ms"),
            initial_ms,
        )
        self._begin(
            "the checkpoint of log starts",
            self._checkpoint_starts,
            self._interval_of("log.flush.start.offset.checkpoint.interval.ms"),
            initial_ms,
        )
        self._begin(
            "the checkpoint of high watermarks",
            self._checkpoint_high_watermarks,
            self._interval_of("replica.high.watermark.checkpoint.interval.ms"),
        )
        self._begin("deletion", self._purge, lambda: _DELETIONS_INTERVAL_MS)
        self._begin(
            "the check for lagging followers",
            self._check_lag,
            lambda: self._broker.config.integer("replica.lag.time.max.ms") // 2,
        )
        self._begin(
            "forgetting producers",
            self._expire_producers,
            self._interval_of("producer.id.expiration.check.interval.ms"),
        )
        broker.node_config.subscribe(self._configure)

    async def stop(self) -> None:
        """Stops all work: cancels walks and compactions, finishes writes in progress."""
        self.slices.is_stopping = True
        self._broker.node_config.unsubscribe(self._configure)
        self._broker.replicas.on_delete.remove(self.cleaner.stop)
        self.cleaner.stop_all()
        self._wake()
        while self._tasks:
            await asyncio.wait(self._tasks)

    # Timing

    def _begin(self, name: str, work: Work, interval_ms: Callable[[], int], first_ms: int | None = None) -> None:
        self._spawn(self._repeat(name, work, interval_ms, interval_ms() if first_ms is None else first_ms))

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks[task] = None
        task.add_done_callback(lambda task: self._tasks.pop(task, None))

    async def _repeat(self, name: str, work: Work, interval_ms: Callable[[], int], first_ms: int) -> None:
        pause = Pause()
        self._pauses[pause] = None
        await pause.until_passed(lambda: first_ms, lambda: self.slices.is_stopping)
        while not self.slices.is_stopping:
            await self._attempt(name, work)
            await pause.until_passed(interval_ms, lambda: self.slices.is_stopping)
        del self._pauses[pause]

    async def _attempt(self, name: str, work: Work) -> None:
        try:
            await work()
        except Stopped:
            return
        except Exception:  # noqa: BLE001 - any error costs this attempt only
            _log.exception("%s has failed; it will be tried again", name)

    def _interval_of(self, key: str) -> Callable[[], int]:
        return lambda: self._broker.config.integer(key)

    def _configure(self, config: BrokerConfig) -> None:
        self.cleaner.configure(config.cleaner)
        self._begin_cleaners()
        self._wake()

    def _wake(self) -> None:
        """Wakes sleeping tasks so that they re-read their interval."""
        for pause in self._pauses:
            pause.wake()

    # Logs

    async def _on(self, directory: LogDirectory, steps: Steps[object], *, to_its_end: bool = False) -> None:
        try:
            await self.slices.do(steps, to_its_end=to_its_end)
        except DiskError as error:
            self._broker.replicas.disk_failed(error)
        except FileGone as error:
            _log.debug("%s has changed in the meantime: %s", directory.disk.root, error)

    @property
    def _online(self) -> list[LogDirectory]:
        return self._broker.replicas.directories.online

    async def _retain(self) -> None:
        """Applies to logs that are not compacted; the cleaner handles the others, as in Kafka."""
        now_ms = self._broker.clock.now_ms()
        for directory in self._online:
            await self._on(directory, self._retaining(directory, now_ms, compacted=False))

    def _retaining(self, directory: LogDirectory, now_ms: int, *, compacted: bool) -> Steps[None]:
        for number, (partition, log) in enumerate(list(directory.logs.items()), start=1):
            if log.config.compact is compacted:
                yield from self.cleaner.retaining(directory, partition, log, now_ms)
            elif number % _LOGS_PER_STEP == 0:
                yield 1

    async def _purge(self) -> None:
        now_ms = self._broker.clock.now_ms()
        self._look_for_failures()
        for directory in self._online:
            if _is_due(directory.removals.next_due_ms, now_ms):
                await self._on(directory, directory.removals.purging(now_ms), to_its_end=True)

    def _look_for_failures(self) -> None:
        """Detects disks that failed where no error could be reported: while a response was being sent."""
        for directory in self._broker.replicas.directories.directories:
            if directory.disk.failure is not None:
                self._broker.replicas.disk_failed(directory.disk.failure)

    async def _expire_producers(self) -> None:
        now_ms = self._broker.clock.now_ms()
        expiration_ms = self._broker.config.integer("producer.id.expiration.ms")
        for directory in self._online:
            directory.set_producer_expiration(expiration_ms)
            await self._on(directory, _expiring(directory, expiration_ms, now_ms))

    # Flushes and checkpoints

    async def _check_lag(self) -> None:
        """Twice per `replica.lag.time.max.ms`, as in Kafka."""
        now_ms = self._broker.clock.now_ms()
        for partition in self._broker.replicas:
            partition.check_lag(now_ms)

    async def _flush(self) -> None:
        """Flushes by `flush.ms`; partitions themselves request flushes by `flush.messages` and after rolls."""
        await self.slices.do(self._flushing())

    def _flushing(self) -> Steps[None]:
        now_ms = self._broker.clock.now_ms()
        shortest_ms = MAX_INT64
        for number, partition in enumerate(list(self._broker.replicas), start=1):
            log = partition.log
            if log is not None and log.config.flush_ms < MAX_INT64:
                shortest_ms = min(shortest_ms, log.config.flush_ms)
                if log.flush_due(now_ms):
                    self._broker.replicas.flusher.request(partition)
            if number % _LOGS_PER_STEP == 0:
                yield 1
        self._shortest_flush_ms = shortest_ms

    def _flush_interval_ms(self) -> int:
        """Kafka checks only every `log.flush.scheduler.interval.ms`, which is never by default, so that a topic's
        `flush.ms` has no effect. Here it takes effect."""
        configured_ms = self._broker.config.integer("log.flush.scheduler.interval.ms")
        return min(configured_ms, self._shortest_flush_ms, _FLUSH_INTERVAL_MS)

    async def _checkpoint_recovery_points(self) -> None:
        for directory in self._online:
            await self._checkpoint(directory, directory.checkpoints.recovery_points)

    async def _checkpoint_starts(self) -> None:
        for directory in self._online:
            await self._checkpoint(directory, directory.checkpoints.log_starts)

    async def _checkpoint_high_watermarks(self) -> None:
        """Also writes checkpoints that still name deleted partitions: until then, creating one with the same name is
        slow."""
        for directory in self._online:
            others = [checkpoint for checkpoint in directory.checkpoints if checkpoint.has_gone]
            await self._checkpoint(directory, *{directory.checkpoints.high_watermarks: None, **dict.fromkeys(others)})

    async def _checkpoint(self, directory: LogDirectory, *checkpoints: OffsetCheckpoint) -> None:
        await self._on(directory, directory.checkpoints.writing(*checkpoints), to_its_end=True)

    # Compaction

    def _begin_cleaners(self) -> None:
        """Starts a task for each of `log.cleaner.threads`; surplus tasks end."""
        while self._cleaners < self.cleaner.config.threads:
            self._cleaners += 1
            self._spawn(self._clean_always(self._cleaners))

    async def _clean_always(self, number: int) -> None:
        pause = Pause()
        self._pauses[pause] = None
        while not self.slices.is_stopping and number <= self.cleaner.config.threads:
            await self._attempt("compaction", lambda: self._clean_all(is_first=number == 1))
            await pause.until_passed(
                lambda: self.cleaner.config.backoff_ms,
                lambda: self.slices.is_stopping or number > self.cleaner.config.threads,
            )
        del self._pauses[pause]
        self._cleaners -= 1

    async def _clean_all(self, *, is_first: bool) -> None:
        """Compacts one log after the other until none is due; then deletes their old segments."""
        clock = self._broker.clock
        while (plan := await self._choose()) is not None:
            if self.slices.is_stopping:
                self.cleaner.stop(plan.partition)
            outcome = await asyncio.get_running_loop().run_in_executor(None, plan.run)
            await self._on(plan.directory, self.cleaner.installing(outcome, clock.now_ms()), to_its_end=True)
            if self.slices.is_stopping:
                raise Stopped
        if is_first:
            for directory in self._online:
                await self._on(directory, self._retaining(directory, clock.now_ms(), compacted=True))

    async def _choose(self) -> Plan | None:
        try:
            return await self.slices.do(self.cleaner.choosing(self._broker.clock.now_ms()))
        except DiskError as error:
            self._broker.replicas.disk_failed(error)
            return None


class Pause:
    """An interruptible sleep whose length may change while it lasts."""

    def __init__(self) -> None:
        self._sleeper: asyncio.Future[None] | None = None

    async def until_passed(self, interval_ms: Callable[[], int], is_over: Callable[[], bool]) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        while not is_over():
            interval_s = min(max(interval_ms() / 1000, _SHORTEST_INTERVAL_S), _LONGEST_INTERVAL_S)
            left_s = began_s + interval_s - loop.time()
            if left_s <= 0:
                return
            self._sleeper = loop.create_future()
            timer = loop.call_later(left_s, self.wake)
            try:
                await self._sleeper
            finally:
                timer.cancel()
                self._sleeper = None

    def wake(self) -> None:
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)


def _is_due(due_ms: int | None, now_ms: int) -> bool:
    return due_ms is not None and due_ms <= now_ms


def _expiring(directory: LogDirectory, expiration_ms: int, now_ms: int) -> Steps[None]:
    for number, log in enumerate(list(directory.logs.values()), start=1):
        log.producers.expiration_ms = expiration_ms
        yield from log.producers.expiring(now_ms)
        if number % _LOGS_PER_STEP == 0:
            yield 1
