"""Brokers that failed a moment ago, which Metadata continues to name for a while.

Kafka fences a dead broker when its session expires, and names it in Metadata until then. Here it may be fenced within
milliseconds. librdkafka (2.10 and later) drops a broker that disappears from Metadata, with everything that waits for
it. A transactional producer that was about to commit offsets with a dead group coordinator then never looks for another
one, and `send_offsets_to_transaction` never returns (confluentinc/librdkafka#5511). While the broker is named,
librdkafka looks for the coordinator about a second after it has lost the connection.
"""

from __future__ import annotations

from cordwood.metadata.delta import MetadataDelta
from cordwood.metadata.image import MetadataImage
from cordwood.runtime.clock import Clock

# A few times what librdkafka needs to look for another coordinator, and less than Kafka's session timeout.
NAMED_FOR_S = 5.0


class Departures:
    """A broker that shut down cleanly has handed over everything, and does not count."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._fenced_at: dict[int, float] = {}

    def apply(self, delta: MetadataDelta, before: MetadataImage, after: MetadataImage) -> None:
        for broker_id in delta.brokers:
            if before.is_active(broker_id) and broker_id in after.brokers and after.brokers[broker_id].fenced:
                self._fenced_at[broker_id] = self._clock.monotonic()

    def recent(self) -> list[int]:
        now = self._clock.monotonic()
        self._fenced_at = {node: since for node, since in self._fenced_at.items() if now < since + NAMED_FOR_S}
        return list(self._fenced_at)
