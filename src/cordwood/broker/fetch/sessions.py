"""Fetch sessions (KIP-227): the fetcher's partitions are kept here, so that requests and responses have only the
changes.

    fetching = sessions.begin(session_id, epoch, uses_topic_ids, wanted, forgotten, now_ms)
    ... read what `fetching.partitions` want ...
    error, session_id, told = fetching.conclude(answers, now_ms)

A fetch with epoch -1 is without a session, one with epoch 0 opens a session if there is room, any other is the next of
its session. Plain values; nothing here waits.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from cordwood.broker.fetch.session_watch import SessionWatch
from cordwood.runtime.randomness import Random
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import PartitionData

from .wanted import PartitionKey, WantedPartition

NO_SESSION = 0
FINAL_EPOCH = -1
INITIAL_EPOCH = 0
_MAX_INT = 2**31 - 1
# A session created or used within this time is not evicted for another one.
EVICTION_MS = 120_000
# A follower fetches at least every `replica.fetch.wait.max.ms`.
UNUSED_WATCH_MS = 60_000

Answers = list[tuple[WantedPartition, PartitionData]]


class Conclusion(NamedTuple):
    error: ErrorCode
    session_id: int
    answers: Answers


class Fetching(Protocol):
    """One fetch, from request to response."""

    @property
    def partitions(self) -> list[WantedPartition]: ...

    @property
    def is_empty(self) -> bool:
        """True if the fetcher requests no partition."""

    @property
    def watch(self) -> SessionWatch | None:
        """In a follower's session: the partitions to examine. `partitions` has only these."""

    @property
    def only_news(self) -> bool:
        """True if partitions without news need no answer."""

    @property
    def is_superseded(self) -> bool:
        """The fetcher has sent the next request of the session before this one was answered, which is void then."""

    def when_superseded(self, then: Callable[[], None]) -> None: ...

    def conclude(self, answers: Answers, now_ms: int) -> Conclusion: ...


class FetchSessions:
    """`max_sessions` is `max.incremental.fetch.session.cache.slots`."""

    def __init__(self, max_sessions: int, random: Random) -> None:
        self._max_sessions = max_sessions
        self._random = random
        # The one that was unused for longest first.
        self._sessions: dict[int, _Session] = {}
        # Keys of sessions that a new session of an ordinary fetcher, or of a follower, may evict; least first.
        self._evictable_by_all: list[_EvictableKey] = []
        self._evictable_by_privileged: list[_EvictableKey] = []
        # Followers' sessions, least recently used first.
        self._watches: dict[int, SessionWatch] = {}
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def begin(
        self,
        session_id: int,
        epoch: int,
        uses_topic_ids: bool,
        wanted: dict[PartitionKey, WantedPartition],
        forgotten: Iterable[PartitionKey],
        now_ms: int,
        *,
        privileged: bool = False,
    ) -> Fetching | ErrorCode:
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self._remove(session_id)
            partitions = list(wanted.values())
            if epoch == FINAL_EPOCH:
                return _SessionlessFetch(partitions)
            return _OpeningFetch(self, partitions, uses_topic_ids, privileged)
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.update(wanted, forgotten)
        if not session.partitions:
            self._remove(session_id)
            return _SessionlessFetch(list(wanted.values()))
        session.epoch = _next_epoch(epoch)
        self._touch(session, now_ms)
        session.supersede()
        return _IncrementalFetch(session)

    def open(self, answers: Answers, uses_topic_ids: bool, privileged: bool, now_ms: int) -> int:
        """The id of a new session; NO_SESSION if there is no room for it."""
        if len(self._sessions) >= self._max_sessions and not self._evict_for(privileged, len(answers), now_ms):
            return NO_SESSION
        session = _Session(self._new_id(), uses_topic_ids, privileged, now_ms)
        for wanted, answer in answers:
            wanted.told(answer)
            session.partitions[wanted.key] = wanted
            if session.watch is not None:
                session.watch.want(wanted)
        self._touch(session, now_ms)
        return session.id

    def _new_id(self) -> int:
        while (session_id := 1 + self._random.below(_MAX_INT)) in self._sessions:
            pass
        return session_id

    # Making room: as Kafka does, by age first, then a smaller session gives way to a larger one, a consumer's to a
    # follower's.

    def _evict_for(self, privileged: bool, size: int, now_ms: int) -> bool:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.used_ms > EVICTION_MS:
            self._remove(oldest.id)
        else:
            evictable = self._evictable_by_privileged if privileged else self._evictable_by_all
            if not evictable or (privileged, size, 0) < evictable[0]:
                return False
            self._remove(evictable[0][2])
        self.evicted += 1
        return True

    def _touch(self, session: _Session, now_ms: int) -> None:
        self._sessions.pop(session.id, None)
        self._sessions[session.id] = session
        session.used_ms = now_ms
        if session.watch is not None:
            self._watches.pop(session.id, None)
            self._watches[session.id] = session.watch
            self._close_unused(now_ms)
        is_old = now_ms - session.created_ms > EVICTION_MS
        if session.noted_size == len(session.partitions) and session.is_noted_old == is_old:
            return
        self._forget_evictable(session)
        session.noted_size, session.is_noted_old = len(session.partitions), is_old
        if is_old or not session.privileged:
            insort(self._evictable_by_privileged, session.evictable_key)
        if is_old:
            insort(self._evictable_by_all, session.evictable_key)

    def _close_unused(self, now_ms: int) -> None:
        """A dead follower leaves its session behind, which partitions should no longer wake."""
        while True:
            session_id, watch = next(iter(self._watches.items()))
            if now_ms - self._sessions[session_id].used_ms <= UNUSED_WATCH_MS:
                return
            watch.close()
            del self._watches[session_id]

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._forget_evictable(session)
            watch = self._watches.pop(session_id, None)
            if watch is not None:
                watch.close()

    def _forget_evictable(self, session: _Session) -> None:
        for keys in (self._evictable_by_all, self._evictable_by_privileged):
            place = bisect_left(keys, session.evictable_key)
            if place < len(keys) and keys[place] == session.evictable_key:
                del keys[place]


