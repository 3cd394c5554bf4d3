"""Converts the TLS settings of a listener from Kafka's keys to those of the network layer."""

from __future__ import annotations

import logging

from cordwood.config.broker import BrokerConfig
from cordwood.config.definition import ResourceType
from cordwood.config.network.listeners import Endpoint, SecurityProtocol
from cordwood.config.requests.changes import Altered, Resource
from cordwood.config.validation.values import Password
from cordwood.runtime.tls import ClientAuth, ClientTls, KeyPair, ServerTls, TlsError
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode

_log = logging.getLogger(__name__)

_WITH_TLS = (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)


class ListenerTls:
    """The TLS settings of all listeners of a node. A change applies to new connections."""

    def __init__(self, config: BrokerConfig) -> None:
        """Raises `TlsError`."""
        self._by_listener = _read_all(config)

    def of(self, endpoint: Endpoint) -> ServerTls | None:
        return self._by_listener[endpoint.listener]

    def reload(self, config: BrokerConfig) -> None:
        """Reloads keys and certificates; if they are invalid, keeps the current ones."""
        try:
            read = _read_all(config)
            for listener, tls in read.items():
                _check_names(config, listener, self._by_listener[listener], tls)
        except TlsError as error:
            _log.error("Cannot reload TLS settings, keeping the previous ones: %s", error)
            return
        for listener, tls in read.items():
            served = self._by_listener[listener]
            if served is not None and tls is not None:
                served.context, served.names = tls.context, tls.names


def check_listener_tls(config: BrokerConfig, resource: Resource, altered: Altered) -> Refusal | None:
    """Returns the reason why this broker's listeners could not use a change of its configuration; None if they can."""
    is_of_broker = resource.type == ResourceType.BROKER and resource.name
    if not is_of_broker or not any("ssl." in name for name, _ in altered.records):
        return None
    try:
        changed = _read_all(config.with_dynamic(config.dynamic_default, altered.settings))
    except TlsError as error:
        return Refusal(ErrorCode.INVALID_REQUEST, str(error))
    try:
        served = _read_all(config)
    except TlsError:
        # The certificates in use may be older than their files; `reload` compares with those in use.
        return None
    try:
        for listener, tls in changed.items():
            _check_names(config, listener, served[listener], tls)
    except TlsError as error:
        return Refusal(ErrorCode.INVALID_REQUEST, str(error))
    return None


def _check_names(config: BrokerConfig, listener: str, served: ServerTls | None, new: ServerTls | None) -> None:
    """Checks Kafka's rule for a certificate that replaces another one of a running broker. Raises `TlsError`."""
    if served is None or new is None:
        return
    if served.names.subject != new.names.subject and not config.flag("ssl.allow.dn.changes"):
        raise TlsError(
            f"listener {listener}: the new certificate has another distinguished name than the old one; "
            "ssl.allow.dn.changes=true allows that"
        )
    if not served.names.alternatives <= new.names.alternatives and not config.flag("ssl.allow.san.changes"):
        raise TlsError(
            f"listener {listener}: the new certificate lacks subject alternative names of the old one; "
            "ssl.allow.san.changes=true allows that"
        )


def _read_all(config: BrokerConfig) -> dict[str, ServerTls | None]:
    return {endpoint.listener: server_tls(config, endpoint) for endpoint in config.listeners.bound}


def server_tls(config: BrokerConfig, endpoint: Endpoint) -> ServerTls | None:
    """Returns None for a listener without TLS. Raises `TlsError` with what has to be set."""
    if endpoint.protocol not in _WITH_TLS:
        return None

    def text(name: str) -> str | None:
        return _text(config, endpoint.listener, name)

    _check_stores(config, endpoint.listener)
    certificates = text("ssl.keystore.certificate.chain") or text("ssl.keystore.location")
    if certificates is None:
        raise TlsError(
            f"listener {endpoint.listener} is {endpoint.protocol.name}: set ssl.keystore.type=PEM and "
            "ssl.keystore.location to a PEM file with the key and the certificate chain (or ssl.keystore.key and "
            "ssl.keystore.certificate.chain to what would be in it)"
        )
    client_auth = ClientAuth(text("ssl.client.auth") or "none")
    authorities = text("ssl.truststore.certificates") or text("ssl.truststore.location")
    if client_auth is not ClientAuth.NONE and authorities is None:
        raise TlsError(
            f"listener {endpoint.listener}: ssl.client.auth={client_auth.value}, but there are no certificates to "
            "verify clients against: set ssl.truststore.type=PEM and ssl.truststore.location to a PEM file with them"
        )
    return ServerTls(
        KeyPair(certificates, text("ssl.keystore.key"), text("ssl.key.password")),
        client_auth,
        authorities,
        ":".join(_items(config, endpoint.listener, "ssl.cipher.suites")),
        _items(config, endpoint.listener, "ssl.enabled.protocols"),
    )


def client_tls(config: BrokerConfig, listener: str) -> ClientTls | None:
    """Returns the settings for connections to a listener of this name on other nodes; None if it has no TLS. The node
    presents the certificate that it serves the listener with. Raises `TlsError` with what has to be set."""
    if config.listeners.protocols[listener] not in _WITH_TLS:
        return None
    _check_stores(config, listener)
    certificates = _text(config, listener, "ssl.keystore.certificate.chain") or _text(
        config, listener, "ssl.keystore.location"
    )
    keys = None
    if certificates is not None:
        keys = KeyPair(
            certificates, _text(config, listener, "ssl.keystore.key"), _text(config, listener, "ssl.key.password")
        )
    return ClientTls(
        _text(config, listener, "ssl.truststore.certificates") or _text(config, listener, "ssl.truststore.location"),
        keys,
        check_hostname=bool(_text(config, listener, "ssl.endpoint.identification.algorithm")),
        ciphers=":".join(_items(config, listener, "ssl.cipher.suites")),
        protocols=_items(config, listener, "ssl.enabled.protocols"),
    )


def _check_stores(config: BrokerConfig, listener: str) -> None:
    for store in ("keystore", "truststore"):
        kind, location = (_text(config, listener, f"ssl.{store}.{part}") for part in ("type", "location"))
        if location is not None and kind != "PEM":
            raise TlsError(
                f"listener {listener}: ssl.{store}.type={kind}: Cordwood reads PEM files; "
                f"convert {location} and set ssl.{store}.type=PEM"
            )
        if location is not None and _text(config, listener, f"ssl.{store}.password") is not None:
            raise TlsError(
                f"listener {listener}: ssl.{store}.password is set, but PEM files have no password of their "
                "own: remove it (ssl.key.password decrypts the key)"
            )


def _text(config: BrokerConfig, listener: str, name: str) -> str | None:
    value = config.for_listener(listener, name)
    if isinstance(value, Password):
        return value.secret
    return None if value is None else str(value)


def _items(config: BrokerConfig, listener: str, name: str) -> tuple[str, ...]:
    value = config.for_listener(listener, name)
    return value if isinstance(value, tuple) else ()
