"""DeleteRecords: what is deleted stays deleted."""

from __future__ import annotations

import pytest

from cordwood.net.peers.channel import Channel
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from data_answers.batches import batch
from data_answers.requests import fetch, produce
from tests.broker.simulated import SimulatedNode, simulate


async def delete(channel: Channel, offset: int, topic: str = "t") -> DeleteRecordsPartitionResult:
    wanted = [DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])]
    response = await channel.request(DeleteRecordsRequest(topics=wanted, timeout_ms=30_000), 2)
    return response.topics[0].partitions[0]


async def fill(node: SimulatedNode, channel: Channel) -> None:
    await node.create("t")
    for number in range(5):
        await channel.request(produce("t", batch(f"value {number}")), 12)


@pytest.mark.parametrize("ending", ["kill", "lose_power", "stop"])
def test_the_new_start_outlives_the_node(ending: str) -> None:
    async def test(node: SimulatedNode) -> None:
        channel = await node.connect()
        await fill(node, channel)
        node.partition("t").log.flush(node.broker.clock.now_ms())  # type: ignore[union-attr]
        assert (await delete(channel, 3)).low_watermark == 3
        if ending == "stop":
            await node.machine.stop()
        else:
            getattr(node.machine, ending)()
        assert await node.machine.start()
        again = await SimulatedNode(node.world, node.machine).connect()
        before = (await again.request(fetch({("t", 0): 2}), 12)).responses[0].partitions[0]
        assert before.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        after = (await again.request(fetch({("t", 0): 3}), 12)).responses[0].partitions[0]
        assert (after.error_code, after.log_start_offset, after.high_watermark) == (0, 3, 5)

    simulate(test)


def test_a_start_that_could_not_be_kept_is_not_acknowledged() -> None:
    async def test(node: SimulatedNode) -> None:
        channel = await node.connect()
        await fill(node, channel)
        node.machine.disks["/data"].fail_next("append to")
        result = await delete(channel, 3)
        assert (result.error_code, result.low_watermark) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)

    simulate(test)


def test_delete_records_is_refused_for_coordinator_topics() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("__consumer_offsets")
        channel = await node.connect()
        assert (await delete(channel, 0, "__consumer_offsets")).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    simulate(test)
