"""Settings that promise protection which is not there. They are errors: a node that ignored them would let people in.

Which keys these are stands in `effects`; docs/security.md explains them. Kafka's defaults are always accepted, so that
a stock server.properties works.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cordwood.config.broker_rules import connections_per_address
from cordwood.config.definitions.broker import BROKER
from cordwood.config.effects import NO_AUTHORIZER, Effect, effect_on_broker
from cordwood.config.errors import ConfigError
from cordwood.config.keys import base_of, definition_of, listener_of
from cordwood.config.listeners import SecurityProtocol

if TYPE_CHECKING:
    from cordwood.config.broker import BrokerConfig

# Read by Kafka's authorizer; the broker itself does not know them.
_AUTHORIZER_KEYS = frozenset({"super.users", "allow.everyone.if.no.acl.found"})
ADVICE = "Remove what asks for protection that is not there; docs/security.md lists what is protected."


def broken_promise(name: str, text: str) -> str | None:
    """The reason to refuse this one setting, whatever else is set; None if there is none."""
    if name in _AUTHORIZER_KEYS:
        return NO_AUTHORIZER
    definition = definition_of(name)
    if definition is None or definition.name not in BROKER:
        return None
    rule = effect_on_broker(definition.name)
    if rule.effect is not Effect.REFUSED or definition.read(text) == definition.default:
        return None
    return rule.note


def check_protection(config: BrokerConfig) -> None:
    """Raises ConfigError if settings that are fine one by one promise protection that is not there."""
    problem = next(_broken_promises(config), None)
    if problem is not None:
        raise ConfigError(problem)


def _broken_promises(config: BrokerConfig) -> Iterator[str]:
    yield from _missing_client_certificates(config)
    yield from _limits_of_host_names(config)


def _missing_client_certificates(config: BrokerConfig) -> Iterator[str]:
    """`ssl.client.auth` is about TLS listeners; without one, clients never show a certificate."""
    with_tls = {each.listener for each in config.listeners.bound if each.protocol is SecurityProtocol.SSL}
    for name, text in config.settings.items():
        if (base_of(name) or name) != "ssl.client.auth" or text.strip() == "none":
            continue
        listener = listener_of(name)
        if listener is None and not with_tls:
            yield (
                f"{name}={text}: no listener uses TLS, so that no client would be asked for a certificate. "
                "Use SSL:// in listeners, or remove the setting (see docs/security.md)"
            )
        elif listener is not None and listener not in with_tls:
            yield (
                f"{name}={text}: there is no TLS listener {listener}, so that no client would be asked for a "
                f"certificate. Map {listener} to SSL in listener.security.protocol.map, or remove the setting"
            )


def _limits_of_host_names(config: BrokerConfig) -> Iterator[str]:
    for host in connections_per_address(config.text("max.connections.per.ip.overrides")):
        try:
            ipaddress.ip_address(host.strip("[]"))
        except ValueError:
            yield (
                f"max.connections.per.ip.overrides: {host} is a host name; limits apply to addresses only. "
                "Use its IP address"
            )
