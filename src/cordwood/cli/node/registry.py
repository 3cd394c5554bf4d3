"""A schema registry beside a node: its `cordwood.registry.*` settings, and its connection to the cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from cordwood.client.errors import ClientError
from cordwood.client.settings import Settings
from cordwood.config.broker import BrokerConfig
from cordwood.config.network.listener_tls import client_tls
from cordwood.config.own_keys import (
    REGISTRY_ADVERTISED_URL,
    REGISTRY_CLIENT_AUTH,
    REGISTRY_INIT_TIMEOUT_MS,
    REGISTRY_KEY_PASSWORD,
    REGISTRY_KEYSTORE,
    REGISTRY_REPLICATION_FACTOR,
    REGISTRY_TIMEOUT_MS,
    REGISTRY_TRUSTSTORE,
    REGISTRY_USERS_FILE,
)
from cordwood.node import CannotStart, Node
from cordwood.registry.errors import UnusableTopic
from cordwood.registry.listeners import check_advertised, parse_listener
from cordwood.registry.packages import PackagesMissing
from cordwood.registry.registry import ClientSettings, RegistrySettings
from cordwood.registry.rest.authentication import Credentials, read_credentials
from cordwood.registry.server import RegistryServer
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.network import CannotListen
from cordwood.runtime.sockets import SocketNetwork
from cordwood.runtime.tls import ClientAuth, ClientTls, KeyPair, ServerTls, TlsError

S = TypeVar("S", bound=Settings)


async def serve_registry(network: SocketNetwork, clock: SystemClock, node: Node, listener: str) -> RegistryServer:
    """Raises `CannotStart`."""
    config = node.config
    try:
        host, port, is_https = parse_listener(listener)
        advertised = config[REGISTRY_ADVERTISED_URL]
        return await RegistryServer.start(
            registry_settings(node),
            network,
            clock,
            host,
            port,
            tls=_listener_tls(config, listener) if is_https else None,
            advertised_url="" if advertised is None else check_advertised(str(advertised)),
            node_host=_node_host(config),
            credentials=_credentials(config),
        )
    except (ValueError, OSError, TlsError, PackagesMissing, CannotListen, UnusableTopic, ClientError) as error:
        raise CannotStart(f"The schema registry at {listener} cannot start: {error}") from error


def registry_settings(node: Node) -> RegistrySettings:
    """Raises `TlsError`."""
    config = node.config
    replicas = config.integer(REGISTRY_REPLICATION_FACTOR)
    return RegistrySettings(
        _as_the_node(node),
        replication_factor=None if replicas < 1 else replicas,
        init_timeout_s=config.integer(REGISTRY_INIT_TIMEOUT_MS) / 1000,
        timeout_s=config.integer(REGISTRY_TIMEOUT_MS) / 1000,
        forwarding_tls=_forwarding_tls(config),
    )


def _as_the_node(node: Node) -> ClientSettings:
    """Connects through the inter-broker listener with the certificate that the node presents to other brokers, so that
    the registry has the node's permissions, independent of other listeners' requirements."""
    name = node.config.listeners.inter_broker
    tls, address = client_tls(node.config, name), node.addresses[name]

    def settings_of(kind: type[S], /, **own: Any) -> S:
        return kind(bootstrap_servers=(address,), tls=tls, **own)

    return settings_of


def _node_host(config: BrokerConfig) -> str:
    listeners = config.listeners
    return next((each.host or "" for each in listeners.advertised if each.listener == listeners.inter_broker), "")


def _listener_tls(config: BrokerConfig, listener: str) -> ServerTls:
    keys = _keys(config)
    if keys is None:
        raise TlsError(f"{listener} needs a certificate: set {REGISTRY_KEYSTORE} to a PEM file with it and its key")
    truststore = config[REGISTRY_TRUSTSTORE]
    client_auth = ClientAuth(config.text(REGISTRY_CLIENT_AUTH))
    if client_auth is not ClientAuth.NONE and truststore is None:
        raise TlsError(f"{REGISTRY_CLIENT_AUTH}={client_auth.value} needs {REGISTRY_TRUSTSTORE}")
    return ServerTls(keys, client_auth, None if truststore is None else str(truststore))


def _forwarding_tls(config: BrokerConfig) -> ClientTls | None:
    keys, truststore = _keys(config), config[REGISTRY_TRUSTSTORE]
    if keys is None and truststore is None:
        return None
    return ClientTls(None if truststore is None else str(truststore), keys)


def _keys(config: BrokerConfig) -> KeyPair | None:
    keystore = config[REGISTRY_KEYSTORE]
    return None if keystore is None else KeyPair(str(keystore), None, config.secret(REGISTRY_KEY_PASSWORD))


def _credentials(config: BrokerConfig) -> Credentials | None:
    file = config[REGISTRY_USERS_FILE]
    return None if file is None else read_credentials(Path(str(file)).read_text(encoding="utf-8"), str(file))
