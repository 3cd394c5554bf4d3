"""Settings of consumer groups: whether they are enabled, and a group's timeouts, which override the broker's."""

from __future__ import annotations

from typing import NamedTuple

from cordwood.config.broker import BrokerConfig
from cordwood.config.group import group_values
from cordwood.coordinator.groups.state import GroupState
from cordwood.metadata.features import GROUP_VERSION
from cordwood.metadata.image import MetadataImage


def is_protocol_enabled(config: BrokerConfig, image: MetadataImage) -> bool:
    """Depends on the broker's configuration and the cluster's feature level."""
    return "consumer" in config.items("group.coordinator.rebalance.protocols") and bool(
        image.features.get(GROUP_VERSION)
    )


class Timing(NamedTuple):
    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


class TimingCache:
    """Caches timeouts, which every heartbeat needs and which rarely change. Re-reads them when the broker's or any
    dynamic configuration object is replaced."""

    __slots__ = ("_config", "_configs", "_timing")

    def __init__(self) -> None:
        self._config: BrokerConfig | None = None
        self._configs: object = None
        self._timing: Timing

    def get(self, state: GroupState, group_id: str) -> Timing:
        config, configs = state.config, state.image.configs
        if config is not self._config or configs is not self._configs:
            values = group_values(config, state.group_settings(group_id))
            self._timing = Timing(*(int(str(values[name])) for name in _NAMES))
            self._config, self._configs = config, configs
        return self._timing


_NAMES = ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "consumer.assignment.interval.ms")
