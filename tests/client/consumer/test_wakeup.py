"""`Consumer.wakeup()` interrupts a caller that waits for records, once."""

import asyncio
import signal
import threading
from typing import Any

import pytest

from cordwood import Consumer, Producer, TopicPartition, WakeupError, aio
from tests.client.any_cluster import AnyCluster


@pytest.fixture
def place(node: AnyCluster) -> TopicPartition:
    """A partition with ten records."""
    place = TopicPartition(node.topic(), 0)
    with Producer(bootstrap_servers=node.bootstrap) as producer:
        producer.send_many((place.topic, str(number)) for number in range(10)).result(30)
    return place


def reader_of(node: AnyCluster, place: TopicPartition) -> Consumer:
    consumer = Consumer(bootstrap_servers=node.bootstrap)
    consumer.assign([place])
    consumer.seek_to_beginning()
    return consumer


def in_task(node: AnyCluster, place: TopicPartition, scene: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), aio.Consumer(bootstrap_servers=node.bootstrap) as consumer:
            consumer.assign([place])
            consumer.seek_to_beginning()
            await scene(consumer)

    asyncio.run(main())


def test_a_task_that_waits_is_woken_and_reads_on_where_it_was(node: AnyCluster, place: TopicPartition) -> None:
    async def scene(consumer: aio.Consumer) -> None:
        for number in range(10):
            assert (await consumer.getone()).offset == number
        waiting = asyncio.create_task(consumer.getone())
        await asyncio.sleep(0)
        consumer.wakeup()
        with pytest.raises(WakeupError):
            await waiting
        consumer.seek(place, 9)
        assert (await consumer.getone()).offset == 9

    in_task(node, place, scene)


def test_wakeup_without_a_reader_wakes_only_the_next_one(node: AnyCluster, place: TopicPartition) -> None:
    async def scene(consumer: aio.Consumer) -> None:
        consumer.wakeup()
        with pytest.raises(WakeupError):
            await consumer.poll(60_000)
        assert (await consumer.getone()).offset == 0

    in_task(node, place, scene)


def test_an_interrupted_iteration_can_be_resumed_by_a_new_one(node: AnyCluster, place: TopicPartition) -> None:
    async def scene(consumer: aio.Consumer) -> None:
        seen = []

        async def read() -> None:
            async for record in consumer:
                seen.append(record.offset)
                if record.offset in (3, 9):
                    consumer.wakeup()

        for _ in range(2):
            with pytest.raises(WakeupError):
                await read()
        assert seen == list(range(10))

    in_task(node, place, scene)


def test_another_thread_wakes_the_one_that_waits(node: AnyCluster, place: TopicPartition) -> None:
    with reader_of(node, place) as consumer:
        consumer.seek(place, 10)
        waker = threading.Timer(0.1, consumer.wakeup)
        waker.start()
        with pytest.raises(WakeupError):
            consumer.getmany(timeout_ms=60_000)
        waker.join()
        consumer.seek(place, 9)
        assert consumer.getone().offset == 9


def test_a_signal_handler_wakes_the_thread_that_waits(node: AnyCluster, place: TopicPartition) -> None:
    with reader_of(node, place) as consumer:
        consumer.seek(place, 10)
        before = signal.signal(signal.SIGALRM, lambda *_: consumer.wakeup())
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(WakeupError):
                consumer.poll(60_000)
        finally:
            signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("way", ["poll", "iteration"])
def test_records_that_were_handed_over_wait_for_the_call_after_the_wakeup(
    node: AnyCluster, place: TopicPartition, way: str
) -> None:
    with reader_of(node, place) as consumer:
        seen = [record.offset for record in consumer.poll(60_000, max_records=3)[place]]
        consumer.wakeup()
        with pytest.raises(WakeupError):
            consumer.poll(60_000) if way == "poll" else next(iter(consumer))
        while len(seen) < 10:
            seen += [record.offset for record in consumer.poll(60_000).get(place, [])]
        assert seen == list(range(10))


def test_a_closed_consumer_may_be_woken(node: AnyCluster, place: TopicPartition) -> None:
    consumer = reader_of(node, place)
    consumer.close()
    consumer.wakeup()
