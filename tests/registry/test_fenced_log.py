"""The fenced log: at most one writer, and nothing in the log of the others."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import pytest

from cordwood import Consumer, TopicPartition
from cordwood.client.addresses import parse_bootstrap
from cordwood.client.client import Client
from cordwood.registry.fenced_log import LEASE_S, NOOP_KEY, Fenced, FencedLog, ProducerStamp, StoredRecord
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.sockets import SocketNetwork
from cordwood.testing.embedded import EmbeddedNode

_topics = (f"schemas-{number}" for number in itertools.count())


class LaterClock(SystemClock):
    """A wall clock that a test moves."""

    later_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.later_ms


def run(node: EmbeddedNode, work: Callable[[Client, str], Awaitable[None]]) -> str:
    """The topic that the work had."""
    topic = node.topic(next(_topics), configs={"cleanup.policy": "compact"})

    async def main() -> None:
        client = await Client.connect(parse_bootstrap(node.bootstrap), network=SocketNetwork())
        try:
            await work(client, topic)
        finally:
            await client.close()

    asyncio.run(main())
    return topic


def log_of(
    client: Client, topic: str, transactional_id: str | None = None, clock: SystemClock | None = None
) -> FencedLog:
    return FencedLog(client, clock or SystemClock(), topic, transactional_id or topic, 10.0)


def record(key: str) -> StoredRecord:
    return StoredRecord(key.encode(), b"value", {})


def keys_in_log(node: EmbeddedNode, topic: str) -> list[str]:
    """The records visible to a read_uncommitted reader, in order, without fences."""
    partition = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=node.bootstrap, isolation_level="read_uncommitted") as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end = consumer.end_offsets([partition])[partition]
        keys: list[str] = []
        while consumer.position(partition) < end:
            for records in consumer.poll(timeout_ms=500).values():
                keys += [(each.key or b"").decode() for each in records]
    return [key for key in keys if key != NOOP_KEY.decode()]


def test_fenced_writer_leaves_nothing_in_the_log_not_even_for_readers_of_uncommitted_records(
    node: EmbeddedNode,
) -> None:
    async def work(client: Client, topic: str) -> None:
        old, new = log_of(client, topic), log_of(client, topic)
        await old.take_over(None, {})
        await old.append([record("a"), record("b")])
        fence = await new.take_over(None, {})
        with pytest.raises(Fenced):
            await old.append([record("lost")])
        assert await new.append([record("c")]) == fence + 1

    assert keys_in_log(node, run(node, work)) == ["a", "b", "c"]


def test_writer_that_was_overtaken_before_its_first_record_is_fenced(node: EmbeddedNode) -> None:
    async def work(client: Client, topic: str) -> None:
        old, new = log_of(client, topic), log_of(client, topic)
        taken = old._new_epoch

        async def overtaken() -> ProducerStamp:
            stamp = await taken()
            await new.take_over(None, {})
            return stamp

        old._new_epoch = overtaken  # type: ignore[method-assign]
        with pytest.raises(Fenced):
            await old.take_over(None, {})
        await new.append([record("a")])

    assert keys_in_log(node, run(node, work)) == ["a"]


def test_successor_with_another_producer_id_fences_the_id_before(node: EmbeddedNode) -> None:
    async def work(client: Client, topic: str) -> None:
        # As when the epochs of an id are used up: the coordinator gives out another.
        old, new, newest = (log_of(client, topic, f"{topic}-{number}") for number in range(3))
        await old.take_over(None, {})
        before = old._stamp
        await new.take_over(before, {})
        with pytest.raises(Fenced):
            await old.append([record("lost")])
        # A second one that has read no further fences it again, which changes nothing.
        await newest.take_over(before, {})
        await newest.append([record("a")])

    assert keys_in_log(node, run(node, work)) == ["a"]


def test_writer_does_not_trust_its_fence_for_longer_than_brokers_remember_it(node: EmbeddedNode) -> None:
    async def work(client: Client, topic: str) -> None:
        clock = LaterClock()
        log = log_of(client, topic, clock=clock)
        await log.take_over(None, {})
        await log.append([record("a")])
        clock.later_ms = int(LEASE_S * 1000)
        assert not log.is_valid
        with pytest.raises(Fenced, match="lease"):
            await log.append([record("late")])

    assert keys_in_log(node, run(node, work)) == ["a"]


@pytest.mark.parametrize("text", ["", "x", "1", "1:", ":1", "a:b", "-1:2"])
def test_unreadable_stamp_is_none(text: str) -> None:
    assert ProducerStamp.read(text) is None


def test_stamp_is_read_as_it_was_written() -> None:
    assert ProducerStamp.read(ProducerStamp(12, 3).text()) == ProducerStamp(12, 3)
