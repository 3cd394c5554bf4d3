"""ListOffsets where a leader's high watermark has not caught up: the rest is in test_data_answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.list_offsets import ListOffsetsPartitionResponse
from data_answers.batches import NOW, batch
from data_answers.requests import list_offsets
from tests.broker.simulated import SimulatedNode, simulate


async def ask(
    node: SimulatedNode, timestamp: int, version: int = 11, replica_id: int = -1
) -> ListOffsetsPartitionResponse:
    channel = await node.connect()
    response = await channel.request(list_offsets({("t", 0): timestamp}, replica_id=replica_id), version)
    channel.close()
    return response.topics[0].partitions[0]


async def behind(node: SimulatedNode) -> None:
    """A new epoch begins while the last record is not acknowledged, and a disk that is slow forever."""
    await node.create("t", 1, {"flush.messages": "1"})
    partition = node.partition("t")
    partition.append(batch("a"), -1, NOW)
    await node.broker.replicas.flusher.finish()
    partition._request_flush = lambda _partition: None
    partition.append(batch("b", timestamps=[NOW + 5]), -1, NOW)
    state = replace(partition.state, leader_epoch=partition.state.leader_epoch + 1)
    partition.update(state, partition.config)
    assert partition.log is not None
    assert (partition.log.high_watermark, partition.log.end_offset) == (1, 2)


@pytest.mark.parametrize(
    ("version", "error"),
    [(1, ErrorCode.LEADER_NOT_AVAILABLE), (4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)],
)
def test_the_latest_offset_is_unavailable_while_it_might_decrease(version: int, error: ErrorCode) -> None:
    async def test(node: SimulatedNode) -> None:
        await behind(node)
        answer = await ask(node, -1, version)
        assert (answer.error_code, answer.offset) == (error, -1)

    simulate(test)


def test_unacknowledged_records_are_not_found_by_time() -> None:
    async def test(node: SimulatedNode) -> None:
        await behind(node)
        assert (await ask(node, NOW)).offset == 0
        assert (await ask(node, NOW + 1)).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        assert (await ask(node, -3)).error_code == ErrorCode.OFFSET_NOT_AVAILABLE

    simulate(test)


def test_the_earliest_offset_is_still_returned() -> None:
    async def test(node: SimulatedNode) -> None:
        await behind(node)
        for timestamp in (-2, -4):
            answer = await ask(node, timestamp)
            assert (answer.error_code, answer.offset) == (ErrorCode.NONE, 0)

    simulate(test)


def test_replicas_get_the_log_end() -> None:
    async def test(node: SimulatedNode) -> None:
        await behind(node)
        assert (await ask(node, -1, replica_id=-2)).offset == 2

    simulate(test)


def test_a_follower_reports_its_own_log_end_to_the_debugging_replica_id() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", 1)
        partition = node.partition("t")
        partition.append(batch("a", "b"), -1, NOW)
        partition.update(replace(partition.state, leader=partition.broker_id + 1), partition.config)
        assert not partition.is_leader
        for replica_id in (-1, 2):
            assert (await ask(node, -1, replica_id=replica_id)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        answer = await ask(node, -1, replica_id=-2)
        assert (answer.error_code, answer.offset) == (ErrorCode.NONE, 2)

    simulate(test)