# Whether it is a follower's, how many partitions it has, its id.
_EvictableKey = tuple[bool, int, int]


class _Session:
    __slots__ = (
        "_waiting",
        "created_ms",
        "epoch",
        "id",
        "is_noted_old",
        "noted_size",
        "partitions",
        "privileged",
        "used_ms",
        "uses_topic_ids",
        "watch",
    )

    def __init__(self, session_id: int, uses_topic_ids: bool, privileged: bool, now_ms: int) -> None:
        self.id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.privileged = privileged
        self.created_ms = self.used_ms = now_ms
        # The epoch of the next request.
        self.epoch = _next_epoch(INITIAL_EPOCH)
        # In reading order: partitions that returned data most recently come last.
        self.partitions: dict[PartitionKey, WantedPartition] = {}
        self.noted_size = -1
        self.is_noted_old = False
        self.watch = SessionWatch(now_ms) if privileged else None
        # The parked fetch, which must be answered before the next one.
        self._waiting: Callable[[], None] | None = None

    def when_superseded(self, then: Callable[[], None]) -> None:
        """Calls `then` when the next request comes."""
        self._waiting = then

    def supersede(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting()

    @property
    def evictable_key(self) -> _EvictableKey:
        return self.privileged, self.noted_size, self.id

    def update(self, wanted: dict[PartitionKey, WantedPartition], forgotten: Iterable[PartitionKey]) -> None:
        for key, partition in wanted.items():
            known = self.partitions.get(key)
            if known is None:
                known = self.partitions[key] = partition
            else:
                known.want(partition)
            if self.watch is not None:
                self.watch.want(known)
        for key in forgotten:
            partition_forgotten = self.partitions.pop(key, None)
            if partition_forgotten is not None and self.watch is not None:
                self.watch.forget(partition_forgotten)


def _next_epoch(epoch: int) -> int:
    """0 and -1 are reserved."""
    return 1 if epoch == _MAX_INT else epoch + 1


class _OutsideOfSession:
    """A fetch that no other one can supersede."""

    __slots__ = ()

    only_news = False
    is_superseded = False
    watch = None

    def when_superseded(self, then: Callable[[], None]) -> None:
        pass


class _SessionlessFetch(_OutsideOfSession):
    __slots__ = ("is_empty", "partitions")

    def __init__(self, partitions: list[WantedPartition]) -> None:
        self.partitions = partitions
        self.is_empty = not partitions

    def conclude(self, answers: Answers, now_ms: int) -> Conclusion:
        return Conclusion(ErrorCode.NONE, NO_SESSION, answers)


class _OpeningFetch(_OutsideOfSession):
    __slots__ = ("_privileged", "_sessions", "_uses_topic_ids", "is_empty", "partitions")

    def __init__(
        self, sessions: FetchSessions, partitions: list[WantedPartition], uses_topic_ids: bool, privileged: bool
    ) -> None:
        self.partitions = partitions
        self.is_empty = not partitions
        self._sessions = sessions
        self._uses_topic_ids = uses_topic_ids
        self._privileged = privileged

    def conclude(self, answers: Answers, now_ms: int) -> Conclusion:
        session_id = self._sessions.open(answers, self._uses_topic_ids, self._privileged, now_ms)
        return Conclusion(ErrorCode.NONE, session_id, answers)


class _IncrementalFetch:
    __slots__ = ("_epoch", "_session", "watch")

    only_news = True
    is_empty = False

    def __init__(self, session: _Session) -> None:
        self.watch = session.watch
        self._session = session
        self._epoch = session.epoch

    @property
    def partitions(self) -> list[WantedPartition]:
        return list((self._session.partitions if self.watch is None else self.watch.due).values())

    @property
    def is_superseded(self) -> bool:
        return self._session.epoch != self._epoch

    def when_superseded(self, then: Callable[[], None]) -> None:
        self._session.when_superseded(then)

    def conclude(self, answers: Answers, now_ms: int) -> Conclusion:
        session = self._session
        if self.is_superseded:
            return Conclusion(ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.id, [])
        told: Answers = []
        for wanted, answer in answers:
            if wanted.tell(answer):
                told.append((wanted, answer))
                if answer.records is not None and len(answer.records) > 0:
                    # The others come first next time: none starves while the limits are small.
                    if self.watch is not None:
                        self.watch.read_last(wanted)
                        continue
                    key = wanted.key
                    session.partitions[key] = session.partitions.pop(key)
        return Conclusion(ErrorCode.NONE, session.id, told)
