"""The consumer for threads, on a node of our own, or on Kafka with CORDWOOD_TEST_KAFKA=host:port."""

import os
import signal
import threading
from typing import Any

import pytest

from cordwood import (
    Closed,
    Consumer,
    IllegalState,
    Producer,
    SerializationFailed,
    TopicPartition,
)
from tests.client.any_cluster import AnyCluster
from tests.client.blocking_clients import consumer_of, fill


def test_records_come_in_order_by_iteration(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic()
    fill(producer, topic, 25)
    with consumer_of(node, topic) as consumer:
        records = iter(consumer)
        assert [next(records).value for _ in range(25)] == [b"%d" % number for number in range(25)]


def test_records_come_in_order_by_poll_and_no_more_than_requested(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic()
    fill(producer, topic, 100)
    with consumer_of(node, topic, max_poll_records=7) as consumer:
        values: list[bytes] = []
        while len(values) < 100:
            for records in consumer.poll(timeout_ms=1000).values():
                assert len(records) <= 7
                values += [record.value for record in records]
    assert values == [b"%d" % number for number in range(100)]


def test_the_position_follows_polled_records_not_handed_over_ones(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic()
    fill(producer, topic, 100)
    with consumer_of(node, topic, max_poll_records=10) as consumer:
        while not consumer.poll(timeout_ms=1000):
            pass
        assert consumer.position(TopicPartition(topic, 0)) == 10
        consumer.commit()
        committed = consumer.committed(TopicPartition(topic, 0))[TopicPartition(topic, 0)]
    assert committed is not None
    assert committed.offset == 10


def test_the_position_is_behind_the_record_that_an_iteration_gave_last(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic()
    fill(producer, topic, 100)
    with consumer_of(node, topic) as consumer:
        for record in consumer:
            if record.offset == 41:
                break
        assert consumer.position(TopicPartition(topic, 0)) == 42


def test_a_seek_counts_for_the_next_record_of_a_poll_and_of_an_iteration(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic()
    partition = TopicPartition(topic, 0)
    fill(producer, topic, 100)
    with consumer_of(node, topic, max_poll_records=5) as consumer:
        while not consumer.poll(timeout_ms=1000):
            pass
        consumer.seek(partition, 50)
        while not (polled := consumer.poll(timeout_ms=1000)):
            pass
        assert polled[partition][0].offset == 50
        records = iter(consumer)
        next(records)
        consumer.seek(partition, 70)
        assert next(records).offset == 70


def test_paused_partitions_return_nothing_even_if_handed_over(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic()
    fill(producer, topic, 100)
    with consumer_of(node, topic, max_poll_records=5) as consumer:
        while not consumer.poll(timeout_ms=1000):
            pass
        consumer.pause(TopicPartition(topic, 0))
        assert consumer.poll() == {}
        consumer.resume(TopicPartition(topic, 0))
        while not (polled := consumer.poll(timeout_ms=1000)):
            pass
        assert polled[TopicPartition(topic, 0)][0].offset == 5


def test_batches_are_of_one_partition_each(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic(partitions=2)
    for number in range(20):
        producer.send(topic, str(number), partition=number % 2)
    producer.flush()
    seen: dict[int, list[int]] = {0: [], 1: []}
    with consumer_of(node, topic) as consumer:
        for partition, records in consumer.batches():
            seen[partition.partition] += [int(record.value) for record in records]
            if sum(map(len, seen.values())) == 20:
                break
    assert seen == {0: list(range(0, 20, 2)), 1: list(range(1, 20, 2))}


def test_arrow_gives_record_batches_and_ends_when_nothing_comes(node: AnyCluster, producer: Producer) -> None:
    pytest.importorskip("pyarrow")
    topic = node.topic()
    fill(producer, topic, 30)
    with consumer_of(node, group_id=None) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        values = [value for batch in consumer.arrow(timeout_ms=1000) for value in batch["value"].to_pylist()]
    assert values == [b"%d" % number for number in range(30)]


class Listener:
    """Records its calls, and their threads; commits before it lets go."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.heard: list[tuple[str, str]] = []

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self.heard.append(("assigned", threading.current_thread().name))

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self.heard.append(("revoked", threading.current_thread().name))
        self.consumer.commit()

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        self.heard.append(("lost", threading.current_thread().name))


def test_listeners_are_called_in_the_thread_that_reads_and_may_call_the_consumer(
    node: AnyCluster, producer: Producer
) -> None:
    topic = node.topic()
    fill(producer, topic, 3)
    group = node.name("listens")
    consumer = consumer_of(node, group_id=group, enable_auto_commit=False)
    listener = Listener(consumer)
    with consumer:
        consumer.subscribe([topic], listener=listener)
        assert consumer.getone().offset == 0
    mine = threading.current_thread().name
    assert listener.heard == [("assigned", mine), ("revoked", mine)]
    with consumer_of(node, topic, group_id=group) as successor:
        assert successor.getone().offset == 1


def test_exceptions_of_a_listener_are_raised_by_the_reading_call(node: AnyCluster) -> None:
    class Fails(Listener):
        def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
            raise ZeroDivisionError("the application's own")

    topic = node.topic()
    with consumer_of(node) as consumer:
        consumer.subscribe([topic], listener=Fails(consumer))
        with pytest.raises(ZeroDivisionError, match="the application's own"):
            consumer.getone()


@pytest.mark.parametrize("end", ["close", "unsubscribe"])
def test_a_listener_may_leave_the_group(node: AnyCluster, producer: Producer, end: str) -> None:
    class Ends(Listener):
        def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
            super().on_partitions_assigned(assigned)
            getattr(self.consumer, end)()

    topic = node.topic()
    fill(producer, topic, 3)
    with consumer_of(node) as consumer:
        listener = Ends(consumer)
        consumer.subscribe([topic], listener=listener)
        with pytest.raises(Closed if end == "close" else IllegalState):
            consumer.getone()
        assert [word for word, _ in listener.heard] == ["assigned", "revoked"]


def test_a_callback_of_a_commit_is_called_in_the_thread_that_reads(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic()
    fill(producer, topic, 3)
    heard: list[tuple[Any, str]] = []
    with consumer_of(node, topic, enable_auto_commit=False) as consumer:
        consumer.getone()
        consumer.commit_async(callback=lambda offsets, error: heard.append((error, threading.current_thread().name)))
        while not heard:
            consumer.poll(timeout_ms=100)
    assert heard == [(None, threading.current_thread().name)]


def test_a_second_thread_is_refused_while_the_first_reads(node: AnyCluster) -> None:
    reading = threading.Event()
    refused: list[IllegalState] = []

    class Waits(Listener):
        def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
            reading.set()
            tried.wait()

    tried = threading.Event()
    topic = node.topic()
    with consumer_of(node) as consumer:
        consumer.subscribe([topic], listener=Waits(consumer))

        def try_from_another() -> None:
            reading.wait()
            try:
                consumer.poll()
            except IllegalState as error:
                refused.append(error)
            tried.set()

        other = threading.Thread(target=try_from_another, name="the other")
        other.start()
        while not tried.is_set():
            consumer.poll(timeout_ms=1000)
        other.join()
    assert "serves one thread at a time; give thread the other its own" in str(refused[0])


def read_until_interrupted(consumer: Consumer) -> None:
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    consumer.getmany(timeout_ms=None)


def test_control_c_ends_a_poll_that_waits_and_the_consumer_can_be_used_on(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic()
    with consumer_of(node, group_id=None) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert consumer.position(TopicPartition(topic, 0)) == 0
        with pytest.raises(KeyboardInterrupt):
            read_until_interrupted(consumer)
        fill(producer, topic, 1)
        assert consumer.getone().offset == 0


def test_interceptors_see_all_records(node: AnyCluster, producer: Producer) -> None:
    class DropsOdd:
        def on_consume(self, records: dict[TopicPartition, list[Any]]) -> dict[TopicPartition, list[Any]]:
            return {
                partition: [record for record in each if record.offset % 2 == 0] for partition, each in records.items()
            }

    topic = node.topic()
    fill(producer, topic, 40)
    for way in ("iteration", "poll"):
        with consumer_of(node, interceptors=[DropsOdd()], max_poll_records=3) as consumer:
            consumer.subscribe([topic])
            offsets: list[int] = []
            if way == "iteration":
                records = iter(consumer)
                offsets = [next(records).offset for _ in range(20)]
            else:
                while len(offsets) < 20:
                    offsets += [record.offset for each in consumer.poll(1000).values() for record in each]
            assert offsets == list(range(0, 40, 2))


def number_or_fail(value: bytes) -> int:
    """Where it is called is the application's thread."""
    assert threading.current_thread() is threading.main_thread()
    return int(value)


@pytest.mark.parametrize("way", ["iteration", "poll", "getone"])
def test_deserializers_run_in_the_reading_thread_and_failures_are_repeated(
    node: AnyCluster, producer: Producer, way: str
) -> None:
    topic = node.topic()
    partition = TopicPartition(topic, 0)
    for value in ["0", "1", "two", "3", *map(str, range(4, 40))]:
        producer.send(topic, value)
    producer.flush()
    with consumer_of(node, topic, value_deserializer=number_or_fail, max_poll_records=5) as consumer:
        values: list[int] = []

        def read() -> None:
            if way == "iteration":
                for record in consumer:
                    values.append(record.value)
            while way == "poll":
                values.extend(record.value for records in consumer.poll(1000).values() for record in records)
            while way == "getone":
                values.append(consumer.getone().value)

        for _ in range(2):
            with pytest.raises(SerializationFailed, match=r"offset 2 cannot be deserialized.*seek past it"):
                read()
            assert consumer.position(partition) == 2
        consumer.seek(partition, 3)
        while len(values) < 39:
            values += [record.value for records in consumer.poll(1000).values() for record in records]
    assert values == [0, 1, *range(3, 40)]
