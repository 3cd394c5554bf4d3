"""The nodes of a cluster on one machine, and the settings of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FIRST_CONTROLLER_ID = 101
# From a combined node's port for clients to that of its controller listener.
CONTROLLER_PORT_OFFSET = 100
_MOST_VOTERS = 3
_BROKER, _CONTROLLER, _BOTH = "broker", "controller", "broker,controller"


@dataclass(frozen=True, slots=True)
class Member:
    """A node of the cluster. A port is 0 if the node lacks the role."""

    id: int
    roles: str
    broker_port: int
    controller_port: int

    @property
    def is_broker(self) -> bool:
        return _BROKER in self.roles

    @property
    def is_controller(self) -> bool:
        return _CONTROLLER in self.roles

    @property
    def stop_stage(self) -> int:
        """Brokers stop first, and all at once. Controllers stop one after the other: as long as most of them are there,
        a broker can hand its partitions over."""
        return self.id if self.is_controller else 0


@dataclass(frozen=True, slots=True)
class Layout:
    """`controllers=0`: the brokers are controllers too, the first three of them, or the first one of two."""

    brokers: int
    controllers: int = 0

    @property
    def ports_needed(self) -> int:
        return sum(member.is_broker + member.is_controller for member in self.members(1))

    def members(self, first_port: int) -> list[Member]:
        """Assigns ports from `first_port` on for clients, and from `first_port` + 100 on for controllers."""
        combined = 0 if self.controllers else _MOST_VOTERS if self.brokers >= _MOST_VOTERS else 1
        members = []
        for number in range(self.brokers):
            port = first_port + number
            is_both = number < combined
            controller_port = port + CONTROLLER_PORT_OFFSET if is_both else 0
            members.append(Member(number + 1, _BOTH if is_both else _BROKER, port, controller_port))
        for number in range(self.controllers):
            port = first_port + CONTROLLER_PORT_OFFSET + number
            members.append(Member(FIRST_CONTROLLER_ID + number, _CONTROLLER, 0, port))
        return members

    def members_at(self, ports: Sequence[int]) -> list[Member]:
        """As `members`, at those ports."""
        remaining = iter(ports)
        return [
            Member(
                member.id,
                member.roles,
                next(remaining) if member.is_broker else 0,
                next(remaining) if member.is_controller else 0,
            )
            for member in self.members(1)
        ]

    @property
    def replication_factor(self) -> int:
        """The replication factor of new and internal topics: Kafka's 3, or the number of brokers if lower."""
        return min(3, self.brokers)


def settings_of(member: Member, members: Sequence[Member], layout: Layout, host: str, log_dir: str) -> dict[str, str]:
    """The member's server.properties: each broker is its own rack, so that replicas are spread over all."""
    shown = f"[{host}]" if ":" in host else host
    listeners = [f"PLAINTEXT://{shown}:{member.broker_port}"] if member.is_broker else []
    if member.is_controller:
        listeners.append(f"CONTROLLER://{shown}:{member.controller_port}")
    servers = ",".join(f"{shown}:{each.controller_port}" for each in members if each.is_controller)
    replicas, in_sync = layout.replication_factor, 2 if layout.replication_factor >= 3 else 1
    settings = {
        "process.roles": member.roles,
        "node.id": str(member.id),
        "listeners": ",".join(listeners),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "controller.quorum.bootstrap.servers": servers,
        # On one machine votes arrive at once; with the default of 1000 an election alone takes longer than a start.
        "controller.quorum.election.timeout.ms": "300",
        "controller.quorum.election.backoff.max.ms": "200",
        "log.dirs": log_dir,
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(in_sync),
    }
    if member.is_broker:
        settings["broker.rack"] = f"rack-{member.id}"
    return settings
