# cython: language_level=3, annotation_typing=False
"""The results of `send`: a promise per record. Promises of a batch share its outcome, so that one call completes all.

metadata = await producer.send("orders", b"...") # cordwood.aio metadata = producer.send("orders", b"...").result(10) #
cordwood: blocks up to ten seconds
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, NamedTuple, Protocol

from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import ClientError, IllegalState, TimedOut

_log = logging.getLogger(__name__)

UNKNOWN = -1
"""An offset or a timestamp that the broker did not report."""
_WHOLE_BATCH = -1


class RecordMetadata(NamedTuple):
    """The location of a delivered record."""

    topic: str
    partition: int
    offset: int
    """-1 with acks=0, or if the broker only knows that the batch is a duplicate."""
    timestamp: int
    """Milliseconds: the broker's with LogAppendTime, else the record's own."""
    serialized_key_size: int
    serialized_value_size: int
    """-1 for null, as of the key."""


class Event(Protocol):
    """An event to wait for in a thread, like `threading.Event`."""

    def set(self) -> None: ...

    def wait(self, timeout: float | None = None) -> bool: ...


NewEvent = Callable[[], Event]


class Delivery:
    """The promise for one record. Awaiting it raises a `ClientError` if the record is not delivered."""

    __slots__ = ("index", "key_size", "outcome", "timestamp_ms", "value_size")

    outcome: "Outcome"
    """The outcome of its batch."""
    index: int
    """Its index in the batch."""
    timestamp_ms: int
    key_size: int
    value_size: int

    def done(self) -> bool:
        return self.outcome.of(self.index)[0].is_done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Blocks until the record is delivered, or for this many seconds; in `cordwood.aio` it is awaited instead."""
        error = self.exception(timeout)
        if error is not None:
            # A copy for each caller: a shared one would collect all their tracebacks.
            raise copy(error) from error.__cause__
        outcome, index = self.outcome.of(self.index)
        return RecordMetadata(
            outcome.partition.topic,
            outcome.partition.partition,
            outcome.offset_of(index),
            self.timestamp_ms if outcome.log_append_time_ms == UNKNOWN else outcome.log_append_time_ms,
            self.key_size,
            self.value_size,
        )

    def exception(self, timeout: float | None = None) -> ClientError | None:
        """Blocks like `result`; None when the record is delivered."""
        outcome, index = self.outcome.of(self.index)
        if not outcome.is_done:
            outcome.wait(timeout, index)
            outcome, index = self.outcome.of(self.index)
        return outcome.error_of(index)

    def add_done_callback(self, callback: "Callable[[Delivery], object]") -> None:
        """Registers a callback, called once when the record is delivered or failed; at once if it is. Callbacks of a
        partition are called in record order. The sync client calls them in its own thread: they must not block."""
        self.outcome.on_done(partial(callback, self), self.index)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        outcome, index = self.outcome.of(self.index)
        if not outcome.is_done:
            yield from outcome.future(index)
        return self.result()

    def __repr__(self) -> str:
        outcome, index = self.outcome.of(self.index)
        state = "waits" if not outcome.is_done else outcome.error_of(index) or "delivered"
        return f"<Delivery to {outcome.partition}: {state}>"


