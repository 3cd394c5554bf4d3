"""The TLS settings of a listener, from Kafka's keys to what the network takes."""

from __future__ import annotations

from cordwood.config.broker import BrokerConfig
from cordwood.config.listeners import Endpoint, SecurityProtocol
from cordwood.config.values import Password
from cordwood.runtime.tls import ClientAuth, KeyPair, ServerTls, TlsError


def server_tls(config: BrokerConfig, endpoint: Endpoint) -> ServerTls | None:
    """None for a listener without TLS. Raises `TlsError` with what has to be set."""
    if endpoint.protocol not in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL):
        return None

    def text(name: str) -> str | None:
        value = config.for_listener(endpoint.listener, name)
        if isinstance(value, Password):
            return value.secret
        return None if value is None else str(value)

    for store in ("keystore", "truststore"):
        kind, location = text(f"ssl.{store}.type"), text(f"ssl.{store}.location")
        if location is not None and kind != "PEM":
            raise TlsError(
                f"listener {endpoint.listener}: ssl.{store}.type={kind}: Cordwood reads PEM files; "
                f"convert {location} and set ssl.{store}.type=PEM"
            )
    certificates = text("ssl.keystore.certificate.chain") or text("ssl.keystore.location")
    if certificates is None:
        raise TlsError(
            f"listener {endpoint.listener} is {endpoint.protocol.name}: set ssl.keystore.type=PEM and "
            "ssl.keystore.location to a PEM file with the key and the certificate chain (or ssl.keystore.key and "
            "ssl.keystore.certificate.chain to what would be in it)"
        )
    return ServerTls(
        KeyPair(certificates, text("ssl.keystore.key"), text("ssl.key.password")),
        ClientAuth(text("ssl.client.auth") or "none"),
        text("ssl.truststore.certificates") or text("ssl.truststore.location"),
        ":".join(_items(config, endpoint, "ssl.cipher.suites")),
        _items(config, endpoint, "ssl.enabled.protocols"),
    )


def _items(config: BrokerConfig, endpoint: Endpoint, name: str) -> tuple[str, ...]:
    value = config.for_listener(endpoint.listener, name)
    return value if isinstance(value, tuple) else ()
