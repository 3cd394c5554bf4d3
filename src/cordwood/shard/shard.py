"""The shard runtime: decide, append, replay, answer, perform.

    result = shard.decide(lambda state: state.join(request))

A decision is a function of the state. Its records are appended to the shard's log and replayed into the state, and it
is answered when the high watermark has passed them. A decision without records is answered when the high watermark
covers the state that it saw, so that no answer can be undone by a failover. Its effects, values that describe work
outside of the shard, go to the shard's performer at the same time. Losing the log drops the state: loading is
replaying, and nothing has to be undone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from cordwood.runtime.clock import Clock
from cordwood.wire.errors import ErrorCode

from .decision import Decision, ProducerIdAndEpoch
from .promise import Promise
from .refusal import Refusal
from .timers import Alarm, Timers

_log = logging.getLogger(__name__)

# As in Kafka: if a timer's records cannot be written, the timer is retried.
_RETRY_MS = 500
# About 100 µs each.
_ALARMS_AT_ONCE = 100


class State(Protocol):
    @property
    def timers(self) -> Timers: ...

    def replay(self, records: Sequence[Any], first_offset: int, producer_id: int) -> None:
        """Applies records that were appended as one batch, in a producer's transaction unless its id is -1. It must not
        fail: the records are already written."""


class ShardLog(Protocol):
    @property
    def end_offset(self) -> int: ...

    @property
    def is_committed(self) -> bool:
        """Everything that is in it."""

    def append(self, records: Sequence[Any], producer: ProducerIdAndEpoch | None) -> int:
        """Writes them as one batch, and returns its base offset; raises Refusal if nothing was written."""

    def when_committed(self, end_offset: int, then: Callable[[ErrorCode], None]) -> None:
        """Calls `then` when all below is committed, or with an error when it will not be."""


S = TypeVar("S", bound=State)
T = TypeVar("T")


class Performer(Protocol[S]):
    def perform(self, shard: Shard[S], effect: Any, /) -> None:
        """Begins the work that an effect of a committed decision describes. It must not fail."""


class Shard(Generic[S]):
    def __init__(
        self,
        state: S,
        log: ShardLog,
        clock: Clock,
        timeout_ms: Callable[[], int] | None = None,
        performer: Performer[S] | None = None,
    ) -> None:
        self.state = state
        self.log = log
        self._clock = clock
        # The time limit for a commit; None: no limit.
        self._timeout_ms = timeout_ms
        # None: decisions of this shard have no effects.
        self._performer = performer
        self._is_deciding = False
        # Told while a decision is being written: they wait until it is in the state.
        self._told: list[Callable[[], None]] = []
        # Called when the shard is closed.
        self._open: dict[Promise[Any], None] = {}
        self._closed: Refusal | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = float("inf")
        state.timers.watch(self._set_alarm)

    # Deciding

    def decide(self, decision: Callable[[S], Decision[T]]) -> T | Promise[T]:
        """The response if everything is committed by now, as on one node it mostly is. Raises the Refusal of the
        decision or of the log."""
        if self._closed is not None:
            raise self._closed
        assert not self._is_deciding, "a decision is taken while another is"
        timers = self.state.timers
        self._is_deciding = True
        try:
            decided = decision(self.state)
            if decided.records:
                self._write(decided)
        except BaseException:
            timers.follow_ups.clear()
            raise
        finally:
            self._is_deciding = False
            # Also if the records were rejected: undoing the decision may have set timers.
            self._set_alarm()
        if timers.follow_ups:
            self._follow_up()
        result = self._when_committed(decided)
        while self._told:
            self._told.pop(0)()
        return result

    @property
    def is_closed(self) -> bool:
        return self._closed is not None

    @property
    def settled_state(self) -> S | None:
        """For reads and postponed timers: the state if all of it is committed, so that the caller can answer at
        once."""
        if self._closed is not None or self._is_deciding:
            return None
        try:
            return self.state if self.log.is_committed else None
        except Refusal:
            # Its directory is offline; later decisions get the error.
            return None

    def _write(self, decided: Decision[T]) -> None:
        try:
            first_offset = self.log.append(decided.records, decided.producer)
        except Refusal as refusal:
            if decided.refused is not None:
                decided.refused(refusal)
            raise
        producer_id = -1 if decided.producer is None else decided.producer.producer_id
        self.state.replay(decided.records, first_offset, producer_id)

    def write(self, append: Callable[[], None], replay: Callable[[], None]) -> Promise[None] | None:
        """For transaction markers, which are not records: appended and replayed by the caller's functions."""
        if self._closed is not None:
            raise self._closed
        assert not self._is_deciding, "a marker is written while a decision is taken"
        self._is_deciding = True
        try:
            append()
            replay()
        finally:
            self._is_deciding = False
        self._set_alarm()
        result: Promise[None] | None = self._when_committed(Decision(None))
        while self._told:
            self._told.pop(0)()
        return result

    # Answering

    def _when_committed(self, decided: Decision[T]) -> T | Promise[T]:
        response = decided.response
        if self.log.is_committed:
            for answer in decided.answers:
                answer.promise.resolve(answer.response)
            self._perform(decided.effects)
            if not isinstance(response, Promise):
                return response
            # It may have been among the answers: a member that waits for no other.
            return self._unless_done(response)
        promise: Promise[T] = response if isinstance(response, Promise) else Promise()

        def committed(error: ErrorCode) -> None:
            refusal = Refusal(error, "the decision was not committed") if error else None
            for answer in decided.answers:
                answer.promise.resolve(refusal or answer.response)
            if refusal is None:
                self._perform(decided.effects)
            if refusal is not None:
                promise.resolve(refusal)
            elif not isinstance(response, Promise):
                promise.resolve(response)

        def tell(error: ErrorCode) -> None:
            if self._is_deciding:
                self._told.append(lambda: committed(error))
            else:
                committed(error)

        self.log.when_committed(self.log.end_offset, tell)
        if promise is not response and self._timeout_ms is not None:
            # One that waits for others waits for as long as its own timers say.
            self._expire(promise, self._timeout_ms())
        return self._unless_done(promise)

    def _perform(self, effects: Sequence[Any]) -> None:
        if effects:
            assert self._performer is not None, "a decision has effects, and the shard has no performer"
            for effect in effects:
                self._performer.perform(self, effect)

    def _unless_done(self, promise: Promise[T]) -> T | Promise[T]:
        if promise.done:
            return promise.result()
        self._open[promise] = None
        promise.then(lambda _outcome: self._open.pop(promise, None))
        return promise

    def _expire(self, promise: Promise[T], timeout_ms: int) -> None:
        """Answers decisions that are not committed in time with a timeout; they may still be committed."""
        refusal = Refusal(ErrorCode.REQUEST_TIMED_OUT, "the decision was not committed in time")
        timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, promise.resolve, refusal)
        promise.then(lambda _outcome: timer.cancel())

    # Time

    def _set_alarm(self) -> None:
        at = self.state.timers.next_at
        if at is None or at >= self._alarm_at:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = at
        delay_s = max(0.0, at - self._clock.monotonic())
        self._alarm = asyncio.get_running_loop().call_later(delay_s, self._ring)

    def _ring(self) -> None:
        self._alarm, self._alarm_at = None, float("inf")
        timers = self.state.timers
        # Other work runs before timers that these alarms set for immediately, and between many of them.
        queued_by = timers.count
        for _ in range(_ALARMS_AT_ONCE):
            due = timers.take_due(queued_by) if self._closed is None else None
            if due is None:
                break
            self._raise(*due)
        if self._closed is None:
            self._set_alarm()

    def _follow_up(self) -> None:
        timers = self.state.timers
        follow_ups, timers.follow_ups = timers.follow_ups, []
        for key, alarm in follow_ups:
            self._raise(key, alarm)
        self._set_alarm()

    def _raise(self, key: Hashable, alarm: Alarm) -> None:
        timers = self.state.timers
        try:
            self.decide(alarm)
        except Refusal as refusal:
            _log.warning("Timer %s: append failed, retrying: %s", key, refusal)
            if key not in timers:
                timers.after(key, _RETRY_MS, alarm)
        except Exception:  # noqa: BLE001 - our bug; the shard continues
            _log.exception("Timer %s: handler failed", key)

    # Beginning and end

    def loaded(self) -> None:
        """The state is whole: its timers begin."""
        self._set_alarm()

    def close(self, refusal: Refusal) -> None:
        """The log now belongs to another broker: the state must not be used any more, and pending requests fail."""
        self._closed = refusal
        if self._alarm is not None:
            self._alarm.cancel()
        for promise in list(self._open):
            promise.resolve(refusal)
