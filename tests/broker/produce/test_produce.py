"""Produce: when it is acknowledged, and that what is acknowledged is there, once and in order."""

from __future__ import annotations

import asyncio

from cordwood.net.peers.channel import Channel
from cordwood.wire.batch_header import batch_headers
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from cordwood.wire.records import decode_batch
from data_answers.batches import batch
from data_answers.requests import Place, fetch, produce, produce_all
from tests.broker.simulated import AT_ONCE_S, SimulatedNode, simulate

VERSION = 12
# Every acknowledgement waits for stable storage.
FLUSHED = {"flush.messages": "1"}


async def send(channel: Channel, request: ProduceRequest) -> PartitionProduceResponse:
    """The answer for the one partition of the request."""
    return (await channel.request(request, VERSION)).responses[0].partition_responses[0]


async def values(node: SimulatedNode, topic: str = "t", partition: int = 0) -> list[str]:
    channel = await node.connect()
    response = await channel.request(fetch({(topic, partition): 0}), VERSION)
    channel.close()
    answer = response.responses[0].partitions[0]
    assert not answer.error_code
    data = answer.records
    assert isinstance(data, memoryview | bytes | bytearray)
    found = [record for position, _ in batch_headers(data) for record in decode_batch(data, position)]
    assert [record.offset for record in found] == list(range(len(found)))
    return [(record.value or b"").decode() for record in found]


def test_acknowledged_records_are_flushed_with_flush_messages() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", 1, FLUSHED)
        channel = await node.connect()
        for acks in (1, -1):
            answer = await send(channel, produce("t", batch("a"), acks=acks))
            log = node.partition("t").log
            assert log is not None
            assert log.durability.recovery_point > answer.base_offset

    simulate(test)


def test_acknowledged_records_survive_a_power_loss() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", 1, FLUSHED)
        channel = await node.connect()
        sent = [f"value {number}" for number in range(20)]
        for value in sent:
            assert not (await send(channel, produce("t", batch(value)))).error_code
        node.machine.lose_power()
        assert await node.machine.start()
        assert await values(SimulatedNode(node.world, node.machine)) == sent

    simulate(test)


def test_one_flush_serves_all_waiters() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", 1, FLUSHED)
        channels = [await node.connect() for _ in range(50)]
        before = node.broker.replicas.flusher.rounds
        answers = await asyncio.gather(*(send(channel, produce("t", batch("a"))) for channel in channels))
        assert sorted(answer.base_offset for answer in answers) == list(range(50))
        assert node.broker.replicas.flusher.rounds - before < 10

    simulate(test)


def test_a_slow_acknowledgement_times_out() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", 1, FLUSHED)
        channel = await node.connect()
        answer = await send(channel, produce("t", batch("a"), timeout_ms=0))
        assert (answer.error_code, answer.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        await node.broker.replicas.flusher.finish()
        # It is there all the same: who sent it does not know, and may try again.
        assert await values(node) == ["a"]

    simulate(test)


def test_a_retry_is_not_acknowledged_before_the_original() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", 1, FLUSHED)
        records = batch("a", producer_id=5, epoch=0, sequence=0)
        first, second = await node.connect(), await node.connect()
        late = await send(first, produce("t", bytes(records), timeout_ms=0))
        assert late.error_code == ErrorCode.REQUEST_TIMED_OUT
        again = await send(second, produce("t", bytes(records)))
        log = node.partition("t").log
        assert log is not None
        assert (again.error_code, again.base_offset) == (0, 0)
        assert log.durability.recovery_point == log.end_offset == 1

    simulate(test)


def test_answers_come_in_the_order_of_the_requests() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("slow", 1, FLUSHED)
        await node.create("fast")
        channel = await node.connect()
        order: list[str] = []

        async def write(topic: str) -> None:
            assert not (await send(channel, produce(topic, batch("a")))).error_code
            order.append(topic)

        await asyncio.gather(write("slow"), write("fast"))
        assert order == ["slow", "fast"]

    simulate(test)


def test_one_partition_that_waits_holds_back_the_whole_answer() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("slow", 1, FLUSHED)
        await node.create("fast")
        channel = await node.connect()
        batches: dict[Place, bytearray] = {("fast", 0): batch("a"), ("slow", 0): batch("b"), ("none", 0): batch("c")}
        response = await channel.request(produce_all(batches), VERSION)
        errors = {topic.name: topic.partition_responses[0].error_code for topic in response.responses}
        assert errors == {"fast": 0, "slow": 0, "none": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        log = node.partition("slow").log
        assert log is not None
        assert log.durability.recovery_point == 1

    simulate(test)


def test_two_batches_for_one_partition_are_both_taken_in_order() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        channel = await node.connect()
        parts = [PartitionProduceData(index=0, records=batch(value)) for value in ("first", "second")]
        topics = [TopicProduceData(name="t", partition_data=parts)]
        response = await channel.request(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), VERSION)
        assert [answer.base_offset for answer in response.responses[0].partition_responses] == [0, 1]
        assert await values(node) == ["first", "second"]

    simulate(test)


def test_waiters_get_an_error_when_the_disk_fails() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", 1, FLUSHED)
        channel = await node.connect()
        node.machine.disks["/data"].fail_next("sync")
        answer = await send(channel, produce("t", batch("a")))
        assert (answer.error_code, answer.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)

    simulate(test)


def test_a_disk_failure_at_the_second_batch_of_a_request_fails_the_first_too() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", 2, FLUSHED)
        channel = await node.connect()
        node.machine.disks["/data"].fail_next("append to", after=1)
        batches: dict[Place, bytearray] = {("t", 0): batch("a"), ("t", 1): batch("b")}
        response = await channel.request(produce_all(batches), VERSION)
        errors = [answer.error_code for answer in response.responses[0].partition_responses]
        assert errors == [ErrorCode.KAFKA_STORAGE_ERROR] * 2

    simulate(test)


def test_without_acknowledgements_nothing_is_answered_and_the_data_are_there() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        channel = await node.connect()
        for value in ("a", "b", "c"):
            await channel.send_only(produce("t", batch(value), acks=0), VERSION)
        assert (await send(channel, produce("t", batch("d")))).base_offset == 3
        assert await values(node) == ["a", "b", "c", "d"]

    simulate(test)


def test_a_batch_of_a_transaction_that_no_coordinator_knows_is_not_written() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        channel = await node.connect()
        records = batch("a", producer_id=7, epoch=0, sequence=0, transactional=True)
        answer = await send(channel, produce("t", records, transactional_id="mine"))
        assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert await values(node) == []

    simulate(test)


def test_null_in_place_of_records_is_refused() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        channel = await node.connect()
        async with asyncio.timeout(AT_ONCE_S):
            assert (await send(channel, produce("t", None))).error_code == ErrorCode.INVALID_RECORD

    simulate(test)
