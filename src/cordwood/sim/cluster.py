"""Several machines in one world that form a cluster: formatted as `kafka-storage format` does it, and started.

cluster = Cluster(world, Layout(controllers=3, brokers=3, is_combined=True), settings={})
await cluster.start()
cluster.controllers, cluster.brokers        # the machines that have each role
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from cordwood.config.broker import BrokerConfig
from cordwood.config.layers import Layer
from cordwood.log.checkpoints.formats import META_PROPERTIES, MetaProperties
from cordwood.metadata.bootstrap import BOOTSTRAP_CHECKPOINT
from cordwood.metadata.features import BOOTSTRAP_LEVELS, KRAFT_VERSION, SUPPORTED
from cordwood.metadata.image import METADATA_VERSION, OffsetAndEpoch
from cordwood.metadata.storage.disk_log import METADATA_DIRECTORY
from cordwood.metadata.storage.snapshot import CONFIGURED_VOTERS, QuorumVoters, encode_snapshot, snapshot_name
from cordwood.raft.identity import Endpoint, ReplicaKey, VersionRange
from cordwood.raft.voters import VoterNode, VoterSet
from cordwood.runtime.disk import Disk
from cordwood.runtime.randomness import SeededRandom, new_uuid
from cordwood.sim.virtual.disk import SimDisk
from cordwood.wire.messages.metadata_records.feature_level_record import FeatureLevelRecord
from cordwood.wire.primitives import Uuid, uuid_text
from cordwood.wire.schema import MetadataRecord

from .machine import PORT, Machine
from .world import World

CONTROLLER_PORT = 9093
CONTROLLER_LISTENER = "CONTROLLER"
# The ids of nodes with the controller role only.
_FIRST_CONTROLLER_ID = 11
_FIRST_SPARE_ID = 21
_ROOT = "/data"


@dataclass(frozen=True, slots=True)
class Layout:
    """Which nodes a cluster has. Combined nodes have both roles, as far as there are as many of each."""

    controllers: int = 3
    brokers: int = 3
    is_combined: bool = True
    # controller.quorum.voters instead of voters in the metadata log.
    is_static: bool = False
    # Controllers that aren't voters until they are added.
    spares: int = 0
    # controller.quorum.auto.join.enable: they add themselves, and come back when they are removed.
    joins_by_itself: bool = False

    @property
    def roles(self) -> dict[int, str]:
        """The roles of each node, by its id."""
        both = min(self.controllers, self.brokers) if self.is_combined else 0
        roles = dict.fromkeys(range(1, both + 1), "broker,controller")
        roles |= dict.fromkeys(range(both + 1, self.brokers + 1), "broker")
        roles |= {_FIRST_CONTROLLER_ID + number: "controller" for number in range(self.controllers - both)}
        return roles | {_FIRST_SPARE_ID + number: "controller" for number in range(self.spares)}

    def __str__(self) -> str:
        kind = "combined" if self.is_combined else "separate"
        voters = "static" if self.is_static else "dynamic"
        return f"{self.controllers} controllers, {self.brokers} brokers, {kind}, {voters} voters"


class Cluster:
    """`machines` by node id. All of them are formatted, and none has been started."""

    def __init__(
        self,
        world: World,
        layout: Layout,
        settings: Mapping[str, str],
        levels: Mapping[str, int] = BOOTSTRAP_LEVELS,
    ) -> None:
        """`levels` are the features that the cluster begins with."""
        self.world = world
        self.layout = layout
        self.settings = settings
        self._levels = levels
        self._random = SeededRandom(world.random("formatting").getrandbits(63))
        self.cluster_id = uuid_text(new_uuid(self._random))
        self.machines: dict[int, Machine] = {}
        self.directory_ids = {node_id: new_uuid(self._random) for node_id in layout.roles}
        self._contacts = [node_id for node_id, roles in layout.roles.items() if "controller" in roles]
        self._initial = VoterSet(
            _voter(node_id, self.directory_ids[node_id]) for node_id in self._contacts if node_id < _FIRST_SPARE_ID
        )
        for node_id, roles in layout.roles.items():
            config = self._config(node_id, roles)
            roots = tuple(dict.fromkeys((config.metadata_log_dir, *config.log_dirs)))
            machine = Machine(world, host_of(node_id), {}, roots, config=config)
            self.machines[node_id] = machine
            self._format(node_id, machine.disks[config.metadata_log_dir])
            for root in roots:
                if root != config.metadata_log_dir:
                    meta = MetaProperties(self.cluster_id, node_id, new_uuid(self._random))
                    machine.disks[root].write_file(META_PROPERTIES, meta.encode(world.clock.now_ms()))

    @property
    def controllers(self) -> dict[int, Machine]:
        return self._with_role("controller")

    @property
    def brokers(self) -> dict[int, Machine]:
        return self._with_role("broker")

    def _with_role(self, role: str) -> dict[int, Machine]:
        return {
            node_id: machine
            for node_id, machine in self.machines.items()
            if role in machine.config.items("process.roles")
        }

    def wipe(self, node_id: int) -> None:
        """A machine that is down gets an empty disk. Its metadata log, if it votes, is on another one and stays."""
        machine = self.machines[node_id]
        kept = {} if node_id not in self._contacts else _votes(machine.disks[_ROOT])
        disk = machine.replace_disk(_ROOT)
        if not kept:
            self.directory_ids[node_id] = new_uuid(self._random)
            self._format(node_id, disk)
            return
        disk.make_directory(METADATA_DIRECTORY)
        for path, content in kept.items():
            disk.write_file(path, content)

    async def start(self) -> None:
        """Starts all nodes, which need each other for it, and returns when all of them have started."""
        started = await asyncio.gather(*(machine.start() for machine in self.machines.values()))
        assert all(started), "nothing keeps them from starting"

    def _config(self, node_id: int, roles: str) -> BrokerConfig:
        listeners = []
        if "broker" in roles:
            listeners.append(f"PLAINTEXT://{host_of(node_id)}:{PORT}")
        if "controller" in roles:
            listeners.append(f"{CONTROLLER_LISTENER}://{host_of(node_id)}:{CONTROLLER_PORT}")
        contacts = {node_id: f"{host_of(node_id)}:{CONTROLLER_PORT}" for node_id in self._contacts}
        quorum = (
            {"controller.quorum.voters": ",".join(f"{voter}@{contact}" for voter, contact in contacts.items())}
            if self.layout.is_static
            else {"controller.quorum.bootstrap.servers": ",".join(contacts.values())}
        )
        if self.layout.joins_by_itself and "controller" in roles:
            quorum["controller.quorum.auto.join.enable"] = "true"
        settings = {
            "node.id": str(node_id),
            "process.roles": roles,
            "listeners": ",".join(listeners),
            "controller.listener.names": CONTROLLER_LISTENER,
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{CONTROLLER_LISTENER}:PLAINTEXT",
            "log.dirs": _ROOT,
            **quorum,
            **self.settings,
            **self.settings_of(node_id),
        }
        return BrokerConfig.from_layers(Layer("the simulation", settings))

    def settings_of(self, node_id: int) -> Mapping[str, str]:
        """The settings of one node beside `settings`."""
        return {}

    def _format(self, node_id: int, disk: Disk) -> None:
        now_ms = self.world.clock.now_ms()
        features = [FeatureLevelRecord(name=name, feature_level=level) for name, level in self._levels.items()]
        disk.write_file(BOOTSTRAP_CHECKPOINT, _checkpoint(features, now_ms))
        disk.make_directory(METADATA_DIRECTORY)
        if not self.layout.is_static and node_id in self._initial.ids:
            quorum = QuorumVoters(SUPPORTED[KRAFT_VERSION].high, self._initial.to_record())
            name = snapshot_name(OffsetAndEpoch(0, 0))
            disk.write_file(f"{METADATA_DIRECTORY}/{name}", _checkpoint([], now_ms, quorum))
        meta = MetaProperties(self.cluster_id, node_id, self.directory_ids[node_id])
        disk.write_file(META_PROPERTIES, meta.encode(now_ms))


def _votes(disk: SimDisk) -> dict[str, bytes]:
    """The files that a voter must not lose."""
    return {
        path: content
        for path, content in disk.files().items()
        if path.startswith(METADATA_DIRECTORY) or path in (META_PROPERTIES, BOOTSTRAP_CHECKPOINT)
    }


def host_of(node_id: int) -> str:
    return f"node{node_id}"


def _voter(node_id: int, directory_id: Uuid) -> VoterNode:
    levels = SUPPORTED[KRAFT_VERSION]
    endpoints = {CONTROLLER_LISTENER: Endpoint(host_of(node_id), CONTROLLER_PORT)}
    return VoterNode(ReplicaKey(node_id, directory_id), endpoints, VersionRange(levels.low, levels.high))


def _checkpoint(
    records: list[MetadataRecord] | list[FeatureLevelRecord], now_ms: int, quorum: QuorumVoters = CONFIGURED_VOTERS
) -> bytes:
    return encode_snapshot(
        records,
        metadata_version=BOOTSTRAP_LEVELS[METADATA_VERSION],
        epoch=0,
        last_timestamp_ms=0,
        now_ms=now_ms,
        quorum=quorum,
    )
