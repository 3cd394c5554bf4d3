"""Fetch after restarts, with damage and failing disks: what `test_data_answers` cannot have from Kafka."""

from __future__ import annotations

import pytest

from cordwood.net.peers.channel import Channel
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData
from cordwood.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from data_answers.batches import batch
from data_answers.requests import fetch, produce
from tests.broker.simulated import SimulatedNode, simulate

VERSION = 12
BY_ID = 17


async def write(channel: Channel, *values: str) -> None:
    for value in values:
        response = await channel.request(produce("t", batch(value)), VERSION)
        assert not response.responses[0].partition_responses[0].error_code


async def ask(channel: Channel, request: FetchRequest, version: int = VERSION) -> PartitionData:
    return only(await channel.request(request, version))


def only(response: FetchResponse) -> PartitionData:
    [topic] = response.responses
    [answer] = topic.partitions
    return answer


async def restarted(node: SimulatedNode) -> tuple[SimulatedNode, Channel]:
    """Killed and started: the leader's epoch is another."""
    node.machine.kill()
    assert await node.machine.start()
    again = SimulatedNode(node.world, node.machine)
    return again, await again.connect()


# Leader epochs


def test_a_candidate_of_an_old_epoch_gets_the_leader() -> None:
    async def test(node: SimulatedNode) -> None:
        topic_id = await node.create("t")
        node, channel = await restarted(node)
        epoch = node.partition("t").state.leader_epoch
        assert epoch > 0
        request = fetch({(topic_id, 0): {"fetch_offset": 0, "current_leader_epoch": 0}})
        response = await channel.request(request, BY_ID)
        answer = only(response)
        assert answer.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (node.broker.id, epoch)
        [endpoint] = response.node_endpoints
        assert (endpoint.node_id, endpoint.host, endpoint.port) == (node.broker.id, "broker", node.port)

    simulate(test)


def test_a_client_with_a_newer_epoch_must_wait() -> None:
    async def test(node: SimulatedNode) -> None:
        topic_id = await node.create("t")
        channel = await node.connect()
        request = fetch({(topic_id, 0): {"fetch_offset": 0, "current_leader_epoch": 9}})
        response = await channel.request(request, BY_ID)
        assert only(response).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert response.node_endpoints == []

    simulate(test)


def test_before_the_report_reaches_the_leader_it_is_not() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        _, channel = await restarted(node)
        request = fetch({("t", 0): {"fetch_offset": 0, "current_leader_epoch": 0}})
        assert (await ask(channel, request)).error_code == ErrorCode.FENCED_LEADER_EPOCH

    simulate(test)


async def with_two_epochs(node: SimulatedNode) -> tuple[Channel, int]:
    """Writes offsets 0 to 2 in epoch 0, and 3 and 4 in a later one, which is returned."""
    await node.create("t", 1, {"flush.messages": "1"})
    await write(await node.connect(), "a", "b", "c")
    node, channel = await restarted(node)
    await write(channel, "d", "e")
    return channel, node.partition("t").state.leader_epoch


@pytest.mark.parametrize(
    ("last_epoch", "offset", "parts_at"),
    [(0, 3, None), (0, 2, None), (0, 4, (0, 3)), (1, 3, (0, 3)), (2, 5, None), (2, 3, None)],
)
def test_a_fetcher_gets_the_diverging_epoch(last_epoch: int, offset: int, parts_at: tuple[int, int] | None) -> None:
    async def test(node: SimulatedNode) -> None:
        channel, epoch = await with_two_epochs(node)
        assert epoch == 2
        said = {"fetch_offset": offset, "last_fetched_epoch": last_epoch}
        answer = await ask(channel, fetch({("t", 0): said}, min_bytes=0))
        assert answer.error_code == ErrorCode.NONE
        diverging = (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset)
        assert diverging == (parts_at or (-1, -1))
        assert bool(answer.records) == (parts_at is None and offset < 5)

    simulate(test)


@pytest.mark.parametrize(("epoch", "end"), [(0, (0, 3)), (1, (0, 3)), (2, (2, 5)), (3, (-1, -1))])
def test_the_end_of_an_epoch_is_reported(epoch: int, end: tuple[int, int]) -> None:
    async def test(node: SimulatedNode) -> None:
        channel, _ = await with_two_epochs(node)
        asked = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[asked])])
        answer = (await channel.request(request, 4)).topics[0].partitions[0]
        assert (answer.leader_epoch, answer.end_offset) == end

    simulate(test)


def test_an_epoch_in_which_nothing_was_written_is_known() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", 1, {"flush.messages": "1"})
        await write(await node.connect(), "a")
        node, channel = await restarted(node)
        said = {"fetch_offset": 1, "last_fetched_epoch": node.partition("t").state.leader_epoch}
        answer = await ask(channel, fetch({("t", 0): said}, min_bytes=0))
        assert (answer.error_code, answer.diverging_epoch.epoch) == (ErrorCode.NONE, -1)

    simulate(test)


# Errors of the broker


def test_readers_of_damaged_data_get_an_error() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        channel = await node.connect()
        await write(channel, *("abcdefgh"))
        log = node.partition("t").log
        assert log is not None
        log.active._recent.clear()
        # The magic of the first batch.
        node.machine.disks["/data"]._machine.files.find_file(log.active.file.path).content[16] = 77
        assert (await ask(channel, fetch({("t", 0): 1}))).error_code == ErrorCode.CORRUPT_MESSAGE

    simulate(test)


@pytest.mark.parametrize(("version", "error"), [(5, "NOT_LEADER_OR_FOLLOWER"), (6, "KAFKA_STORAGE_ERROR")])
def test_a_disk_failure_uses_an_error_that_the_version_knows(version: int, error: str) -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        channel = await node.connect()
        await write(channel, *("abcdefgh"))
        node.machine.disks["/data"].fail_next("read")
        assert ErrorCode((await ask(channel, fetch({("t", 0): 1}), version)).error_code).name == error

    simulate(test)
