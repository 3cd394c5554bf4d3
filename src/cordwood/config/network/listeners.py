"""`listeners`, `advertised.listeners` and `listener.security.protocol.map`: endpoints, checked as Kafka checks them."""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from cordwood.config.effects import NO_SASL
from cordwood.config.errors import ConfigError
from cordwood.runtime.network import Address


class SecurityProtocol(IntEnum):
    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


# Wildcard addresses: valid to listen on, but not to connect to.
_EVERY_ADDRESS = frozenset({"0.0.0.0", "::"})
_SASL = frozenset({SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL})


@dataclass(frozen=True, slots=True)
class Endpoint:
    # In upper case.
    listener: str
    # None means every address of the machine.
    host: str | None
    # 0 means any free port.
    port: int
    protocol: SecurityProtocol

    def __str__(self) -> str:
        host = f"[{self.host}]" if self.host and ":" in self.host else self.host or ""
        return f"{self.listener}://{host}:{self.port}"


ProtocolMap = Mapping[str, SecurityProtocol]


def parse_protocol_map(text: str) -> dict[str, SecurityProtocol]:
    """Parses `INNER:PLAINTEXT,OUTER:SSL`: listener to protocol."""
    key = "listener.security.protocol.map"
    protocols = {}
    for entry in re.split(r"\s*,\s*", text.strip()):
        if not entry:
            continue
        listener, colon, name = entry.rpartition(":")
        if not colon:
            raise ConfigError(f"Error parsing configuration property '{key}': {entry!r} is not listener:protocol")
        try:
            protocols[listener.strip().upper()] = SecurityProtocol[name.strip().upper()]
        except KeyError:
            raise ConfigError(f"Invalid security protocol `{name.strip()}` defined in {key}") from None
    return protocols


def parse_endpoints(
    entries: Sequence[str], protocols: ProtocolMap, *, distinct_ports: bool = True
) -> tuple[Endpoint, ...]:
    """Parses `NAME://host:port` entries. IPv6 addresses are in brackets; no host means every address; port 0 any free
    port."""
    listed = f"[{', '.join(entries)}]"
    try:
        endpoints = tuple(_parse_endpoint(entry, protocols) for entry in entries)
        if len({endpoint.listener for endpoint in endpoints}) != len(endpoints):
            raise ConfigError(f"Each listener must have a different name, listeners: {listed}")
        if distinct_ports:
            _check_ports(endpoints, listed)
    except ConfigError as error:
        raise ConfigError(f"Error creating broker listeners from '{listed}': {error.message}") from None
    return endpoints


_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")


def _parse_endpoint(entry: str, protocols: ProtocolMap) -> Endpoint:
    parts = _ENDPOINT.fullmatch(entry.strip())
    if not parts:
        raise ConfigError(f"Unable to parse {entry} to a broker endpoint")
    listener, host, port = parts[1].upper(), parts[2], int(parts[3])
    if not 0 <= port <= 65535:
        raise ConfigError(f"Unable to parse {entry} to a broker endpoint; a port is 0 to 65535")
    if listener not in protocols:
        raise ConfigError(
            f"No security protocol defined for listener {listener}: add {listener}:PLAINTEXT or {listener}:SSL to "
            "listener.security.protocol.map"
        )
    return Endpoint(listener, host or None, port, protocols[listener])


def _check_ports(endpoints: Sequence[Endpoint], listed: str) -> None:
    """Allows two listeners to share a port only if one has an IPv4 address and the other an IPv6 address."""
    by_port: dict[int, list[Endpoint]] = defaultdict(list)
    for endpoint in endpoints:
        if endpoint.port != 0:
            by_port[endpoint.port].append(endpoint)
    for port, sharing in by_port.items():
        if len(sharing) == 1:
            continue
        versions = sorted(_ip_version(endpoint.host) for endpoint in sharing)
        if versions.count(0) > 1:
            raise ConfigError(f"Each listener must have a different port, listeners: {listed}")
        if len(sharing) > 2 and 0 not in versions:
            raise ConfigError(
                "Each listener must have a different port unless exactly one listener has an IPv4 address and the "
                f"other IPv6 address, listeners: {listed}, port: {port}"
            )
        if versions != [4, 6]:
            raise ConfigError(
                "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6, "
                f"listeners: {listed}, port: {port}"
            )


def _ip_version(host: str | None) -> int:
    """Returns 4, 6, or 0 for a host name."""
    try:
        return ipaddress.ip_address(host or "").version
    except ValueError:
        return 0


