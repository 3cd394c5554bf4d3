"""What the source reads is what a read_committed consumer of librdkafka reads."""

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import TopicPartition as Place
from kafka_client import eventually
from node_process import NodeProcess
from source_reading import batch_reader, create, fill, rows, stream_reader

pytest.importorskip("pyspark", minversion="4.2")

from pyspark.sql.streaming.datasource import ReadMaxRows

from cordwood import Admin, Producer

Read = list[tuple[int, int, bytes]]
StartNode = Callable[..., NodeProcess]


def committed(bootstrap: str, topic: str, partitions: int) -> Read:
    """Partition, offset and value of all records, by librdkafka."""
    consumer = LibrdkafkaConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "oracle",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([Place(topic, number, 0) for number in range(partitions)])
    found: Read = []
    ended: set[int] = set()
    while len(ended) < partitions:
        message = consumer.poll(10)
        assert message is not None
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        if message.error() is not None:
            ended.add(partition)
        else:
            assert offset is not None
            assert value is not None
            found.append((partition, offset, value))
    consumer.close()
    return sorted(found)


def as_read(found: list[dict[str, Any]]) -> Read:
    return [(row["partition"], row["offset"], row["value"]) for row in found]


def write_transactions(bootstrap: str, topic: str, name: str, seed: int) -> None:
    """Some commit and some abort, over both partitions; the last stays as it is until it is aborted."""
    decide = random.Random(seed)
    with Producer(bootstrap_servers=bootstrap, transactional_id=name) as producer:
        producer.init_transactions()
        for number in range(30):
            producer.begin_transaction()
            for each in range(decide.randrange(1, 20)):
                producer.send(topic, b"%s-%d-%d" % (name.encode(), number, each), partition=decide.randrange(2))
            producer.flush()
            producer.commit_transaction() if decide.random() < 0.6 else producer.abort_transaction()


def test_a_stream_beside_transactions_reads_what_librdkafka_reads(node: NodeProcess, admin: Admin, topic: str) -> None:
    create(admin, topic, 2)
    writers = [
        threading.Thread(target=write_transactions, args=(node.bootstrap, topic, f"{topic}-{seed}", seed))
        for seed in range(3)
    ]
    reader = stream_reader(node.bootstrap, topic, startingOffsets="earliest", maxOffsetsPerTrigger="70")
    limit = reader.getDefaultReadLimit()
    assert isinstance(limit, ReadMaxRows)
    found: Read = []
    position = reader.initialOffset()
    for writer in writers:
        writer.start()
    is_last = False
    while not is_last:
        # Once more after the writers are done, until nothing is left.
        are_done = not any(writer.is_alive() for writer in writers)
        end = reader.latestOffset(position, limit)
        is_last = are_done and end == position
        found += as_read(rows(reader, reader.partitions(position, end)))
        position = end
    for writer in writers:
        writer.join()
    assert sorted(found) == committed(node.bootstrap, topic, 2)
    assert len(found) > 100
    # In order within each partition, whatever the batches were.
    for number in range(2):
        offsets = [offset for partition, offset, _ in found if partition == number]
        assert offsets == sorted(set(offsets))


def test_ranges_over_what_compaction_has_taken_are_read_to_their_end(own_node: StartNode, topic: str) -> None:
    bootstrap = own_node({"log.cleaner.backoff.ms": "50"}).bootstrap
    long_ago_ms = 1_600_000_000_000
    with Admin(bootstrap_servers=bootstrap) as admin, Producer(bootstrap_servers=bootstrap) as producer:
        create(admin, topic, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", segment_ms="1000")
        for generation in range(5):
            for key in range(20):
                producer.send(topic, b"%d" % generation, key=b"%d" % key, timestamp_ms=long_ago_ms)
            producer.flush()
        # The active segment is not compacted; a much later record has it rolled.
        producer.send(topic, b"last", key=b"last", timestamp_ms=long_ago_ms + 3_600_000).result()
        eventually(lambda: len(committed(bootstrap, topic, 1)), lambda count: count == 21)
        reader = batch_reader(bootstrap, topic, minPartitions="6")
        ranges = reader.partitions()
        assert sum(wanted.size for wanted in ranges) == 101
        assert as_read(rows(reader, ranges)) == committed(bootstrap, topic, 1)


def test_a_task_waits_for_a_node_that_comes_back(own_node: StartNode, topic: str) -> None:
    process = own_node()
    bootstrap = process.bootstrap
    with Admin(bootstrap_servers=bootstrap) as admin, Producer(bootstrap_servers=bootstrap) as producer:
        create(admin, topic)
        fill(producer, topic, 5)
    ranges = batch_reader(bootstrap, topic).partitions()
    process.stop()
    starting = threading.Thread(target=process.start)
    starting.start()
    # Another client, so that the task has to connect anew.
    task = batch_reader(bootstrap, topic, kafka__client__id="task")
    assert len(rows(task, ranges)) == 5
    starting.join()
