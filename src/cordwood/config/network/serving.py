"""Creates a server with the listeners of the configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cordwood.config.broker import BrokerConfig
from cordwood.config.definitions.broker import BROKER
from cordwood.config.validation.broker_rules import connections_per_address
from cordwood.net.limits import Limits
from cordwood.net.server import Server
from cordwood.runtime.network import Address, Network, SocketOptions

from .listener_tls import ListenerTls
from .listeners import Endpoint


class Listening(NamedTuple):
    server: Server
    # Where each of its listeners is reached, by its name.
    addresses: Mapping[str, Address]


# Two requests of the largest batches that topics take by default.
_BULK_RECEIVE_BYTES = 1 << 21


async def listen(network: Network, config: BrokerConfig, endpoints: Sequence[Endpoint], tls: ListenerTls) -> Listening:
    """Opens the listeners; connections wait until `accept`. Raises `CannotListen`."""
    server = Server(network, limits=limits_of(config))
    server.hold()
    options = _socket_options(config)
    listeners = config.listeners
    advertised = {end.listener: end for end in (*listeners.advertised, *listeners.advertised_controllers)}
    addresses: dict[str, Address] = {}
    try:
        for endpoint in endpoints:
            bound = await server.listen(
                endpoint.listener, endpoint.host or "", endpoint.port, tls.of(endpoint), options
            )
            told = advertised.get(endpoint.listener, endpoint)
            addresses[endpoint.listener] = Address(told.host or "localhost", told.port or bound.port)
    except BaseException:
        await server.stop(0)
        raise
    return Listening(server, addresses)


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
    overrides = connections_per_address(config.text("max.connections.per.ip.overrides"))
    return Limits(
        request_max_bytes=config.integer("socket.request.max.bytes"),
        max_requests_in_work=config.integer("queued.max.requests"),
        idle_ms=config.integer("connections.max.idle.ms"),
        max_connections=config.integer("max.connections"),
        max_connections_of_listener={
            endpoint.listener: limit
            for endpoint in config.listeners.bound
            if isinstance(limit := config.for_listener(endpoint.listener, "max.connections"), int)
        },
        max_connections_per_ip=config.integer("max.connections.per.ip"),
        max_connections_per_ip_overrides={host.strip("[]"): limit for host, limit in overrides.items()},
    )
