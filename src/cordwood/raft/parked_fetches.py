"""Fetches that a leader holds back until there is something to return."""

from dataclasses import dataclass, replace

from .events import RequestReceived


@dataclass(frozen=True, slots=True)
class ParkedFetch:
    received: RequestReceived
    fetch_offset: int
    deadline_ms: int


class ParkedFetches:
    def __init__(self) -> None:
        self._parked: list[ParkedFetch] = []

    def park(self, fetch: ParkedFetch) -> None:
        self._parked.append(fetch)

    @property
    def deadline(self) -> int | None:
        return min((fetch.deadline_ms for fetch in self._parked), default=None)

    def hurry(self, deadline_ms: int) -> None:
        """Lets none wait for longer than this."""
        self._parked = [replace(fetch, deadline_ms=min(fetch.deadline_ms, deadline_ms)) for fetch in self._parked]

    def take_all(self) -> list[ParkedFetch]:
        taken, self._parked = self._parked, []
        return taken

    def take_below(self, end_offset: int) -> list[ParkedFetch]:
        """Takes the fetches for which there are records now."""
        taken = [fetch for fetch in self._parked if fetch.fetch_offset < end_offset]
        self._parked = [fetch for fetch in self._parked if fetch.fetch_offset >= end_offset]
        return taken

    def take_expired(self, now: int) -> list[ParkedFetch]:
        taken = [fetch for fetch in self._parked if fetch.deadline_ms <= now]
        self._parked = [fetch for fetch in self._parked if fetch.deadline_ms > now]
        return taken
