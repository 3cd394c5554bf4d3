"""Tracks unreachable members of the quorum, and when to warn the operator."""

from __future__ import annotations

from collections.abc import Mapping

from cordwood.runtime.network import Address

# Nodes that are started together, or restarted one by one, miss each other for a moment.
GRACE_S = 5.0
REPEAT_S = 60.0


class Reachability:
    """Tracks the outcomes of requests. Times are in seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._since: dict[Address, float] = {}
        self._next_line_at = 0.0

    def failed(self, address: Address, now: float) -> Mapping[Address, float] | None:
        """For how long each address has been out of reach, where it is time for a log line: after `GRACE_S`, and then
        once in `REPEAT_S`."""
        since = self._since.setdefault(address, now)
        if now - since < GRACE_S or now < self._next_line_at:
            return None
        self._next_line_at = now + REPEAT_S
        return {each: now - began for each, began in sorted(self._since.items(), key=lambda entry: str(entry[0]))}

    def succeeded(self, address: Address, now: float) -> float | None:
        """For how long the address was out of reach, where that was logged."""
        since = self._since.pop(address, None)
        if since is None or now - since < GRACE_S:
            return None
        if not self._since:
            self._next_line_at = 0.0
        return now - since
