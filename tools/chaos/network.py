"""The network between the nodes of a run.

With `Namespaces` each node has its own network on a common bridge, and links fail as real ones do: packets vanish.
There is no packet filter on many machines. A permanent neighbour entry with an unused address does the same,
for one direction between two of them. `Loopback` has no links to cut.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

_BRIDGE = "chaos"
_NETWORK = "10.77.0"
_CLIENTS = 254
_NOBODY = "02:00:00:00:ff:ff"
_BROKER_PORT, _CONTROLLER_PORT = 9092, 9093
# A few times less than the load needs.
_SLOW = ("rate", "128kbit", "burst", "16kb", "latency", "400ms")

# Stands for the clients where ends of links are named: node ids are above it.
CLIENTS = 0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node listens, and the command that runs another one there."""

    host: str
    port: int
    controller_port: int
    prefix: tuple[str, ...] = ()


class Network(Protocol):
    has_links: bool

    def place(self, node_id: int) -> Place: ...

    def cut(self, sender: int, receiver: int) -> None:
        """Nothing that `sender` sends reaches `receiver` any more; the other direction stays."""
        ...

    def slow_down(self, node_id: int) -> None:
        """Everything to and from the node, other nodes and clients alike."""
        ...

    def heal(self) -> None:
        """Takes back every cut and every limit."""
        ...


class Loopback:
    """Free ports on 127.0.0.1."""

    has_links = False

    def __init__(self, node_ids: Iterable[int]) -> None:
        ids = list(node_ids)
        probes = [socket.socket() for _ in range(2 * len(ids))]
        try:
            for probe in probes:
                probe.bind(("127.0.0.1", 0))
            ports = [probe.getsockname()[1] for probe in probes]
        finally:
            for probe in probes:
                probe.close()
        self._places = {
            node_id: Place("127.0.0.1", ports[2 * number], ports[2 * number + 1]) for number, node_id in enumerate(ids)
        }

    def place(self, node_id: int) -> Place:
        return self._places[node_id]

    def cut(self, sender: int, receiver: int) -> None:
        raise NotImplementedError(f"no link from {sender} to {receiver}: all nodes are on loopback")

    def slow_down(self, node_id: int) -> None:
        raise NotImplementedError(f"no link of node {node_id}: all nodes are on loopback")

    def heal(self) -> None:
        return


class Namespaces:
    """Needs to be confined (`confinement.py`): what it creates is not taken back."""

    has_links = True

    def __init__(self, node_ids: Iterable[int]) -> None:
        self._ends = [CLIENTS, *node_ids]
        self._is_slow: set[int] = set()
        self._is_cut: set[tuple[int, int]] = set()
        _run("mount", "-t", "tmpfs", "tmpfs", "/run")
        _run("mkdir", "/run/netns")
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", _BRIDGE, "type", "bridge")
        _run("ip", "link", "set", _BRIDGE, "address", _hardware(CLIENTS))
        _run("ip", "address", "add", f"{_address(CLIENTS)}/24", "dev", _BRIDGE)
        _run("ip", "link", "set", _BRIDGE, "up")
        for end in self._ends[1:]:
            _run("ip", "netns", "add", _name(end))
            _run("ip", "link", "add", _port(end), "type", "veth", "peer", "name", "eth0", "netns", _name(end))
            _run("ip", "link", "set", _port(end), "master", _BRIDGE, "up")
            _run("ip", "-n", _name(end), "link", "set", "lo", "up")
            _run("ip", "-n", _name(end), "link", "set", "eth0", "address", _hardware(end), "up")
            _run("ip", "-n", _name(end), "address", "add", f"{_address(end)}/24", "dev", "eth0")
        for sender in self._ends:
            for receiver in self._ends:
                if sender != receiver:
                    self._point(sender, receiver, _hardware(receiver))

    def place(self, node_id: int) -> Place:
        prefix = ("ip", "netns", "exec", _name(node_id))
        return Place(_address(node_id), _BROKER_PORT, _CONTROLLER_PORT, prefix)

    def cut(self, sender: int, receiver: int) -> None:
        self._is_cut.add((sender, receiver))
        self._point(sender, receiver, _NOBODY)

    def slow_down(self, node_id: int) -> None:
        self._is_slow.add(node_id)
        _run("tc", "qdisc", "add", "dev", _port(node_id), "root", "tbf", *_SLOW)
        _run("tc", "-n", _name(node_id), "qdisc", "add", "dev", "eth0", "root", "tbf", *_SLOW)

    def heal(self) -> None:
        for sender, receiver in self._is_cut:
            self._point(sender, receiver, _hardware(receiver))
        self._is_cut.clear()
        for node_id in self._is_slow:
            _run("tc", "qdisc", "del", "dev", _port(node_id), "root")
            _run("tc", "-n", _name(node_id), "qdisc", "del", "dev", "eth0", "root")
        self._is_slow.clear()

    def _point(self, sender: int, receiver: int, hardware: str) -> None:
        where = [] if sender == CLIENTS else ["-n", _name(sender)]
        device = _BRIDGE if sender == CLIENTS else "eth0"
        _run(
            *("ip", *where, "neighbour", "replace", _address(receiver), "lladdr", hardware),
            *("dev", device, "nud", "permanent"),
        )


def _name(end: int) -> str:
    return f"node{end}"


def _port(end: int) -> str:
    return f"port{end}"


def _address(end: int) -> str:
    return f"{_NETWORK}.{end or _CLIENTS}"


def _hardware(end: int) -> str:
    return f"02:00:00:00:00:{end or _CLIENTS:02x}"


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
