"""Settings of all clients; Kafka's names in Python's spelling, and Kafka's defaults."""

from dataclasses import dataclass

from cordwood.net.peers.settings import ConnectionSettings
from cordwood.runtime.network import Address


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(ConnectionSettings):
    bootstrap_servers: tuple[Address, ...] = ()
    """Brokers to begin with: "host:port", several separated by commas, or a list of them. One that answers is enough;
    it names all the others."""
    default_api_timeout_ms: int = 60_000
    """Time for which a call is retried."""
    retry_backoff_ms: int = 100
    """The pause before a request is retried; doubled with each failure in a row."""
    retry_backoff_max_ms: int = 1_000
    """Upper limit of that back-off."""
    metadata_max_age_ms: int = 300_000
    """Interval at which a client looks for new brokers and partitions. Leaders that move are noticed by their
    errors."""
    metadata_recovery_strategy: str = "rebootstrap"
    """rebootstrap: when no known broker answers, begin again with bootstrap_servers; none: go on with those known."""
    metadata_recovery_rebootstrap_trigger_ms: int = 300_000
    """Without metadata for so long, all that is known of brokers is forgotten, and bootstrap_servers are asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminSettings(Settings):
    connections_max_idle_ms: int = 300_000
    """A connection without requests for so long is closed; negative: never."""
