"""Settings of connections to other nodes, from Kafka's keys."""

from __future__ import annotations

from cordwood.config.broker import BrokerConfig
from cordwood.net.peers.settings import ConnectionSettings

from .listener_tls import client_tls


def peer_settings(config: BrokerConfig, listener: str, client_id: str) -> ConnectionSettings:
    """Returns settings for connections to a listener of this name on other nodes. Raises `TlsError`."""
    return ConnectionSettings(
        client_id=client_id,
        tls=client_tls(config, listener),
        request_timeout_ms=config.integer("request.timeout.ms"),
        socket_connection_setup_timeout_ms=config.integer("socket.connection.setup.timeout.ms"),
        socket_connection_setup_timeout_max_ms=config.integer("socket.connection.setup.timeout.max.ms"),
        connections_max_idle_ms=config.integer("connections.max.idle.ms"),
    )
