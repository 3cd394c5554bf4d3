"""Rejects settings that ask for protection that isn't implemented.

A node that ignored them would be open. `effects` lists the keys; docs/security.md explains them. Kafka's defaults are
always accepted, so that a stock server.properties works.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cordwood.config.definitions.broker import BROKER
from cordwood.config.effects import NO_AUTHORIZER, Effect, effect_on_broker
from cordwood.config.errors import ConfigError
from cordwood.config.keys import LISTENER_PREFIX, base_of, definition_of, listener_of
from cordwood.config.network.listeners import SecurityProtocol
from cordwood.config.validation.broker_rules import connections_per_address

if TYPE_CHECKING:
    from cordwood.config.broker import BrokerConfig

# Read by Kafka's authorizer; the broker itself does not know them.
_SUPER_USERS = "super.users"
_AUTHORIZER_KEYS = frozenset({_SUPER_USERS, "allow.everyone.if.no.acl.found"})
# Keys that keep clients out, and can be set for one listener.
_RESTRICTIONS = frozenset({"max.connections", "ssl.cipher.suites", "ssl.client.auth", "ssl.enabled.protocols"})
ADVICE = "Remove settings that ask for protection that is not available; docs/security.md lists what is protected."


def broken_promise(name: str, text: str) -> str | None:
    """The reason to reject this setting, independent of others; None if it is allowed."""
    if name in _AUTHORIZER_KEYS:
        return None if promises_nothing(name, text) else NO_AUTHORIZER
    definition = definition_of(name)
    if definition is None or definition.name not in BROKER:
        return None
    rule = effect_on_broker(definition.name)
    if rule.effect is not Effect.REFUSED or definition.read(text) == definition.default:
        return None
    return rule.note


def promises_nothing(name: str, text: str) -> bool:
    """True for an empty list of super users, which many server.properties have: it grants nothing."""
    return name == _SUPER_USERS and not text.strip()


def check_protection(config: BrokerConfig, before: BrokerConfig | None = None) -> None:
    """Raises ConfigError if settings that are fine one by one promise protection that is not there, and did not do so
    `before` a change."""
    known = [] if before is None else list(_broken_promises(before))
    problem = next((each for each in _broken_promises(config) if each not in known), None)
    if problem is not None:
        raise ConfigError(problem)


def _broken_promises(config: BrokerConfig) -> Iterator[str]:
    yield from _keys_of_no_listener(config)
    yield from _missing_client_certificates(config)
    yield from _limits_of_host_names(config)


def _keys_of_no_listener(config: BrokerConfig) -> Iterator[str]:
    bound = {each.listener for each in config.listeners.bound}
    for name in config.settings:
        listener = listener_of(name)
        if listener is None or base_of(name) not in _RESTRICTIONS:
            continue
        if listener not in bound:
            yield f"{name}: there is no listener {listener}, so nothing would be restricted; check its name"
        elif not name.startswith(f"{LISTENER_PREFIX}{listener.lower()}."):
            right = f"{LISTENER_PREFIX}{listener.lower()}.{base_of(name)}"
            yield f"{name} would have no effect: the listener's name is in lower case there, as in {right}"


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
                f"{name}={text}: {listener} does not use TLS, so that no client would be asked for a "
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
