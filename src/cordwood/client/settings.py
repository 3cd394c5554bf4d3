"""How a client behaves; Kafka's names in Python's spelling, and Kafka's defaults."""

from dataclasses import dataclass

from cordwood.runtime.tls import ClientTls


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    client_id: str = "cordwood"
    tls: ClientTls | None = None
    """None is PLAINTEXT."""
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    """How long a call goes on retrying."""
    socket_connection_setup_timeout_ms: int = 10_000
    socket_connection_setup_timeout_max_ms: int = 30_000
    connections_max_idle_ms: int = 540_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    """How often a reader looks for new partitions. Leaders that move are noticed by the errors they give."""
