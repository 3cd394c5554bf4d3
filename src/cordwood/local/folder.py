"""A cluster's folder: below it, each node has a folder with its server.properties and its formatted log directory.

    DATA/node-1/server.properties
    DATA/node-1/data/meta.properties

Any of them can be started alone, with `cordwood up --config DATA/node-1/server.properties` or by Apache Kafka.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from cordwood.broker.start.formatting import Formatting, format_node
from cordwood.broker.start.standalone import DEFAULT_HOST, DEFAULT_PORT
from cordwood.config.broker import BrokerConfig
from cordwood.config.layers import Layer, file_layer
from cordwood.config.properties import parse_properties
from cordwood.config.quorum import InitialController
from cordwood.log.checkpoints.formats import META_PROPERTIES
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.files.local_disk import LocalDisk
from cordwood.runtime.network import Address, CannotListen
from cordwood.runtime.randomness import SeededRandom, new_uuid
from cordwood.runtime.sockets import listen_problem
from cordwood.runtime.transport.socket_connection import reason_of
from cordwood.wire.primitives import uuid_text

from .layout import Layout, Member, settings_of
from .places import data_of, found_properties, properties_of


class BadFolder(Exception):
    """The folder does not belong to this cluster; the text says why."""


class ClusterFolder:
    """`members` are its nodes, in the order of their ids, brokers first; all listen on `host`."""

    def __init__(self, root: Path, host: str, members: Sequence[Member]) -> None:
        self.root = root
        self.host = host
        self.members = tuple(members)

    @classmethod
    def open_or_create(
        cls, root: Path, layout: Layout, host: str | None = None, first_port: int | None = None
    ) -> ClusterFolder:
        """The cluster that is there, with its host and ports, or a new one; `first_port=0` takes free ones. Raises
        BadFolder, also if the cluster has another host or port than those given, and CannotListen."""
        root = root.absolute()
        existing = found_properties(root)
        if existing:
            folder = cls(root, *_read(root, existing, layout))
            folder._check_listeners(host, first_port)
            folder._check_data()
            return folder
        held = _held(root)
        if held:
            raise BadFolder(
                f"{root} is not empty and holds no cluster of cordwood up --brokers (it holds {', '.join(held[:5])}). "
                "Nothing was written. Give --data a new or an empty directory"
            )
        host, first_port = host or DEFAULT_HOST, DEFAULT_PORT if first_port is None else first_port
        members = layout.members(first_port)
        wanted = [port for member in members for port in (member.broker_port, member.controller_port) if port]
        ports = _bindable_ports(host, wanted if first_port else [0] * layout.ports_needed)
        folder = cls(root, host, members if first_port else layout.members_at(ports))
        folder._create(layout, host)
        return folder

    def file(self, member: Member) -> Path:
        return properties_of(self.root, member.id)

    def data(self, member: Member) -> Path:
        return data_of(self.root, member.id)

    def layers(self, member: Member) -> list[Layer]:
        """The settings of a node. The folder may have been moved since they were written."""
        file = self.file(member)
        return [
            file_layer(file.read_text(encoding="utf-8"), str(file)),
            Layer(str(file), {"log.dirs": str(self.data(member))}),
        ]

    def _check_listeners(self, host: str | None, first_port: int | None) -> None:
        """The controllers know each other by these ports, so they stay the same."""
        first = self.members[0].broker_port
        if host not in (None, self.host) or first_port not in (None, 0, first):
            raise BadFolder(
                f"{self.root} holds a cluster that listens on {Address(self.host, first)} and other ports: leave out "
                "--host and --port, or give another --data"
            )

    def _check_data(self) -> None:
        """A node that has lost its data may not start over automatically: as a controller it has promised to keep
        it."""
        kept = {
            member: parse_properties(file.read_text(encoding="utf-8"))
            for member in self.members
            if (file := self.data(member) / META_PROPERTIES).is_file()
        }
        gone = [member for member in self.members if not _held(self.data(member))]
        if not gone:
            return
        named = ", ".join(f"{self.data(member)}" for member in gone)
        if not kept:
            raise BadFolder(f"there is no data in {named}. Restore it from a backup, or give another --data")
        cluster_id = next(iter(kept.values()))["cluster.id"]
        commands = [
            f"\n  cordwood format --config {self.file(member)} --cluster-id {cluster_id}"
            + (" --no-initial-controllers" if member.is_controller else "")
            for member in gone
        ]
        raise BadFolder(
            f"there is no data in {named}, and there was. Restore it, or let its node start over and copy the "
            f"other nodes' partitions:{''.join(commands)}"
        )

    def _create(self, layout: Layout, host: str) -> None:
        random, now_ms = SeededRandom(), SystemClock().now_ms()
        cluster_id = uuid_text(new_uuid(random))
        controllers = [
            InitialController(member.id, Address(host, member.controller_port), new_uuid(random))
            for member in self.members
            if member.is_controller
        ]
        for member in self.members:
            settings = settings_of(member, self.members, layout, host, str(self.data(member)))
            self.file(member).parent.mkdir(parents=True)
            formatting = Formatting(cluster_id, initial_controllers=controllers if member.is_controller else ())
            config = BrokerConfig.from_layers(Layer("the cluster", settings))
            format_node(config, formatting, LocalDisk, random, now_ms, lambda _line: None)
            # Written last: its presence means that the node is formatted.
            lines = [f"{name}={value}\n" for name, value in settings.items()]
            self.file(member).write_text("".join(lines), encoding="utf-8")


def _held(folder: Path) -> list[str]:
    """Hidden files aside: a node that could not start leaves its .lock."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")) if folder.exists() else []


def _read(root: Path, files: Sequence[Path], layout: Layout) -> tuple[str, list[Member]]:
    """The host and the members."""
    host, members = DEFAULT_HOST, []
    for file in files:
        settings = parse_properties(file.read_text(encoding="utf-8"))
        endpoints = re.findall(r"(\w+)://(\S*?):(\d+)(?=,|$)", settings["listeners"])
        ports = {name: int(port) for name, _, port in endpoints}
        host = endpoints[0][1].strip("[]") if endpoints else host
        members.append(
            Member(
                int(settings["node.id"]),
                settings["process.roles"],
                ports.get("PLAINTEXT", 0),
                ports.get("CONTROLLER", 0),
            )
        )
    expected = [(member.id, member.roles) for member in layout.members(1)]
    if [(member.id, member.roles) for member in members] != expected:
        brokers = sum(member.is_broker for member in members)
        controllers = sum(member.is_controller and not member.is_broker for member in members)
        had = f"--brokers {brokers}" + (f" --controllers {controllers}" if controllers else "")
        raise BadFolder(f"{root} holds a cluster that was made with {had}: give the same, or another --data")
    return host, members


def _bindable_ports(host: str, ports: Sequence[int]) -> list[int]:
    """These ports, or free ones in place of 0. All are held until all are known, so that none comes twice. Raises
    CannotListen."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = []
    with ExitStack() as held:
        for port in ports:
            probe = held.enter_context(socket.socket(family))
            # As the node itself binds: connections of an earlier run may not have ended entirely.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
                probe.listen(1)
            except OSError as error:
                raise CannotListen(host, port, reason_of(error), listen_problem(error)) from error
            found.append(probe.getsockname()[1])
    return found