@dataclass(frozen=True, slots=True)
class Listeners:
    """All endpoints of a node."""

    bound: tuple[Endpoint, ...]
    # The endpoints that clients and other brokers connect to.
    advertised: tuple[Endpoint, ...]
    controllers: tuple[str, ...]
    inter_broker: str
    # Protocols of these listeners, and of others in the map.
    protocols: ProtocolMap
    # The address of this node in controller.quorum.voters.
    own_voter: Address | None = None

    @property
    def broker_endpoints(self) -> tuple[Endpoint, ...]:
        """The endpoints for clients."""
        return tuple(endpoint for endpoint in self.bound if endpoint.listener not in self.controllers)

    @property
    def controller_endpoints(self) -> tuple[Endpoint, ...]:
        return tuple(endpoint for endpoint in self.bound if endpoint.listener in self.controllers)

    @property
    def advertised_brokers(self) -> tuple[Endpoint, ...]:
        return tuple(endpoint for endpoint in self.advertised if endpoint.listener not in self.controllers)

    @property
    def advertised_controllers(self) -> tuple[Endpoint, ...]:
        """The advertised endpoints of the controller listeners, in the order of `controller.listener.names`."""
        reached = {endpoint.listener: self._reached(endpoint) for endpoint in self.controller_endpoints}
        reached |= {endpoint.listener: endpoint for endpoint in self._explicitly_advertised}
        return tuple(reached[name] for name in self.controllers if name in reached)

    @property
    def _explicitly_advertised(self) -> tuple[Endpoint, ...]:
        return () if self.advertised is self.bound else self.advertised

    def _reached(self, endpoint: Endpoint) -> Endpoint:
        """Falls back to the listening address of a controller listener that isn't advertised. The first one without a
        host has the address in controller.quorum.voters."""
        if endpoint.host not in (None, *_EVERY_ADDRESS):
            return endpoint
        if self.own_voter is not None and endpoint.listener == self.controllers[0]:
            return replace(endpoint, host=self.own_voter.host, port=self.own_voter.port)
        return replace(endpoint, host=None)


def effective_protocols(
    protocols: ProtocolMap, *, is_default: bool, controllers: Sequence[str], listeners: Sequence[str]
) -> ProtocolMap:
    """With the default map, controller listeners are PLAINTEXT, unless TLS or SASL is in use anywhere."""
    names = {*controllers, *(entry.partition(":")[0].strip().upper() for entry in listeners)}
    if not is_default or names & {"SSL", "SASL_SSL", "SASL_PLAINTEXT"}:
        return protocols
    return {**protocols, **dict.fromkeys(controllers, SecurityProtocol.PLAINTEXT)}


def check_listeners(listeners: Listeners, roles: Sequence[str]) -> None:
    _refuse_sasl(listeners)
    bound = {endpoint.listener for endpoint in listeners.bound}
    if "controller" in roles:
        _check_controller(listeners, bound, alone="broker" not in roles)
    if "broker" in roles:
        _check_broker(listeners, bound, alone="controller" not in roles)
    for endpoint in (*listeners.advertised_brokers, *listeners.advertised_controllers):
        if endpoint.host in _EVERY_ADDRESS:
            example = f"{endpoint.listener}://broker1.example.com:{endpoint.port or 9092}"
            raise ConfigError(
                f"advertised.listeners cannot use the nonroutable meta-address {endpoint.host}. Use a routable IP "
                f"address or a host name that clients can connect to, for example advertised.listeners={example}"
            )


def _refuse_sasl(listeners: Listeners) -> None:
    """Refuses listeners with a SASL protocol. The map may contain SASL protocols: Kafka's own files have all four."""
    used = {listeners.inter_broker: "inter.broker.listener.name or security.inter.broker.protocol"}
    used |= dict.fromkeys(listeners.controllers, "controller.listener.names")
    used |= {each.listener: "advertised.listeners" for each in listeners.advertised}
    used |= {each.listener: "listeners" for each in listeners.bound}
    for name, key in used.items():
        protocol = listeners.protocols.get(name)
        if protocol in _SASL:
            mapped = "" if name == protocol.name else f", which listener.security.protocol.map maps to {protocol.name}"
            raise ConfigError(
                f"{key}: {name}{mapped}: {NO_SASL}. "
                "Use PLAINTEXT, or SSL with ssl.client.auth=required (see docs/security.md)."
            )


def _check_controller(listeners: Listeners, bound: set[str], *, alone: bool) -> None:
    if alone and listeners.broker_endpoints:
        raise ConfigError(
            "The listeners config must only contain KRaft controller listeners from controller.listener.names when "
            "process.roles=controller"
        )
    if not listeners.advertised_controllers:
        raise ConfigError(
            "controller.listener.names must contain at least one value appearing in the 'listeners' configuration "
            "when running the KRaft controller role"
        )
    if not bound.issuperset(listeners.controllers):
        raise ConfigError(
            "controller.listener.names must only contain values appearing in the 'listeners' configuration when "
            "running the KRaft controller role"
        )


def _check_broker(listeners: Listeners, bound: set[str], *, alone: bool) -> None:
    if alone:
        _check_way_to_controllers(listeners)
    advertised = [endpoint.listener for endpoint in listeners.advertised_brokers]
    if not advertised:
        raise ConfigError(
            "There must be at least one broker advertised listener. Perhaps all listeners appear in "
            "controller.listener.names?"
        )
    if listeners.inter_broker not in advertised:
        raise ConfigError(
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options "
            f"based on currently configured listeners are {','.join(advertised)}"
        )
    if not bound.issuperset(advertised):
        raise ConfigError(
            "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. "
            f"Found {','.join(advertised)}. The valid options based on the current configuration are "
            f"{','.join(sorted(bound))}"
        )


def _check_way_to_controllers(listeners: Listeners) -> None:
    """A broker without the controller role connects to controller listeners, and has none itself."""
    if listeners.controller_endpoints:
        raise ConfigError(
            "controller.listener.names must not contain a value appearing in the 'listeners' configuration when "
            "running KRaft with just the broker role"
        )
    for name in listeners.controllers:
        if name not in listeners.protocols:
            raise ConfigError(
                f"Controller listener with name {name} defined in controller.listener.names not found in "
                "listener.security.protocol.map (an explicit security mapping for each controller listener is "
                "required if listener.security.protocol.map is non-empty, or if there are security protocols other "
                f"than PLAINTEXT in use): add {name}:PLAINTEXT or {name}:SSL to the map, as the controllers have it"
            )
