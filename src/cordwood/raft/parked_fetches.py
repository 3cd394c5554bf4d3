"""Fetches that a leader holds back until there is something to return."""

from typing import NamedTuple

from .events import RequestReceived


class ParkedFetch(NamedTuple):
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

    def take_all(self) -> list[ParkedFetch]:
        taken, self._parked = self._parked, []
        return taken

    def take_below(self, end_offset: int) -> list[ParkedFetch]:
        """Those for which there are records now."""
        taken = [fetch for fetch in self._parked if fetch.fetch_offset < end_offset]
        self._parked = [fetch for fetch in self._parked if fetch.fetch_offset >= end_offset]
        return taken

    def take_expired(self, now: int) -> list[ParkedFetch]:
        taken = [fetch for fetch in self._parked if fetch.deadline_ms <= now]
        self._parked = [fetch for fetch in self._parked if fetch.deadline_ms > now]
        return taken
