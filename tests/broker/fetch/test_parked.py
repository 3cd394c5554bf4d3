"""Fetches that wait, in virtual time: their wake-ups and their clean-up."""

from __future__ import annotations

import asyncio

from cordwood.net.peers.channel import Channel
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData
from data_answers.batches import batch
from data_answers.requests import Place, fetch, produce
from tests.broker.simulated import AT_ONCE_S, SimulatedNode, simulate

VERSION = 12
WAIT_MS = 500_000


class Waiting:
    """A fetch in progress."""

    def __init__(self, node: SimulatedNode, channel: Channel, request: FetchRequest) -> None:
        self._node = node
        self._begun = node.time()
        self.task = asyncio.create_task(channel.request(request, VERSION, timeout_s=1000))

    async def response(self, within_s: float = AT_ONCE_S) -> FetchResponse:
        """Fails if it does not come within so much virtual time."""
        async with asyncio.timeout(within_s):
            return await self.task

    async def answer(self, within_s: float = AT_ONCE_S) -> PartitionData:
        """The answer for the one fetched partition."""
        return (await self.response(within_s)).responses[0].partitions[0]

    @property
    def took_s(self) -> float:
        return self._node.time() - self._begun


async def park(node: SimulatedNode, request: FetchRequest) -> Waiting:
    waiting = Waiting(node, await node.connect(), request)
    await asyncio.sleep(AT_ONCE_S)
    assert not waiting.task.done()
    return waiting


async def write(node: SimulatedNode, topic: str, *values: str, partition: int = 0) -> None:
    channel = await node.connect()
    response = await channel.request(produce(topic, batch(*values), partition=partition), VERSION)
    assert not response.responses[0].partition_responses[0].error_code
    channel.close()


def size(answer: PartitionData) -> int:
    return 0 if answer.records is None else len(answer.records)


# When it is answered


def test_it_waits_for_the_given_time() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        waiting = await park(node, fetch({("t", 0): 0}, max_wait_ms=7000))
        answer = await waiting.answer(within_s=10)
        assert 7.0 <= waiting.took_s < 7.1
        assert (answer.error_code, size(answer)) == (0, 0)

    simulate(test)


def test_it_is_answered_as_soon_as_there_is_data() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        waiting = await park(node, fetch({("t", 0): 0}, max_wait_ms=WAIT_MS))
        await write(node, "t", "a")
        answer = await waiting.answer()
        assert size(answer) > 0
        assert answer.high_watermark == 1

    simulate(test)


def test_it_is_not_answered_before_there_are_enough_bytes() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        one = len(batch("a"))
        waiting = await park(node, fetch({("t", 0): 0}, min_bytes=3 * one, max_wait_ms=WAIT_MS))
        for _ in range(2):
            await write(node, "t", "a")
            await asyncio.sleep(AT_ONCE_S)
            assert not waiting.task.done()
        await write(node, "t", "a")
        assert size(await waiting.answer()) == 3 * one

    simulate(test)


def test_the_bytes_of_all_its_partitions_count() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", 3)
        one = len(batch("a"))
        every: dict[Place, int] = {("t", index): 0 for index in range(3)}
        waiting = await park(node, fetch(every, min_bytes=4 * one, max_wait_ms=WAIT_MS))
        for partition in (0, 0, 1):
            await write(node, "t", "a", partition=partition)
            await asyncio.sleep(AT_ONCE_S)
            assert not waiting.task.done()
        await write(node, "t", "a", partition=2)
        response = await waiting.response()
        assert [size(answer) for answer in response.responses[0].partitions] == [2 * one, one, one]

    simulate(test)


def test_data_available_when_a_fetch_is_parked_counts() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        await write(node, "t", "a")
        waiting = await park(node, fetch({("t", 0): 0}, min_bytes=2 * len(batch("a")), max_wait_ms=WAIT_MS))
        await write(node, "t", "a")
        assert size(await waiting.answer()) == 2 * len(batch("a"))

    simulate(test)


def test_no_more_than_its_own_limit_of_a_partition_counts() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", 2)
        one = len(batch("a"))
        little = {"fetch_offset": 0, "partition_max_bytes": one}
        wanted: dict[Place, dict[str, int]] = {("t", 0): little, ("t", 1): little}
        waiting = await park(node, fetch(wanted, min_bytes=2 * one, max_wait_ms=WAIT_MS))
        for _ in range(5):
            await write(node, "t", "a")
        await asyncio.sleep(AT_ONCE_S)
        assert not waiting.task.done()
        await write(node, "t", "a", partition=1)
        await waiting.response()

    simulate(test)


def test_it_does_not_wait_for_more_of_an_older_segment() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", 1, {"internal.segment.bytes": "200"})
        for _ in range(4):
            await write(node, "t", "a" * 20)
        assert len(node.partition("t").log.segments) > 1  # type: ignore[union-attr]
        request = fetch({("t", 0): 0}, min_bytes=1_000_000, max_wait_ms=WAIT_MS)
        assert size(await Waiting(node, await node.connect(), request).answer()) > 0

    simulate(test)


