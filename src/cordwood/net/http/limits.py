"""Everything that a peer could use up, with a bound."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HttpLimits:
    max_connections: int = 256
    """For all listeners of a server together; further connections wait in the listeners' queues."""
    max_head_bytes: int = 16_384
    """Request line and headers; 431 beyond."""
    max_body_bytes: int = 1_048_576
    """413 beyond."""
    head_timeout_s: float = 10.0
    """The time from a connection's start, or the first byte of a further request, to the end of its head; then 408."""
    body_timeout_s: float = 30.0
    """The time without a byte of an expected body; then 408."""
    keep_alive_timeout_s: float = 120.0
    """The time between two requests. Prometheus sends one at least every two minutes by default."""
    write_timeout_s: float = 30.0
    """Time without the peer reading any unsent byte; then the connection is dropped."""
    max_buffered_bytes: int = 65_536
    """Per connection and direction: beyond it the peer is not read from, and the app waits in `send`."""
    linger_timeout_s: float = 1.0
    """Time for which bytes are still read and dropped after an early answer. Closing with bytes unread would reset the
    connection, and a reset can destroy an answer that the peer has not read."""
