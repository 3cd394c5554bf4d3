"""The addresses at which a node finds the metadata quorum: `controller.quorum.voters` or
`controller.quorum.bootstrap.servers`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from cordwood.config.errors import ConfigError
from cordwood.runtime.network import Address
from cordwood.wire.primitives import Uuid, uuid_from_text

_EVERY_ADDRESS = frozenset({"0.0.0.0", "::"})
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class QuorumSettings:
    """The controllers that the configuration names. Timeouts and sizes are in `raft.config.QuorumConfig`.

    Kafka allows both keys to be set; the voters then come from `controller.quorum.voters`.
    """

    # In the order of their ids. Empty with a dynamic quorum, whose voters are in the metadata log (KIP-853).
    static_voters: Mapping[int, Address]
    bootstrap_servers: tuple[Address, ...]
    # The listener through which controllers are reached: the first of `controller.listener.names`, in upper case.
    listener: str

    @property
    def is_static(self) -> bool:
        return bool(self.static_voters)

    def names_only(self, node_id: int, reached_at: Collection[Address]) -> bool:
        """True if no other node is named: all voters and bootstrap servers are this one, whose controller listeners
        are reached at those addresses. A listener with port 0 has an unpredictable port."""
        ports = {address.port for address in reached_at}
        hosts = {address.host for address in reached_at} | _LOOPBACK
        return self.static_voters.keys() <= {node_id} and all(
            server.host in hosts and (server.port in ports or 0 in ports) for server in self.bootstrap_servers
        )

    @property
    def contacts(self) -> tuple[Address, ...]:
        """The addresses to ask for the leader while it isn't known."""
        return self.bootstrap_servers or tuple(self.static_voters.values())


def parse_voters(entries: Sequence[str]) -> dict[int, Address]:
    """Parses `id@host:port` entries, whose form has been checked. The last of two entries with the same id wins, as in
    Kafka. Raises ConfigError for an address that no other node can connect to."""
    voters = {}
    for entry in entries:
        node_id, _, address = entry.partition("@")
        voters[int(node_id)] = parse_address(address)
        if voters[int(node_id)].host in _EVERY_ADDRESS:
            raise ConfigError(
                f"Host string ({voters[int(node_id)].host}) is not routeable: controller.quorum.voters={entry} must "
                f"name an address that other nodes can connect to, for example {node_id}@controller1.example.com:9093"
            )
    return dict(sorted(voters.items()))


def parse_address(entry: str) -> Address:
    """Parses `host:port`, whose form has been checked."""
    host, _, port = entry.rpartition(":")
    return Address(host.strip("[]"), int(port))


@dataclass(frozen=True, slots=True)
class InitialController:
    """A voter that a cluster with a dynamic quorum begins with."""

    node_id: int
    address: Address
    directory_id: Uuid


def parse_initial_controllers(text: str) -> list[InitialController]:
    """Parses `id@host:port:directory-id,…`, the argument of `--initial-controllers`. Raises ConfigError."""
    controllers = [_parse_initial_controller(entry) for entry in text.split(",") if entry.strip()]
    if not controllers:
        raise ConfigError("No voters given.")
    ids = [controller.node_id for controller in controllers]
    for node_id in ids:
        if ids.count(node_id) > 1:
            raise ConfigError(f"Node id {node_id} was specified more than once.")
    return sorted(controllers, key=lambda controller: controller.node_id)


_INITIAL_CONTROLLER = re.compile(r"(\d+)@(?:\[([^]]+)]|([^:\[]+)):(\d+):(.*)")


def _parse_initial_controller(entry: str) -> InitialController:
    expected = "expected id@host:port:directory-id, for example 1@controller1.example.com:9093:JEXY6aqzQY-32P5TStzaFg"
    match = _INITIAL_CONTROLLER.fullmatch(entry.strip())
    if match is None:
        raise ConfigError(f"{entry.strip()}: {expected}")
    node_id, bracketed, host, port, directory = match.groups()
    if int(port) > 65535:
        raise ConfigError(f"Invalid port {port} in dynamic voter string {entry.strip()}: {expected}")
    try:
        directory_id = uuid_from_text(directory)
    except ValueError as error:
        raise ConfigError(f"Failed to parse directory ID in {entry.strip()}: {error}") from error
    return InitialController(int(node_id), Address(bracketed or host, int(port)), directory_id)
