"""Settings of connections to other nodes; Kafka's names in Python's spelling, and the defaults of Kafka's clients."""

from dataclasses import dataclass

from cordwood.runtime.tls import ClientTls


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    client_id: str = "cordwood"
    """Name of this client in the brokers' logs, metrics and quotas."""
    tls: ClientTls | None = None
    """None is PLAINTEXT."""
    request_timeout_ms: int = 30_000
    """Time for which a request waits for its response. Then the broker is considered lost, and the request is
    retried."""
    socket_connection_setup_timeout_ms: int = 10_000
    """Timeout of a connection attempt; doubled with each failure in a row."""
    socket_connection_setup_timeout_max_ms: int = 30_000
    """Upper limit of that time."""
    connections_max_idle_ms: int = 540_000
    """A connection without requests for so long is closed; negative: never."""
    send_buffer_bytes: int = -1
    """Socket buffer size. -1 leaves it to the operating system, which sizes it by the connection's speed."""
    receive_buffer_bytes: int = -1
    """Socket buffer size. -1 leaves it to the operating system, which sizes it by the connection's speed."""
    reconnect_backoff_ms: int = 50
    """The pause before a broker is connected to again; doubled with each failure in a row."""
    reconnect_backoff_max_ms: int = 1_000
    """Upper limit of that time."""
