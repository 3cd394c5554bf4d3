"""Tracks unreachable members of the quorum, and when to warn the operator."""

from __future__ import annotations

from collections.abc import Mapping

from cordwood.runtime.network import Address

# Nodes that are started together, or restarted one by one, miss each other for a moment.
GRACE_S = 5.0
REPEAT_S = 60.0


class Outage:
    """Failures to reach one address, without a success in between."""

    __slots__ = ("is_logged", "last", "since")

    def __init__(self, now: float) -> None:
        self.since = self.last = now
        self.is_logged = False


class Reachability:
    """Tracks the outcomes of requests. Times are in seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._outages: dict[Address, Outage] = {}
        self._next_line_at = 0.0

    def failed(self, address: Address, asked_at: float, now: float) -> Mapping[Address, float] | None:
        """Returns the outage of each address for which a log line is due: after `GRACE_S`, and then once in `REPEAT_S`.
        `asked_at` is the time when the failed request was sent."""
        outage = self._outages.get(address)
        if outage is None or asked_at - outage.last > GRACE_S:
            # Voters have nothing to ask most others for hours: an old failure says nothing about the time since.
            outage = self._outages[address] = Outage(now)
        outage.last = now
        if now - outage.since < GRACE_S or now < self._next_line_at:
            return None
        self._next_line_at = now + REPEAT_S
        recent = {each: other for each, other in self._outages.items() if asked_at - other.last <= GRACE_S}
        for other in recent.values():
            other.is_logged = True
        return {each: now - other.since for each, other in sorted(recent.items(), key=lambda entry: str(entry[0]))}

    def succeeded(self, address: Address, now: float) -> float | None:
        """Returns the duration of the address's outage, if that was logged."""
        outage = self._outages.pop(address, None)
        if not any(other.is_logged for other in self._outages.values()):
            self._next_line_at = 0.0
        return now - outage.since if outage is not None and outage.is_logged else None
