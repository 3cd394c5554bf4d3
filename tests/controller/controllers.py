"""A controller of one voter in virtual time, without a broker or a network."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from cordwood.broker.start.standalone import standalone_config
from cordwood.config.layers import Layer
from cordwood.controller.controller import Controller
from cordwood.controller.handlers import HANDLERS
from cordwood.controller.local_channel import LocalChannel
from cordwood.metadata.bootstrap import first_voter, format_directory, read_bootstrap
from cordwood.metadata.features import SUPPORTED
from cordwood.metadata.node_config import NodeConfig
from cordwood.metadata.storage.disk_log import DiskLog, MetadataLogConfig
from cordwood.net.api import served_versions
from cordwood.quorum.member import Member
from cordwood.quorum.peers import PeerConnections
from cordwood.raft.config import QuorumConfig
from cordwood.raft.identity import Endpoint, ReplicaKey, VersionRange
from cordwood.raft.replica import ReplicaConfig
from cordwood.raft.voters import VoterNode, VoterSet
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.virtual.disk import SimDisk
from cordwood.sim.world import World
from cordwood.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener

T = TypeVar("T")
DIRECTORY = b"\xd0" * 16


class Stage:
    def __init__(self, world: World, disk: SimDisk) -> None:
        self.failures: list[Exception] = []
        self.disk = disk
        now_ms = world.clock.now_ms()
        self.log = DiskLog.open(disk, MetadataLogConfig(), SeededRandom(1), now_ms=now_ms)
        self.loader = self.log.newest_image()
        endpoints = {"CONTROLLER": Endpoint("localhost", 9093)}
        self.quorum = Member(
            ReplicaConfig(
                "a cluster", VoterNode(ReplicaKey(1, DIRECTORY), endpoints, VersionRange(0, 1)), "CONTROLLER", []
            ),
            self.log,
            self.loader.image.covers.offset,
            VoterSet(),
            PeerConnections(1, QuorumConfig(), None, world.network.host("controller-1"), SeededRandom(1)),
            world.clock,
            SeededRandom(1),
            self.failures.append,
        )
        self.quorum.on_commit(self.loader.committed)
        self.quorum.on_snapshot(self.loader.install)
        config = standalone_config(Layer("test", {"log.dirs": "/data"}))
        node_config = NodeConfig(config, self.loader.image)
        self.loader.subscribe(node_config)
        self.controller = Controller(
            "a cluster",
            node_config,
            self.quorum,
            self.loader,
            world.clock,
            SeededRandom(2),
            served_versions(HANDLERS),
            lambda: read_bootstrap(disk),
        )
        self.channel = LocalChannel(self.controller)
        self.quorum.start()

    async def settle(self) -> None:
        """Returns when everything that was appended is committed."""
        if not self.failures:
            await self.quorum.caught_up()
        while self.quorum.high_watermark < self.quorum.end_offset and not self.failures:
            await asyncio.sleep(0.001)

    async def register_broker(self) -> int:
        registered = await self.channel.ask(
            BrokerRegistrationRequest(
                broker_id=1,
                cluster_id="a cluster",
                incarnation_id=b"\x01" * 16,
                listeners=[Listener(name="PLAINTEXT", host="localhost", port=9092, security_protocol=0)],
                features=[
                    Feature(name=name, min_supported_version=levels.low, max_supported_version=levels.high)
                    for name, levels in SUPPORTED.items()
                ],
                log_dirs=[DIRECTORY],
            )
        )
        assert not registered.error_code
        epoch: int = registered.broker_epoch
        return epoch


def on_stage(
    test: Callable[[Stage], Awaitable[T]],
    *,
    again: Callable[[Stage], Awaitable[None]] | None = None,
    prepare: Callable[[SimDisk, int], None] = lambda _disk, _now_ms: None,
) -> None:
    """`prepare` gets the formatted disk, `again` the stage after a restart."""
    world = World(1, limit_s=1_000)
    disk = SimDisk(world.random("disk"), root="/data", now_ms=world.clock.now_ms)
    voter = first_voter(1, DIRECTORY, {"CONTROLLER": Endpoint("localhost", 9093)})
    format_directory(disk, VoterSet([voter]), now_ms=world.clock.now_ms())
    prepare(disk, world.clock.now_ms())

    async def main() -> None:
        stage = Stage(world, disk)
        await stage.settle()
        await test(stage)
        await stage.quorum.finish()
        if again is not None:
            stage.quorum.close()
            restarted = Stage(world, disk.restart(power_lost=True))
            await restarted.settle()
            await again(restarted)
        # Callbacks that are due run before the world ends.
        await asyncio.sleep(0)

    world.run(main())
