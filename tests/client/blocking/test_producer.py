"""The producer for threads, on a node of our own, or on Kafka with CORDWOOD_TEST_KAFKA=host:port."""

import threading
from typing import Any

import pytest

from cordwood import (
    ClientError,
    Closed,
    IllegalState,
    OffsetAndMetadata,
    Producer,
    SerializationFailed,
    TopicPartition,
)
from tests.client.any_cluster import AnyCluster
from tests.client.blocking_clients import consumer_of, fill


def test_a_record_is_promised_and_delivered(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic()
    metadata = producer.send(topic, "value", key="key", headers=[("h", b"1")]).result(30)
    assert (metadata.topic, metadata.partition, metadata.offset) == (topic, 0, 0)


def test_send_and_wait_returns_where_the_record_is(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic()
    assert [producer.send_and_wait(topic, str(number)).offset for number in range(3)] == [0, 1, 2]


def test_threads_share_a_producer_and_nothing_is_lost_or_twice(node: AnyCluster) -> None:
    topic = node.topic(partitions=4)
    with Producer(bootstrap_servers=node.bootstrap) as producer:

        def work(name: str) -> None:
            for number in range(500):
                producer.send(topic, f"{name} {number}", key=name)

        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with consumer_of(node, topic) as consumer:
        seen: dict[str, list[int]] = {name: [] for name in "abcd"}
        for record in consumer:
            name, number = record.value.decode().split()
            seen[name].append(int(number))
            if sum(map(len, seen.values())) == 2000:
                break
    assert seen == {name: list(range(500)) for name in "abcd"}


def test_the_end_of_with_delivers_sent_records(node: AnyCluster) -> None:
    topic = node.topic()
    with Producer(bootstrap_servers=node.bootstrap, linger_ms=60_000) as producer:
        delivery = producer.send(topic, "value")
        assert not delivery.done()
    assert delivery.result(0).offset == 0


def test_a_closed_producer_takes_nothing(node: AnyCluster) -> None:
    producer = Producer(bootstrap_servers=node.bootstrap)
    producer.close()
    producer.close()
    with pytest.raises(Closed):
        producer.send(node.topic(), "value")


def test_a_value_that_cannot_be_sent_is_refused_at_once(node: AnyCluster, producer: Producer) -> None:
    with pytest.raises(SerializationFailed):
        producer.send(node.topic(), object())


def test_delivery_callbacks_run_in_the_producers_thread(node: AnyCluster) -> None:
    heard: list[tuple[int, str]] = []
    done = threading.Event()

    def callback(delivery: Any) -> None:
        heard.append((delivery.result().offset, threading.current_thread().name))
        done.set()

    with Producer(bootstrap_servers=node.bootstrap, linger_ms=60_000) as producer:
        # Added before it is sent: the callback of a completed delivery runs at once.
        producer.send(node.topic(), "value").add_done_callback(callback)
        producer.flush()
    assert done.wait(30)
    assert heard == [(0, "the producer cordwood")]


def test_a_callback_that_would_deadlock_raises(node: AnyCluster) -> None:
    heard: list[ClientError] = []
    topic = node.topic()

    with Producer(bootstrap_servers=node.bootstrap) as producer:

        def callback(delivery: Any) -> None:
            for wait in (lambda: producer.send_and_wait(topic, "another"), producer.flush, producer.close):
                try:
                    wait()
                except ClientError as error:
                    heard.append(error)

        producer.send(topic, "value").add_done_callback(callback)
        producer.flush(30)
    assert [type(error) for error in heard] == [IllegalState] * 3


def test_many_records_are_one_call_and_one_promise(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic()
    delivered = producer.send_many((topic, f"{number}", "key") for number in range(1000)).result(30)
    assert delivered.record_count == 1000
    assert delivered.last_offsets == {TopicPartition(topic, 0): 999}


def test_columns_of_arrow_are_one_call_and_one_promise(node: AnyCluster, producer: Producer) -> None:
    pa = pytest.importorskip("pyarrow")
    topic = node.topic()
    table = pa.table({"who": ["a", "b", "c"], "what": [b"1", b"2", None]})
    assert producer.send_arrow(table, topic, key="who", value="what").result(30).record_count == 3
    with consumer_of(node, topic) as consumer:
        records = [consumer.getone() for _ in range(3)]
    assert [(record.key, record.value) for record in records] == [(b"a", b"1"), (b"b", b"2"), (b"c", None)]


def send_and_fail(producer: Producer, topic: str) -> None:
    with producer.transaction():
        producer.send(topic, "aborted")
        raise ZeroDivisionError


def test_a_transaction_is_read_when_it_is_committed_and_never_when_it_is_aborted(node: AnyCluster) -> None:
    topic = node.topic()
    with Producer(bootstrap_servers=node.bootstrap, transactional_id=topic) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(topic, "committed")
        with pytest.raises(ZeroDivisionError):
            send_and_fail(producer, topic)
        with producer.transaction():
            producer.send(topic, "committed, too")
    with consumer_of(node, topic, isolation_level="read_committed") as consumer:
        assert [consumer.getone().value for _ in range(2)] == [b"committed", b"committed, too"]


def test_offsets_are_committed_with_the_produced_records(node: AnyCluster, producer: Producer) -> None:
    source, target = node.topic(), node.topic()
    fill(producer, source, 3)
    with (
        consumer_of(node, source, enable_auto_commit=False) as consumer,
        Producer(bootstrap_servers=node.bootstrap, transactional_id=node.name("transforms")) as transforming,
    ):
        transforming.init_transactions()
        record = consumer.getone()
        with transforming.transaction():
            transforming.send(target, record.value.upper())
            offsets = {TopicPartition(source, 0): OffsetAndMetadata(record.offset + 1)}
            transforming.send_offsets_to_transaction(offsets, consumer.group_metadata())
        committed = consumer.committed(TopicPartition(source, 0))[TopicPartition(source, 0)]
    assert committed is not None
    assert committed.offset == 1
