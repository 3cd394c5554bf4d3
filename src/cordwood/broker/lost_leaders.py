"""Leaders whose connections to this broker have just broken, about which the controller is about to decide.

A client that loses its leader asks for Metadata within a fraction of a millisecond; the controller needs some
milliseconds to fence a broker that died. If the answer names the old leader, librdkafka asks again only a second later.
So an answer that would send a client to such a broker waits for the decision: until the broker is fenced, until it can
be fetched from again, or for `PATIENCE_S` after the connection broke.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from cordwood.metadata.delta import MetadataDelta

# More than the election of another controller takes together with `cordwood.broker.reconnect.grace.ms`.
PATIENCE_S = 1.0


class LostLeaders:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        # Until when they are waited for. A broker that stays lost is kept: it is waited for only once.
        self._deadlines: dict[int, float] = {}
        # Set when one is not lost any more, and replaced.
        self._changed = asyncio.Event()

    def lost(self, broker_id: int) -> None:
        """A connection over which this broker follows it broke, or it could not be connected to."""
        self._deadlines.setdefault(broker_id, self._loop.time() + PATIENCE_S)

    def regained(self, broker_id: int) -> None:
        """It has answered."""
        if self._deadlines.pop(broker_id, None) is not None:
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    def apply(self, delta: MetadataDelta) -> None:
        """A committed change of a broker's registration is the decision, or makes it needless."""
        for broker_id in delta.brokers:
            self.regained(broker_id)

    def are_undecided(self, broker_ids: Iterable[int]) -> bool:
        if not self._deadlines:
            return False
        now = self._loop.time()
        return any(self._deadlines.get(broker_id, 0.0) > now for broker_id in broker_ids)

    async def until_decided(self, broker_ids: Iterable[int]) -> None:
        """Returns when none of them is undecided any more."""
        waited_for = set(broker_ids)
        while self.are_undecided(waited_for):
            last = max(self._deadlines.get(broker_id, 0.0) for broker_id in waited_for)
            try:
                async with asyncio.timeout_at(last):
                    await self._changed.wait()
            except TimeoutError:
                return
