"""Disks that fail: one directory goes offline, the others stay, the cluster is notified, and no remaining data is
lost."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from collections.abc import Awaitable, Callable

import pytest

from cordwood.broker.start.log_dirs import CannotStart
from cordwood.broker.start.standalone import standalone_config
from cordwood.config.layers import Layer
from cordwood.metadata.image import NO_LEADER
from cordwood.metadata.image import PartitionRegistration as PartitionState
from cordwood.node import Node
from cordwood.runtime.network import ConnectionLost
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.sim.virtual.disk import SimDisk
from cordwood.sim.world import World
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from cordwood.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from cordwood.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from data_answers.batches import batch
from data_answers.requests import fetch, produce
from tests.broker.in_process import InProcessNode

META, ONE, TWO = "/meta", "/one", "/two"
BROKER = 1


class Host:
    """A computer with three disks: the metadata's, and two for partitions."""

    def __init__(self, world: World, **settings: str) -> None:
        said = {name.replace("_", "."): value for name, value in settings.items()}
        defaults = {"log.dirs": f"{ONE},{TWO}", "metadata.log.dir": META}
        self.world = world
        self.disks = {
            root: SimDisk(world.random(root), root=root, now_ms=world.clock.now_ms) for root in (META, ONE, TWO)
        }
        self._config = standalone_config(Layer("test", {**defaults, **said}), host="broker")
        self.node: Node
        self._starts = 0

    async def start(self) -> InProcessNode:
        self._starts += 1
        self.node = await Node.start(
            self._config,
            network=self.world.network.host("broker"),
            clock=self.world.clock,
            # Each start is its own incarnation.
            random=SeededRandom(self.world.random("starts").getrandbits(60) + self._starts),
            open_disk=self.disks.__getitem__,
        )
        return InProcessNode(self.node, self.world.network.host("client"))

    async def restart(self, *, missing: str | None = None) -> InProcessNode:
        """With disks that work again, but for one."""
        await self.node.stop()
        self.disks = {root: disk.restart(power_lost=False) for root, disk in self.disks.items()}
        if missing is not None:
            self.disks[missing].fail_next("stat", errno.EIO)
        return await self.start()


def with_disks(test: Callable[[Host, InProcessNode], Awaitable[None]], **settings: str) -> None:
    world = World(1, odds=NetworkOdds(delay_s=0.001, slow=0.0, split=0.0), limit_s=1_000)
    host = Host(world, **settings)

    async def main() -> None:
        await test(host, await host.start())

    world.run(main())


def state(node: InProcessNode, index: int, topic: str = "t") -> PartitionState:
    found = node.broker.image.topics.partition(topic, index)
    assert found is not None
    return found


def in_directory(node: InProcessNode, root: str, topic: str = "t") -> list[int]:
    """The partitions that lie there."""
    directory = next(each for each in node.broker.replicas.directories.directories if each.disk.root == root)
    return sorted(index for name, index in directory.logs if name == topic)


async def send(node: InProcessNode, index: int, *values: str, topic: str = "t") -> ErrorCode:
    channel = await node.connect()
    response = await channel.request(produce(topic, batch(*values), partition=index, acks=-1), 9)
    channel.close()
    return ErrorCode(response.responses[0].partition_responses[0].error_code)


async def read(node: InProcessNode, index: int, topic: str = "t") -> ErrorCode:
    channel = await node.connect()
    response = await channel.request(fetch({(topic, index): 0}), 11)
    channel.close()
    return ErrorCode(response.responses[0].partitions[0].error_code)


async def settled(node: InProcessNode) -> None:
    await asyncio.sleep(1)


def lines(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if text in record.getMessage()]


# Where partitions are


def test_the_metadata_says_in_which_directory_a_partition_is() -> None:
    async def test(host: Host, node: InProcessNode) -> None:
        await node.create("t", 6)
        await settled(node)
        ids = {directory.disk.root: directory.id for directory in node.broker.replicas.directories.directories}
        assert len(in_directory(node, ONE)) == len(in_directory(node, TWO)) == 3
        for root in (ONE, TWO):
            for index in in_directory(node, root):
                assert state(node, index).directory_of(BROKER) == ids[root]

    with_disks(test)


