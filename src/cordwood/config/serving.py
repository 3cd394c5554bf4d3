"""A server and its listeners as the configuration wants them."""

from __future__ import annotations

from collections.abc import Sequence

from cordwood.net.server import Server
from cordwood.net.serving import Limits
from cordwood.runtime.network import Address, SocketOptions

from .broker import BrokerConfig
from .definitions.broker import BROKER
from .listener_tls import server_tls
from .listeners import Endpoint

# Two requests of the largest batches that topics take by default.
_BULK_RECEIVE_BYTES = 1 << 21


async def listen(server: Server, config: BrokerConfig, endpoints: Sequence[Endpoint]) -> dict[str, Address]:
    """Opens the listeners and returns where each is reached, by its name. Raises `CannotListen` and `TlsError`."""
    options = _socket_options(config)
    advertised = {end.listener: end for end in config.listeners.advertised}
    addresses: dict[str, Address] = {}
    for endpoint in endpoints:
        tls = server_tls(config, endpoint)
        bound = await server.listen(endpoint.listener, endpoint.host or "", endpoint.port, tls, options)
        told = advertised.get(endpoint.listener, endpoint)
        addresses[endpoint.listener] = Address(told.host or "localhost", told.port or bound.port)
    return addresses


def _socket_options(config: BrokerConfig) -> SocketOptions:
    receive_bytes = config.integer("socket.receive.buffer.bytes")
    # A size that was chosen holds everywhere. Kafka's own configuration files set the default.
    is_chosen = receive_bytes != BROKER["socket.receive.buffer.bytes"].default
    return SocketOptions(
        send_buffer_bytes=config.integer("socket.send.buffer.bytes"),
        receive_buffer_bytes=receive_bytes,
        listen_backlog=config.integer("socket.listen.backlog.size"),
        bulk_receive_buffer_bytes=-1 if is_chosen else _BULK_RECEIVE_BYTES,
    )


def limits_of(config: BrokerConfig) -> Limits:
    overrides = [entry.rpartition(":") for entry in config.text("max.connections.per.ip.overrides").split(",") if entry]
    return Limits(
        request_max_bytes=config.integer("socket.request.max.bytes"),
        max_requests_in_work=config.integer("queued.max.requests"),
        idle_ms=config.integer("connections.max.idle.ms"),
        max_connections=config.integer("max.connections"),
        max_connections_per_ip=config.integer("max.connections.per.ip"),
        max_connections_per_ip_overrides={host.strip(): int(count) for host, _, count in overrides},
    )
