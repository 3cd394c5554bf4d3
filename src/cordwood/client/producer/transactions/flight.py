"""The one request that is on its way, and when the next may go."""

from dataclasses import replace
from math import inf

from cordwood.client.producer.transactions.requests import Ask, To
from cordwood.net.peers.backoff import Backoff


class Flight:
    """After a failure there is a pause; after some the coordinator has to be looked for."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._ask: Ask | None = None
        self._failures = 0
        self._not_before_s = -inf
        self._lost_coordinators: set[tuple[To, str]] = set()

    def may_go(self, now_s: float) -> bool:
        return self._ask is None and now_s >= self._not_before_s

    def next_check_s(self, now_s: float) -> float:
        return self._not_before_s if self._ask is None and now_s < self._not_before_s else inf

    def went(self, ask: Ask) -> Ask:
        """The request as it is to be sent."""
        coordinator = ask.to, ask.key
        if coordinator in self._lost_coordinators:
            self._lost_coordinators.remove(coordinator)
            ask = replace(ask, look_up=True)
        self._ask = ask
        return ask

    def landed(self, ask: Ask) -> None:
        assert ask is self._ask, "a response without a pending request"
        self._ask = None

    def succeeded(self) -> None:
        self._failures = 0

    def pause(self, now_s: float, exactly_s: float | None = None) -> None:
        """Before the next one goes; it grows with each failure in a row."""
        self._failures += 1
        self._not_before_s = now_s + (self._backoff.pause_s(self._failures) if exactly_s is None else exactly_s)

    def lose_coordinator(self, ask: Ask) -> None:
        self._lost_coordinators.add((ask.to, ask.key))