def test_partitions_moved_while_the_node_was_down_are_found_and_reported() -> None:
    async def test(host: Host, node: InProcessNode) -> None:
        await node.create("t", 2)
        await settled(node)
        (index,) = in_directory(node, ONE)
        assert await send(node, index, "a") == ErrorCode.NONE
        await host.node.stop()
        for path, data in host.disks[ONE].files().items():
            if path.startswith(f"t-{index}/"):
                host.disks[TWO].make_directory(f"t-{index}")
                host.disks[TWO].create(path).append(data)
                host.disks[ONE].remove(path)
        assert host.disks[ONE].remove_directory(f"t-{index}")
        again = await host.start()
        assert in_directory(again, TWO) == [0, 1]
        two = next(each for each in again.broker.replicas.directories.directories if each.disk.root == TWO)
        assert state(again, index).directory_of(BROKER) == two.id

    with_disks(test)


# While the node runs


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_failing_disk_takes_its_partitions_and_leaves_the_others(
    error: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(host: Host, node: InProcessNode) -> None:
        await node.create("t", 4)
        await settled(node)
        lost, kept = in_directory(node, ONE), in_directory(node, TWO)
        host.disks[ONE].fail_next("append to", error)
        assert await send(node, lost[0], "a") is ErrorCode.KAFKA_STORAGE_ERROR
        for index in kept:
            assert await send(node, index, "a") is ErrorCode.NONE
        await settled(node)
        # The metadata knows by now: they have no leader.
        for index in lost:
            assert state(node, index).leader == NO_LEADER
            assert await send(node, index, "a") is ErrorCode.NOT_LEADER_OR_FOLLOWER
        for index in kept:
            assert state(node, index).leader == BROKER
            assert await send(node, index, "b") is ErrorCode.NONE
        assert not host.node.stopped.is_set()

    with_disks(test)
    (line,) = lines(caplog, "/one is offline")
    assert "its 2 partitions are offline" in line
    assert {errno.ENOSPC: "No space left on device", errno.EIO: "Input/output error"}[error] in line


def test_clients_see_offline_partitions_and_the_failed_directory() -> None:
    async def test(host: Host, node: InProcessNode) -> None:
        await node.create("t", 4)
        await settled(node)
        lost = in_directory(node, ONE)
        host.disks[ONE].fail_next("append to", errno.EIO)
        await send(node, lost[0], "a")
        await settled(node)
        channel = await node.connect()
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        (topic,) = (await channel.request(asked, 12)).topics
        errors = {each.partition_index: ErrorCode(each.error_code) for each in topic.partitions}
        assert {index for index, error in errors.items() if error is ErrorCode.LEADER_NOT_AVAILABLE} == set(lost)
        assert {index for index, error in errors.items() if error is ErrorCode.NONE} == {0, 1, 2, 3} - set(lost)
        offline = {each.partition_index for each in topic.partitions if each.offline_replicas == [BROKER]}
        assert offline == set(lost)
        described = (await channel.request(DescribeLogDirsRequest(topics=None), 4)).results
        assert {each.log_dir: ErrorCode(each.error_code) for each in described} == {
            ONE: ErrorCode.KAFKA_STORAGE_ERROR,
            TWO: ErrorCode.NONE,
        }
        channel.close()

    with_disks(test)


def test_new_partitions_go_where_there_is_a_disk() -> None:
    async def test(host: Host, node: InProcessNode) -> None:
        await node.create("t", 2)
        await settled(node)
        host.disks[ONE].fail_next("append to", errno.EIO)
        await send(node, in_directory(node, ONE)[0], "a")
        await settled(node)
        await node.create("new", 4)
        for index in range(4):
            assert await send(node, index, "a", topic="new") is ErrorCode.NONE
        assert in_directory(node, TWO, "new") == [0, 1, 2, 3]

    with_disks(test)


def test_waiters_for_a_failed_flush_get_an_error() -> None:
    async def test(host: Host, node: InProcessNode) -> None:
        await node.create("t", 2, {"flush.messages": "1"})
        await settled(node)
        index = in_directory(node, ONE)[0]
        host.disks[ONE].fail_next("sync", errno.EIO)
        assert await send(node, index, "a") is ErrorCode.KAFKA_STORAGE_ERROR

    with_disks(test)


def test_a_read_that_fails_takes_the_directory_offline_too() -> None:
    async def test(host: Host, node: InProcessNode) -> None:
        await node.create("t", 2)
        await settled(node)
        index = in_directory(node, ONE)[0]
        await send(node, index, "a")
        host.disks[ONE].fail_next("read", errno.EIO)
        with contextlib.suppress(ConnectionLost):
            # If it fails while the answer is being sent, everything that is left is to end the connection, as in Kafka.
            await read(node, index)
        await asyncio.sleep(2)
        assert await read(node, index) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await send(node, in_directory(node, TWO)[0], "a") is ErrorCode.NONE

    with_disks(test)


@pytest.mark.parametrize("operation", ["create", "sync", "rename"])
def test_a_disk_that_fails_in_the_background_takes_its_partitions_only(
    operation: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(host: Host, node: InProcessNode) -> None:
        await node.create("t", 4)
        for index in range(4):
            await send(node, index, "a")
        lost, kept = in_directory(node, ONE), in_directory(node, TWO)
        # The checkpoint of high watermarks is next.
        host.disks[ONE].fail_next(operation, errno.EIO)
        await asyncio.sleep(10)
        assert [state(node, index).leader for index in lost] == [NO_LEADER, NO_LEADER]
        for index in kept:
            assert await send(node, index, "b") is ErrorCode.NONE

    with_disks(test)
    assert len(lines(caplog, "/one is offline")) == 1


def test_a_failed_empty_directory_is_reported_too(caplog: pytest.LogCaptureFixture) -> None:
    async def test(host: Host, node: InProcessNode) -> None:
        host.disks[ONE].fail_next("stat", errno.EIO)
        channel = await node.connect()
        with contextlib.suppress(ConnectionLost):
            await channel.request(DescribeLogDirsRequest(topics=None), 4)
        await settled(node)
        assert len(node.broker.image.brokers[BROKER].log_dirs) == 1

    with_disks(test)
    assert len(lines(caplog, "/one is offline")) == 1


# Essential directories


@pytest.mark.parametrize("operation", ["append to", "sync"])
def test_the_node_stops_when_the_metadata_log_fails(operation: str, caplog: pytest.LogCaptureFixture) -> None:
    async def test(host: Host, node: InProcessNode) -> None:
        host.disks[META].fail_next(operation, errno.EIO)
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        answer = await node.broker.controller.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
        assert answer.topics[0].error_code == ErrorCode.NOT_CONTROLLER
        await asyncio.wait_for(host.node.stopped.wait(), 1)
        assert host.node.failure is not None
        await host.node.stop()

    with_disks(test)
    assert len(lines(caplog, "Fatal error, shutting down")) == 1


def test_the_node_stops_when_a_partition_fails_the_disk_of_the_metadata_log() -> None:
    async def test(host: Host, node: InProcessNode) -> None:
        await node.create("t", 2)
        await settled(node)
        host.disks[ONE].fail_next("append to", errno.ENOSPC)
        await send(node, in_directory(node, ONE)[0], "a")
        await asyncio.wait_for(host.node.stopped.wait(), 1)
        assert host.node.failure is not None
        await host.node.stop()

    with_disks(test, metadata_log_dir=ONE)


def test_the_node_stops_when_its_last_log_directory_fails(caplog: pytest.LogCaptureFixture) -> None:
    async def test(host: Host, node: InProcessNode) -> None:
        await node.create("t", 2)
        await settled(node)
        for root in (ONE, TWO):
            assert not host.node.stopped.is_set()
            index = in_directory(node, root)[0]
            host.disks[root].fail_next("append to", errno.EIO)
            await send(node, index, "a")
            await settled(node)
        await asyncio.wait_for(host.node.stopped.wait(), 1)
        assert host.node.failure is not None
        await host.node.stop()

    with_disks(test)
    assert lines(caplog, "all log directories have failed")


# Starts


def test_a_node_starts_without_a_directory_and_makes_nothing_in_its_place(caplog: pytest.LogCaptureFixture) -> None:
    async def test(host: Host, node: InProcessNode) -> None:
        await node.create("t", 4)
        for index in range(4):
            await send(node, index, f"v{index}")
        lost, kept = in_directory(node, ONE), in_directory(node, TWO)

        node = await host.restart(missing=ONE)
        assert in_directory(node, TWO) == kept
        for index in lost:
            assert state(node, index).leader == NO_LEADER
            assert await send(node, index, "x") is ErrorCode.NOT_LEADER_OR_FOLLOWER
        for index in kept:
            assert await send(node, index, "x") is ErrorCode.NONE

        node = await host.restart()
        assert in_directory(node, ONE) == lost
        for index in lost:
            assert state(node, index).leader == BROKER
            log = node.partition("t", index).log
            assert log is not None
            assert log.end_offset == 1
            assert await send(node, index, "x") is ErrorCode.NONE

    with_disks(test)
    assert len(lines(caplog, "/one is offline")) == 1


def test_a_failed_directory_that_returns_has_its_records() -> None:
    async def test(host: Host, node: InProcessNode) -> None:
        await node.create("t", 2)
        (index,) = in_directory(node, ONE)
        await send(node, index, "a")
        host.disks[ONE].fail_next("append to", errno.EIO)
        await send(node, index, "b")
        await settled(node)
        node = await host.restart()
        assert state(node, index).leader == BROKER
        log = node.partition("t", index).log
        assert log is not None
        assert log.end_offset == 1

    with_disks(test)


def test_a_topic_deleted_while_its_directory_was_away_is_gone_when_it_is_back() -> None:
    async def test(host: Host, node: InProcessNode) -> None:
        await node.create("t", 2)
        await send(node, in_directory(node, ONE)[0], "a")
        node = await host.restart(missing=ONE)
        await node.delete("t")
        await node.create("t", 2)
        node = await host.restart()
        for index in range(2):
            log = node.partition("t", index).log
            assert log is not None
            assert log.end_offset == 0

    with_disks(test)


def test_a_wiped_directory_is_not_the_old_one_with_all_its_records_deleted() -> None:
    """An unmounted disk looks so. Its partitions are offline, not empty."""

    async def test(host: Host, node: InProcessNode) -> None:
        await node.create("t", 2)
        (index,) = in_directory(node, ONE)
        await send(node, index, "a")
        await host.node.stop()
        mounted, host.disks[ONE] = host.disks[ONE], SimDisk(host.world.random("new"), root=ONE)
        node = await host.start()
        assert in_directory(node, ONE) == []
        assert state(node, index).leader == NO_LEADER

        await host.node.stop()
        host.disks[ONE] = mounted
        node = await host.start()
        assert state(node, index).leader == BROKER
        log = node.partition("t", index).log
        assert log is not None
        assert log.end_offset == 1

    with_disks(test)


def test_a_node_does_not_start_without_its_metadata_log() -> None:
    async def test(host: Host, node: InProcessNode) -> None:
        with pytest.raises(CannotStart, match=r"/meta is offline.* cannot start without its metadata log"):
            await host.restart(missing=META)

    with_disks(test)


def test_a_node_does_not_start_without_any_log_directory() -> None:
    async def test(host: Host, node: InProcessNode) -> None:
        await host.node.stop()
        for root in (ONE, TWO):
            host.disks[root].fail_next("stat", errno.EIO)
        with pytest.raises(CannotStart, match="none of the log directories can be used"):
            await host.start()

    with_disks(test)


def test_logs_of_a_failing_disk_do_not_fill_the_log_file(caplog: pytest.LogCaptureFixture) -> None:
    async def test(host: Host, node: InProcessNode) -> None:
        await node.create("t", 4)
        await settled(node)
        lost = in_directory(node, ONE)
        host.disks[ONE].fail_next("append to", errno.EIO)
        for _ in range(20):
            for index in lost:
                await send(node, index, "a")
                await read(node, index)
        await asyncio.sleep(600)

    with_disks(test)
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1


def test_a_node_does_not_start_if_its_last_directory_fails_while_it_is_opened(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It would register without any directory, and wait until its former registration has expired."""

    async def test(host: Host, node: InProcessNode) -> None:
        await node.create("t", 2)
        for index in range(2):
            await send(node, index, "a")
        await host.node.stop()
        started = host.world.clock.monotonic()
        host.disks = {root: disk.restart(power_lost=False) for root, disk in host.disks.items()}
        for root in (ONE, TWO):
            host.disks[root].fail_next("open", errno.EACCES)
        with pytest.raises(CannotStart, match=r"/one is offline: open t-.*Permission denied; .*/two is offline"):
            await host.start()
        assert host.world.clock.monotonic() - started < 1.0
        assert "the other log directories continue" in lines(caplog, "/one is offline")[0]
        assert "the other log directories continue" not in lines(caplog, "/two is offline")[0]

    with_disks(test)
