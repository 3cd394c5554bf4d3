"""Settings of all clients; Kafka's names in Python's spelling, and Kafka's defaults."""

from dataclasses import dataclass

from cordwood.net.peers.settings import ConnectionSettings
from cordwood.runtime.network import Address


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(ConnectionSettings):
    bootstrap_servers: tuple[Address, ...] = ()
    """Initial brokers: "host:port", several separated by commas, or a list of them. One that responds is enough to find
    all others."""
    default_api_timeout_ms: int = 60_000
    """Time for which a call is retried."""
    retry_backoff_ms: int = 100
    """Back-off before a request is retried; doubled with each consecutive failure."""
    retry_backoff_max_ms: int = 1_000
    """Upper limit of that back-off."""
    metadata_max_age_ms: int = 300_000
    """Interval at which a client looks for new brokers and partitions. Moved leaders are noticed by errors."""
    metadata_recovery_strategy: str = "rebootstrap"
    """rebootstrap: if no known broker answers, start again from bootstrap_servers; none: keep trying the known ones."""
    metadata_recovery_rebootstrap_trigger_ms: int = 300_000
    """After this time without metadata, all known brokers are forgotten, and bootstrap_servers are asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminSettings(Settings):
    connections_max_idle_ms: int = 300_000
    """An idle connection is closed after this time; negative: never."""