def test_a_reader_of_committed_data_waits_for_the_end_of_a_transaction() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        waiting = await park(node, fetch({("t", 0): 0}, isolation_level=1, max_wait_ms=WAIT_MS))
        transaction = await node.transaction("t", 0, "x")
        await transaction.write("a")
        await write(node, "t", "b")
        await asyncio.sleep(AT_ONCE_S)
        assert not waiting.task.done()
        await transaction.end(commit=False)
        answer = await waiting.answer()
        assert answer.last_stable_offset == answer.high_watermark == 3
        assert [aborted.first_offset for aborted in answer.aborted_transactions or []] == [0]

    simulate(test)


def test_responses_wait_for_the_flush() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", 1, {"flush.messages": "1"})
        waiting = await park(node, fetch({("t", 0): 0}, max_wait_ms=WAIT_MS))
        partition = node.partition("t")
        log = partition.log
        assert log is not None
        partition.append(batch("a"), 1, node.broker.clock.now_ms())
        assert log.high_watermark == log.durability.recovery_point == 0
        answer = await waiting.answer(within_s=2)
        assert answer.high_watermark == log.durability.recovery_point == 1

    simulate(test)


# Errors


def test_a_waiting_fetch_fails_at_once_when_its_topic_is_deleted() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        await node.create("u")
        waiting = await park(node, fetch({("t", 0): 0, ("u", 0): 0}, max_wait_ms=WAIT_MS))
        await node.delete("t")
        response = await waiting.response()
        errors = {topic.topic: topic.partitions[0].error_code for topic in response.responses}
        assert errors == {"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "u": ErrorCode.NONE}

    simulate(test)


def test_a_waiting_fetch_fails_at_once_when_its_disk_fails() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        waiting = await park(node, fetch({("t", 0): 0}, max_wait_ms=WAIT_MS))
        node.machine.disks["/data"].fail_next("append to")
        channel = await node.connect()
        refused = await channel.request(produce("t", batch("a")), VERSION)
        assert refused.responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await waiting.answer()).error_code == ErrorCode.KAFKA_STORAGE_ERROR

    simulate(test)


def test_it_is_answered_when_the_node_stops() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        waiting = await park(node, fetch({("t", 0): 0}, max_wait_ms=WAIT_MS))
        await node.machine.stop()
        assert (await waiting.answer()).error_code == ErrorCode.NONE

    simulate(test)


# Clean-up


def watchers(node: SimulatedNode, topic: str = "t") -> int:
    return len(node.partition(topic)._watchers)


def test_nothing_is_left_of_it_once_it_is_answered() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", 2)
        waiting = await park(node, fetch({("t", 0): 0, ("t", 1): 0}, max_wait_ms=WAIT_MS))
        assert watchers(node) == 1
        await write(node, "t", "a")
        await waiting.response()
        assert watchers(node) == 0
        assert len(node.partition("t", 1)._watchers) == 0

    simulate(test)


def test_nothing_is_left_of_it_when_its_client_is_gone_and_data_come() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        channel = await node.connect()
        waiting = Waiting(node, channel, fetch({("t", 0): 0}, max_wait_ms=WAIT_MS))
        await asyncio.sleep(AT_ONCE_S)
        channel.abort()
        await asyncio.wait([waiting.task])
        assert waiting.task.exception() is not None
        await asyncio.sleep(AT_ONCE_S)
        assert watchers(node) == 1
        await write(node, "t", "a")
        assert watchers(node) == 0

    simulate(test)


def test_nothing_is_left_of_it_when_its_client_is_gone_and_no_data_come() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        channel = await node.connect()
        waiting = Waiting(node, channel, fetch({("t", 0): 0}, max_wait_ms=2**31 - 1))
        await asyncio.sleep(AT_ONCE_S)
        channel.abort()
        await asyncio.wait([waiting.task])
        assert waiting.task.exception() is not None
        await asyncio.sleep(60)
        assert watchers(node) == 0

    simulate(test)


def test_a_request_behind_it_waits_for_its_turn() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        channel = await node.connect()
        first = Waiting(node, channel, fetch({("t", 0): 0}, max_wait_ms=WAIT_MS))
        second = Waiting(node, channel, fetch({("t", 0): 0}, min_bytes=0))
        await asyncio.sleep(AT_ONCE_S)
        assert not second.task.done()
        await write(node, "t", "a")
        assert size(await first.answer()) > 0
        assert size(await second.answer()) == 0

    simulate(test)


def test_a_session_continues_after_a_parked_fetch() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", 2)
        channel = await node.connect()
        opened = await channel.request(fetch({("t", 0): 0, ("t", 1): 0}, session=(0, 0)), VERSION)
        session = opened.session_id
        waiting = Waiting(node, channel, fetch({}, session=(session, 1), max_wait_ms=WAIT_MS))
        await asyncio.sleep(AT_ONCE_S)
        await write(node, "t", "a", partition=1)
        response = await waiting.response()
        assert [answer.partition_index for answer in response.responses[0].partitions] == [1]
        nothing = Waiting(node, channel, fetch({("t", 1): 1}, session=(session, 2), max_wait_ms=1000))
        assert (await nothing.response(within_s=2)).responses == []
        assert nothing.took_s >= 1

    simulate(test)
