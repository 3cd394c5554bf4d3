"""How a client behaves; Kafka's names in Python's spelling, and Kafka's defaults."""

from dataclasses import dataclass

from cordwood.runtime.network import Address
from cordwood.runtime.tls import ClientTls


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    bootstrap_servers: tuple[Address, ...] = ()
    """Brokers to begin with: "host:port", several with commas between, or a list of them. One that answers is enough;
    it names all the others."""
    client_id: str = "cordwood"
    """What brokers call this client in their logs, metrics and quotas."""
    tls: ClientTls | None = None
    """None is PLAINTEXT."""
    request_timeout_ms: int = 30_000
    """How long a request waits for its response. Then the broker is taken for lost, and the request is retried."""
    default_api_timeout_ms: int = 60_000
    """How long a call goes on retrying."""
    socket_connection_setup_timeout_ms: int = 10_000
    """How long a connection may take to be made; doubled with each failure in a row."""
    socket_connection_setup_timeout_max_ms: int = 30_000
    """How long that becomes at most."""
    connections_max_idle_ms: int = 540_000
    """A connection without requests for so long is closed; negative: never."""
    send_buffer_bytes: int = -1
    """Of sockets. -1 leaves it to the operating system, which sizes it by the connection's speed."""
    receive_buffer_bytes: int = -1
    """Of sockets. -1 leaves it to the operating system, which sizes it by the connection's speed."""
    retry_backoff_ms: int = 100
    """The pause before a request is retried; doubled with each failure in a row."""
    retry_backoff_max_ms: int = 1_000
    """How long that becomes at most."""
    reconnect_backoff_ms: int = 50
    """The pause before a broker is connected to again; doubled with each failure in a row."""
    reconnect_backoff_max_ms: int = 1_000
    """How long that becomes at most."""
    metadata_max_age_ms: int = 300_000
    """How often a client looks for new brokers and partitions. Leaders that move are noticed by their errors."""
    metadata_recovery_strategy: str = "rebootstrap"
    """rebootstrap: when no known broker answers, begin again with bootstrap_servers; none: go on with those known."""
    metadata_recovery_rebootstrap_trigger_ms: int = 300_000
    """Without metadata for so long, all that is known of brokers is forgotten, and bootstrap_servers are asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminSettings(Settings):
    connections_max_idle_ms: int = 300_000
    """A connection without requests for so long is closed; negative: never."""
