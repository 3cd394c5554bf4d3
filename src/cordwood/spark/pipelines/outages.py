"""**Outages**: brokers that the processes of a pipeline cannot reach, with the start of the outage and the retried
operation."""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from cordwood.runtime.sockets import ip_addresses
from cordwood.spark.watched_network import REACHED, UNREACHABLE

# Clients retry after some seconds at most. An address without retries is no longer an outage.
_FORGOTTEN_AFTER_S = 60.0
# One of several brokers that is down for a moment, or one bootstrap address, blocks nothing.
_HELD_UP_AFTER_S = 5.0


@dataclass
class Outage:
    address: str
    since_s: float
    """Seconds since 1970."""
    reason: str
    doing: set[str] = field(default_factory=set)
    last_s: float = 0.0

    def told(self, now_s: float) -> str:
        return (
            f"{self.reason}, since {_clock(self.since_s)} ({duration(now_s - self.since_s)}); "
            f"retrying: {', '.join(sorted(self.doing))}"
        )

    def told_over(self, now_s: float) -> str:
        return (
            f"{self.address} can be reached again, after {duration(now_s - self.since_s)} "
            f"({_clock(self.since_s)} to {_clock(now_s)})"
        )


class Outages:
    """A broker is one outage, also if bootstrap servers have it by another name than it has itself."""

    def __init__(
        self,
        clock_s: Callable[[], float] = time.time,
        ip_addresses: Callable[[str], Collection[str]] = ip_addresses,
    ) -> None:
        self._clock_s = clock_s
        self._ip_addresses = ip_addresses
        # An address, and the one by which its broker is known here.
        self._known_as: dict[str, str] = {}
        self._current: dict[str, Outage] = {}
        self._over: list[str] = []

    def take(self, report: Mapping[str, Any]) -> None:
        now_s = self._clock_s()
        if report["kind"] == UNREACHABLE:
            address = self._same_broker(report["address"])
            outage = self._current.setdefault(address, Outage(address, now_s, report["reason"]))
            outage.reason, outage.last_s = report["reason"], now_s
            outage.doing.add(report["doing"])
        elif (
            report["kind"] == REACHED
            and self._current
            and (ended := self._current.pop(self._same_broker(report["address"]), None)) is not None
        ):
            self._over.append(ended.told_over(now_s))

    def _same_broker(self, address: str) -> str:
        known = self._known_as.get(address)
        if known is None:
            known = next((other for other in self._known_as.values() if self._is_same(other, address)), address)
            self._known_as[address] = known
        return known

    def _is_same(self, one: str, other: str) -> bool:
        (one_host, _, one_port), (other_host, _, other_port) = one.rpartition(":"), other.rpartition(":")
        if one_port != other_port:
            return False
        one_host, other_host = one_host.strip("[]"), other_host.strip("[]")
        return not set(self._ip_addresses(one_host)).isdisjoint(self._ip_addresses(other_host))

    def now_s(self) -> float:
        return self._clock_s()

    def hold_up(self, progressed_s: float) -> bool:
        """Returns whether a query whose last batch ended at that time seems to wait for brokers."""
        now_s = self._clock_s()
        return any(progressed_s < outage.since_s <= now_s - _HELD_UP_AFTER_S for outage in self.current())

    def current(self) -> list[Outage]:
        forgotten_s = self._clock_s() - _FORGOTTEN_AFTER_S
        self._current = {name: outage for name, outage in self._current.items() if outage.last_s > forgotten_s}
        return list(self._current.values())

    def over(self) -> list[str]:
        """Messages about the outages that ended since the last call."""
        over, self._over = self._over, []
        return over


def duration(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min"


def _clock(time_s: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(time_s))
