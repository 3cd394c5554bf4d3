"""Periodic work of the active controller: preferred leaders, unclean elections where topics allow them, and no-op
records, from which others see their lag (KIP-835)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cordwood.config.broker import BrokerConfig
from cordwood.metadata.controller.decision import ControllerDefaults
from cordwood.metadata.controller.elections import elect_preferred_leaders, elect_unclean_leaders
from cordwood.metadata.image import MetadataImage
from cordwood.shard.decision import Decision
from cordwood.shard.timers import Timers
from cordwood.wire.messages.metadata_records.no_op_record import NoOpRecord
from cordwood.wire.schema import MetadataRecord

# As many as Kafka elects at once; the rest follow after other work.
MAX_ELECTIONS = 1_000


class Schedule:
    """`timers` are those of the controller's shard, which runs an expired one as a decision."""

    def __init__(
        self, node_id: int, config: BrokerConfig, defaults: Callable[[], ControllerDefaults], timers: Timers
    ) -> None:
        self._node_id = node_id
        self._defaults = defaults
        self._timers = timers
        if config.flag("auto.leader.rebalance.enable"):
            interval_ms = 1_000 * config.integer("leader.imbalance.check.interval.seconds")
            self._every("preferred leaders", interval_ms, self._elect_preferred_leaders)
        self._every("unclean elections", config.integer("unclean.leader.election.interval.ms"), self._elect_uncleanly)
        self._every("no-op records", config.integer("metadata.max.idle.interval.ms"), self._no_op)

    def _every(self, what: str, interval_ms: int, work: Callable[[MetadataImage], list[MetadataRecord]]) -> None:
        if interval_ms <= 0:
            return

        def due(state: Any) -> Decision[None]:
            records = work(state.image)
            is_all = len(records) < MAX_ELECTIONS
            self._timers.after(what, interval_ms if is_all else 0, due)
            return Decision(None, records)

        self._timers.after(what, interval_ms, due)

    def _elect_preferred_leaders(self, image: MetadataImage) -> list[MetadataRecord]:
        return elect_preferred_leaders(image, self._defaults(), MAX_ELECTIONS)

    def _elect_uncleanly(self, image: MetadataImage) -> list[MetadataRecord]:
        return elect_unclean_leaders(image, self._defaults(), MAX_ELECTIONS)

    def _no_op(self, image: MetadataImage) -> list[MetadataRecord]:
        """A lone node has no followers that could lag, and need not write to its disk while nothing happens."""
        others = (image.brokers.keys() | image.controllers.keys()) - {self._node_id}
        return [NoOpRecord()] if others else []