class Outcome:
    """The outcome of a batch. Set once by the sender, read from any thread.

    There is no lock. A thread that adds a callback then checks whether the batch is done, and a thread that completes
    the batch then checks for callbacks: at least one of them finds it, and it can be removed only once.
    """

    __slots__ = (
        "_errors",
        "_first_unfinished",
        "_new_event",
        "_parts",
        "_waiting",
        "base_offset",
        "error",
        "is_done",
        "log_append_time_ms",
        "partition",
    )

    def __init__(self, partition: TopicPartition, new_event: NewEvent | None = None) -> None:
        self.partition = partition
        self.base_offset = UNKNOWN
        self.log_append_time_ms = UNKNOWN
        self.error: ClientError | None = None
        self.is_done = False
        self._errors: Mapping[int, ClientError] = {}
        self._new_event = new_event
        self._parts: Sequence[tuple[int, Outcome]] = ()
        self._first_unfinished = 0
        self._waiting: deque[tuple[int, Callable[[], object]]] = deque()

    @classmethod
    def of_all(cls, outcomes: "Sequence[Outcome]", new_event: NewEvent | None) -> "Outcome":
        """Returns an outcome that is done when all of them are."""
        whole = cls(outcomes[0].partition if outcomes else TopicPartition("", UNKNOWN), new_event)
        if outcomes:
            whole.divide([(0, outcome) for outcome in outcomes])
        else:
            whole.complete(UNKNOWN, UNKNOWN)
        return whole

    def complete(self, base_offset: int, log_append_time_ms: int) -> None:
        assert not self.is_done
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.is_done = True
        self._tell()

    def fail(self, error: ClientError, errors: Mapping[int, ClientError]) -> None:
        """`errors` has the errors of single records by index, if they differ from `error`."""
        assert not self.is_done
        self.error = error
        self._errors = errors
        self.is_done = True
        self._tell()

    def divide(self, parts: "Sequence[tuple[int, Outcome]]") -> None:
        """Replaces this outcome by those of its parts, each given with the index of its first record. This one is done,
        for `on_done` of the whole batch, when all parts are."""
        assert not self.is_done
        assert not self._parts
        self._parts = parts
        for _, part in parts:
            part.on_done(self._part_done)
        self._tell()

    def of(self, index: int) -> "tuple[Outcome, int]":
        """Returns a record's outcome, and its index there."""
        outcome = self
        while outcome._parts:
            first, outcome = max((part for part in outcome._parts if part[0] <= index), key=lambda part: part[0])
            index -= first
        return outcome, index

    def error_of(self, index: int) -> ClientError | None:
        return self._errors.get(index, self.error)

    def errors(self) -> Iterator[ClientError]:
        """The errors of the batch, or of its parts."""
        if self.error is not None:
            yield self.error
        for _, part in self._parts:
            yield from part.errors()

    def offset_of(self, index: int) -> int:
        outcome, index = self.of(index)
        return UNKNOWN if outcome.base_offset == UNKNOWN else outcome.base_offset + index

    def on_done(self, callback: Callable[[], object], index: int = _WHOLE_BATCH) -> None:
        self._waiting.append((index, callback))
        if self.is_done or self._parts:
            self._tell()

    def wait(self, timeout_s: float | None, index: int = _WHOLE_BATCH) -> None:
        if timeout_s is not None and timeout_s <= 0:
            raise TimedOut(f"a record to {self.partition} is not delivered yet")
        if self._new_event is None:
            raise IllegalState("the record is not delivered yet; await its delivery")
        event = self._new_event()
        self.on_done(event.set, index)
        if not event.wait(timeout_s):
            raise TimedOut(f"a record to {self.partition} is not delivered after {timeout_s:g} s")

    def future(self, index: int = _WHOLE_BATCH) -> "asyncio.Future[None]":
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        if self._new_event is None:
            self.on_done(partial(_resolve, future), index)
        else:
            # Another thread will call it.
            self.on_done(partial(loop.call_soon_threadsafe, _resolve, future), index)
        return future

    def _part_done(self) -> None:
        at = self._first_unfinished
        while at < len(self._parts) and self._parts[at][1].is_done:
            at += 1
        # If another thread has advanced further, the next one has a little more to do.
        self._first_unfinished = at
        if at == len(self._parts):
            self.is_done = True
            self._tell()

    def _tell(self) -> None:
        """Calls the waiting callbacks, or moves them to the part that they wait for."""
        later = []
        while self._waiting:
            try:
                index, callback = self._waiting.popleft()
            except IndexError:  # another thread was faster
                break
            if self._parts and index != _WHOLE_BATCH:
                part, index_there = self.of(index)
                part.on_done(callback, index_there)
            elif self.is_done:
                _call(callback)
            else:
                later.append((index, callback))
        if later:
            self._waiting.extendleft(reversed(later))
            if self.is_done:
                self._tell()


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _call(callback: Callable[[], object]) -> None:
    try:
        callback()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: BLE001  among them CancelledError, of a future that was cancelled
        # An error in the application's callback must not affect other records.
        _log.exception("Delivery callback failed")
