"""The one request in flight, and when the next may be sent."""

from dataclasses import replace
from math import inf

from cordwood.client.producer.transactions.requests import Ask, To
from cordwood.net.peers.backoff import Backoff


class Flight:
    """Backs off after a failure; some failures require a coordinator look-up."""

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
        """Returns the request to be sent."""
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
        """Backs off before the next request, for longer with each consecutive failure."""
        self._failures += 1
        self._not_before_s = now_s + (self._backoff.pause_s(self._failures) if exactly_s is None else exactly_s)

    def lose_coordinator(self, ask: Ask) -> None:
        self._lost_coordinators.add((ask.to, ask.key))
