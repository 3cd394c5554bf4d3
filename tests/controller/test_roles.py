"""Nodes with one role or both, and how a broker asks a controller that does not always answer."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Mapping
from itertools import pairwise

from cordwood.broker.controller.channel import ControllerChannel
from cordwood.broker.controller.directory_events import DirectoryEvents
from cordwood.broker.controller.lifecycle import Lifecycle
from cordwood.broker.start.formatting import Formatting, format_node
from cordwood.config.broker import BrokerConfig
from cordwood.config.layers import Layer
from cordwood.console.health import problems
from cordwood.console.metrics import Metrics
from cordwood.log.checkpoints.formats import META_PROPERTIES
from cordwood.metadata.controller.error_response import error_response
from cordwood.metadata.node_config import NodeConfig
from cordwood.net.api import RequestContext
from cordwood.net.peers.channel import Channel
from cordwood.node import Halt, Node
from cordwood.runtime.disk import DiskError
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.machine import Machine
from cordwood.sim.virtual.disk import SimDisk
from cordwood.sim.world import World
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.api_versions import ApiVersionsRequest
from cordwood.wire.messages.broker_registration import BrokerRegistrationRequest
from cordwood.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from cordwood.wire.messages.describe_cluster import DescribeClusterRequest
from cordwood.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from cordwood.wire.messages.produce import ProduceRequest
from cordwood.wire.schema import Request, ResponseT

CONTROLLER_ONLY = {
    "process.roles": "controller",
    "node.id": "3",
    "controller.quorum.bootstrap.servers": "node:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CONTROLLER://node:9093",
    "log.dirs": "/data",
}
BROKER_ONLY = {
    **CONTROLLER_ONLY,
    "process.roles": "broker",
    "controller.quorum.bootstrap.servers": "elsewhere:9093",
    "listeners": "PLAINTEXT://node:9092",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
}


async def start(world: World, settings: Mapping[str, str], disk: SimDisk | None = None) -> Node:
    config = BrokerConfig.from_layers(Layer("test", settings))
    if disk is None or not disk.exists(META_PROPERTIES):
        disk = disk or SimDisk(world.random("disk"), root="/data", now_ms=world.clock.now_ms)
        formatting = Formatting("test", standalone="controller" in config.items("process.roles"))
        format_node(config, formatting, {"/data": disk}.__getitem__, SeededRandom(1), world.clock.now_ms(), print)
    return await Node.start(
        config,
        network=world.network.host("node"),
        clock=world.clock,
        random=SeededRandom(1),
        open_disk=lambda _root: disk,
    )


def test_a_controller_without_a_broker_has_metrics_and_is_ready() -> None:
    async def main() -> None:
        node = await start(world, CONTROLLER_ONLY)
        metrics = Metrics(world.clock)
        page = await metrics.page(node, with_partitions=True)
        assert b'\ncordwood_connections{listener="CONTROLLER"} 0\n' in page
        assert b"cordwood_topics" not in page
        assert problems(node) == []
        metrics.stop()
        await node.stop()

    world = World(1)
    world.run(main())


def test_a_controller_without_a_broker_serves_its_listener() -> None:
    async def main() -> None:
        node = await start(world, CONTROLLER_ONLY)
        assert node.broker_role is None
        assert node.bootstrap == "node:9093"
        channel = await Channel.open(world.network.host("client"), "node", 9093, client_id="test")
        served = await channel.request(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 4)
        served_keys = {api.api_key for api in served.api_keys}
        assert CreateTopicsRequest.api_key in served_keys
        assert BrokerRegistrationRequest.api_key in served_keys
        assert ProduceRequest.api_key not in served_keys
        assert {feature.name for feature in served.finalized_features} >= {"metadata.version", "kraft.version"}
        asked = RequestTopicData(topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)])
        quorum = await channel.request(DescribeQuorumRequest(topics=[asked]), 2)
        assert quorum.topics[0].partitions[0].leader_id == 3
        cluster = await channel.request(DescribeClusterRequest(endpoint_type=2), 1)
        assert [(each.broker_id, each.port) for each in cluster.brokers] == [(3, 9093)]
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])
        created = await channel.request(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 7)
        assert created.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR, "there are no brokers"
        channel.close()
        await node.stop()

    world = World(1, limit_s=1_000)
    world.run(main())


def test_a_controllers_metadata_survives_a_restart_without_a_broker() -> None:
    async def main() -> None:
        disk = SimDisk(world.random("disk"), root="/data", now_ms=world.clock.now_ms)
        first = await start(world, CONTROLLER_ONLY, disk)
        features = first.controller.image.features
        await first.stop()
        second = await start(world, CONTROLLER_ONLY, disk.restart(power_lost=True))
        assert second.controller.image.features == features
        assert list(second.controller.image.controllers) == [3]
        await second.stop()

    world = World(1, limit_s=1_000)
    world.run(main())


# A controller that is away


class AwayAtFirst:
    """The way to a controller that fails over: the first requests get no answer in time."""

    def __init__(self, channel: ControllerChannel, failures: int) -> None:
        self.asked: list[str] = []
        self.asked_at_s: list[float] = []
        self._channel = channel
        self._failures = failures

    async def ask(self, request: Request[ResponseT], context: RequestContext | None = None) -> ResponseT:
        self.asked.append(type(request).__name__)
        self.asked_at_s.append(asyncio.get_running_loop().time())
        if len(self.asked) <= self._failures:
            return error_response(request, ErrorCode.REQUEST_TIMED_OUT, type(request).stable_versions.high)
        return await self._channel.ask(request, context)


def with_a_failed_directory(failures: int, test: Callable[[DirectoryEvents, AwayAtFirst], Awaitable[None]]) -> None:
    """Runs the test on a node one of whose directories has just failed, and whose controller fails so often."""

    async def main() -> None:
        assert await machine.start()
        node = machine.node
        assert node is not None
        broker = node.broker
        directories = broker.replicas.directories
        config = NodeConfig(node.config, broker.image)
        away = AwayAtFirst(broker.controller, failures)
        loader = node.controller._loader
        fatal: list[Exception] = []
        lifecycle = Lifecycle(config, broker.cluster_id, away, loader, directories, SeededRandom(1), fatal.append)
        lifecycle.epoch = broker.epoch
        events = DirectoryEvents(config, directories, lifecycle, away, "/none", fatal.append, SeededRandom(2))
        await events.joined()
        lost = directories.directories[1]
        events.went_offline(lost, DiskError("/two", "sync", "", "I/O error"))
        await test(events, away)
        while lost.id in broker.image.brokers[1].log_dirs:
            await asyncio.sleep(0.1)
        assert away.asked == ["BrokerHeartbeatRequest"] * (failures + 1)
        assert not fatal
        await events.finish()

    world = World(1, limit_s=1_000)
    machine = Machine(world, "broker", {}, roots=("/one", "/two"))
    world.run(main())


def test_a_failed_directory_is_reported_again_after_pauses_that_double() -> None:
    async def test(_events: DirectoryEvents, away: AwayAtFirst) -> None:
        while len(away.asked) < 9:
            await asyncio.sleep(0.01)
        pauses_s = [after - before for before, after in pairwise(away.asked_at_s)]
        assert 0.016 <= pauses_s[0] <= 0.024
        assert all(before < after for before, after in pairwise(pauses_s[:5]))
        assert all(0.39 <= pause_s <= 0.51 for pause_s in pauses_s[5:])

    with_a_failed_directory(failures=8, test=test)


def test_a_failed_directory_is_reported_to_a_new_controller_without_a_pause() -> None:
    async def test(events: DirectoryEvents, away: AwayAtFirst) -> None:
        while len(away.asked) < 8:
            await asyncio.sleep(0.01)
        before_s = asyncio.get_running_loop().time()
        events.wake()
        while len(away.asked) < 9:
            await asyncio.sleep(0)
        assert away.asked_at_s[-1] - before_s < 0.001

    with_a_failed_directory(failures=8, test=test)


def test_a_start_that_fails_while_it_is_called_off_leaves_no_error_unread() -> None:
    async def main() -> None:
        unread: list[Mapping[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unread.append(context))
        failed = asyncio.Event()

        async def starting() -> None:
            failed.set()
            raise DiskError("/data", "open", "file", "no space")

        called_off = asyncio.create_task(Halt(asyncio.Event()).unless_failed(starting()))
        await failed.wait()
        called_off.cancel()
        await asyncio.wait([called_off])
        assert called_off.cancelled()
        # References to the failed start are dropped with it.
        del called_off
        gc.collect()
        assert not unread

    asyncio.run(main())
