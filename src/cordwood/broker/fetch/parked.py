"""A Fetch that found too little waits here: no poll, no task; the partitions wake it when there is more."""

from __future__ import annotations

from asyncio import TimerHandle, get_running_loop
from collections.abc import Callable

from cordwood.broker.fetch.session_watch import SessionWatch
from cordwood.net.serving import Reply
from cordwood.replica.partition import Partition
from cordwood.runtime.network import Part
from cordwood.shard.refusal import Refusal

from .reading import FetchRead
from .wanted import WantedPartition

# A fetch may wait for weeks, and its client be gone: so often that is looked at.
_LOOK_S = 30.0


class ParkedFetch:
    """A `replica.partition.Watcher`. It is answered once `min_bytes` are available, after `max_wait_ms`, or when a
    partition has an error; `answer` then reads all partitions again."""

    __slots__ = (
        "_answer",
        "_available",
        "_deadline",
        "_is_due",
        "_min_bytes",
        "_read",
        "_timer",
        "_total",
        "_waiting",
        "_watch",
        "_woken",
        "reply",
    )

    def __init__(
        self,
        read: FetchRead,
        waiting: dict[Partition, WantedPartition],
        min_bytes: int,
        max_wait_ms: int,
        answer: Callable[[], list[Part]],
        watch: SessionWatch | None = None,
    ) -> None:
        """`watch` wakes it, if the fetch is of a session that has one."""
        self.reply = Reply()
        self._read = read
        self._min_bytes = min_bytes
        self._answer = answer
        self._waiting = waiting
        self._watch = watch
        self._available: dict[Partition, int] = {}
        self._total = 0
        # Several wake-ups in one turn of the loop cause a single read.
        self._woken: dict[Partition, None] = {}
        self._is_due = False
        loop = get_running_loop()
        self._deadline = loop.time() + max_wait_ms / 1000
        self._timer: TimerHandle = loop.call_later(min(_LOOK_S, max_wait_ms / 1000), self._time_is_up)
        if watch is None:
            for partition in waiting:
                partition.watch(self)
        else:
            watch.parked = self
            self._waiting = watch.watched

    @property
    def is_follower(self) -> bool:
        return self._read.is_follower

    def is_satisfied(self, partitions: list[Partition]) -> bool:
        """Counts everything: a read within one segment may have found less than there is."""
        return self._has_enough(partitions)

    def stop(self) -> None:
        """Stops watching the partitions. The caller answers the fetch."""
        self._timer.cancel()
        if self._watch is None:
            for partition in self._waiting:
                partition.unwatch(self)
        elif self._watch.parked is self:
            self._watch.parked = None
        self._waiting = {}

    def expire(self) -> None:
        if self._waiting:
            self._finish()

    def woken(self, partition: Partition) -> None:
        self._woken[partition] = None
        if not self._is_due:
            self._is_due = True
            get_running_loop().call_soon(self._look)

    def high_watermark_moved(self, partition: Partition) -> None:
        """A follower's fetch is not woken by the high watermark: its next answer has it anyway."""

    def _look(self) -> None:
        self._is_due = False
        woken, self._woken = self._woken, {}
        if self.reply.abandoned:
            self.stop()
        elif self._waiting:
            try:
                has_enough = self._has_enough(list(woken))
            except Exception as error:  # noqa: BLE001  # logged with its request
                self.stop()
                self.reply.fail(error)
            else:
                if has_enough:
                    self._finish()

    def _has_enough(self, partitions: list[Partition]) -> bool:
        for partition in partitions:
            try:
                wanted = self._waiting.get(partition)
                if wanted is None:
                    # The session has forgotten it since.
                    continue
                available = self._read.available(wanted, self._min_bytes)
            except Refusal:
                return True
            self._total += available - self._available.get(partition, 0)
            self._available[partition] = available
        return self._total >= self._min_bytes

    def _time_is_up(self) -> None:
        if self.reply.abandoned:
            self.stop()
            return
        loop = get_running_loop()
        remaining = self._deadline - loop.time()
        if remaining > 0:
            self._timer = loop.call_later(min(_LOOK_S, remaining), self._time_is_up)
        else:
            self._finish()

    def _finish(self) -> None:
        self.stop()
        try:
            parts = self._answer()
        except Exception as error:  # noqa: BLE001  # logged with its request
            self.reply.fail(error)
        else:
            self.reply.answer(parts)
