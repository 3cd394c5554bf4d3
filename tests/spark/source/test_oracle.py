"""The source reads the same as a read_committed consumer of librdkafka."""

import random
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import count, cycle
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError
from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import TopicPartition as Place

from tests.foreign_clients.kafka_client import eventually
from tests.foreign_clients.node_process import NodeProcess
from tests.spark.source_reading import batch_reader, create, fill, rows, stream_reader

pytest.importorskip("pyspark", minversion="4.2")

from pyspark.sql.streaming.datasource import ReadMaxRows

from cordwood import Admin, OffsetSpec, Producer, TopicPartition

KEYS = 400
TRANSACTIONS_PER_ROUND = 30

Read = list[tuple[int, int, bytes]]
# Segments are as small as can be.
COMING_AND_GOING = {
    "segment_bytes": str(1024 * 1024),
    "retention_bytes": str(1024 * 1024),
    "min_cleanable_dirty_ratio": "0.01",
    "file_delete_delay_ms": "100",
}
StartNode = Callable[..., NodeProcess]


def committed(bootstrap: str, topic: str, partitions: int) -> Read:
    """Partition, offset and value of all records, by librdkafka."""
    return committed_before_ends(bootstrap, topic, partitions)[0]


def committed_before_ends(bootstrap: str, topic: str, partitions: int) -> tuple[Read, dict[int, int]]:
    """With where each partition ended for it."""
    consumer = LibrdkafkaConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "oracle",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([Place(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
    found: Read = []
    ends: dict[int, int] = {}
    while len(ends) < partitions:
        message = consumer.poll(10)
        assert message is not None
        partition, offset, value, error = message.partition(), message.offset(), message.value(), message.error()
        assert partition is not None
        assert offset is not None
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ends.setdefault(partition, offset)
        elif partition not in ends:
            assert value is not None
            found.append((partition, offset, value))
    consumer.close()
    return sorted(found), ends


def as_read(found: list[dict[str, Any]]) -> Read:
    return [(row["partition"], row["offset"], row["value"]) for row in found]


def write_transactions(
    bootstrap: str,
    topic: str,
    name: str,
    seed: int,
    committed_values: set[bytes] | None = None,
    *,
    numbers: Iterable[int] = range(30),
    padding: bytes = b"",
) -> None:
    """Some commit and some abort, over both partitions; committed records are returned."""
    decide = random.Random(seed)
    with Producer(bootstrap_servers=bootstrap, transactional_id=name) as producer:
        producer.init_transactions()
        for number in numbers:
            producer.begin_transaction()
            values = [b"%s-%d-%d-" % (name.encode(), number, each) for each in range(decide.randrange(1, 20))]
            for value in values:
                key = b"%d" % decide.randrange(KEYS)
                producer.send(topic, value + padding, key=key, partition=decide.randrange(2))
            producer.flush()
            if decide.random() < 0.6:
                producer.commit_transaction()
                if committed_values is not None:
                    committed_values.update(value + padding for value in values)
            else:
                producer.abort_transaction()


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


def test_a_stream_beside_transactions_compaction_and_retention_reads_what_librdkafka_reads(
    own_node: StartNode, topic: str
) -> None:
    """While records come and go, two readers need not see the same: what librdkafka finds afterwards was there all the
    time, so it has to have been read, and what it found before is all that there was."""
    bootstrap = own_node({"log.cleaner.backoff.ms": "20", "log.retention.check.interval.ms": "50"}).bootstrap
    turns, told_enough = threading.Semaphore(0), threading.Event()
    told: list[set[bytes]] = [set() for _ in range(3)]
    stream: Read = []
    with (
        Admin(bootstrap_servers=bootstrap) as admin,
        Producer(bootstrap_servers=bootstrap, transactional_id=f"{topic}-open") as open_producer,
    ):
        create(admin, topic, 2, cleanup_policy="compact,delete", **COMING_AND_GOING)
        open_producer.init_transactions()
        writers = [
            threading.Thread(
                target=write_transactions,
                args=(bootstrap, topic, f"{topic}-{seed}", seed, told[seed]),
                kwargs={"numbers": in_turns(turns, told_enough), "padding": bytes(4_000)},
            )
            for seed in range(len(told))
        ]
        reader = stream_reader(
            bootstrap, topic, startingOffsets="earliest", maxOffsetsPerTrigger="300", failOnDataLoss="false"
        )
        limit, position = reader.getDefaultReadLimit(), reader.initialOffset()

        def read_on() -> bool:
            """One batch; whether there was anything."""
            nonlocal position
            before, position = position, reader.latestOffset(position, limit)
            stream.extend(as_read(rows(reader, reader.partitions(before, position))))
            return bool(position != before)

        for writer in writers:
            writer.start()
        # Until retention has taken what was first, and compaction something of what is left.
        for is_open in cycle((True, False)):
            # Every other time both readers come to a transaction that stays open.
            if is_open:
                open_producer.begin_transaction()
                open_producer.send(topic, b"never to be seen", key=b"0", partition=0).result()
            turns.release(TRANSACTIONS_PER_ROUND)
            earlier, earlier_ends = committed_before_ends(bootstrap, topic, 2)
            batch = batch_reader(bootstrap, topic, failOnDataLoss="false", minPartitions="4")
            tasks = batch.partitions()
            found = as_read(rows(batch, tasks))
            later = committed(bootstrap, topic, 2)
            assert [row for row in found if row[1] < earlier_ends[row[0]] and row not in earlier] == []
            ends = {wanted.partition.partition: wanted.end for task in tasks for wanted in task.ranges}
            assert [row for row in later if row[1] < ends.get(row[0], 0) and row not in found] == []
            read_on()
            read_on()
            if is_open:
                open_producer.abort_transaction()
            if all(start > 0 for start in starts(admin, topic)) and is_compacted(stream, later):
                break
        told_enough.set()
        turns.release(len(writers))
        for writer in writers:
            writer.join()
        while read_on():
            pass
        # Cleaned as far as it will be: then there is one answer.
        earlier, found, later = eventually(
            lambda: (
                committed(bootstrap, topic, 2),
                as_read(rows(batch_reader(bootstrap, topic, failOnDataLoss="false"))),
                committed(bootstrap, topic, 2),
            ),
            lambda three: three[0] == three[2],
        )
    assert sorted(found) == later
    assert set(later) <= set(stream)
    assert {value for _, _, value in stream} <= set().union(*told)
    for number in range(2):
        offsets = [offset for partition, offset, _ in stream if partition == number]
        assert offsets == sorted(set(offsets))


def in_turns(turns: threading.Semaphore, told_enough: threading.Event) -> Iterator[int]:
    """As many numbers as there are turns: the writer must not be too far ahead of the readers."""
    for number in count():
        turns.acquire()
        if told_enough.is_set():
            return
        yield number


def starts(admin: Admin, topic: str) -> list[int]:
    """Where the partitions begin: past what retention has taken."""
    wanted = {TopicPartition(topic, number): OffsetSpec.EARLIEST for number in range(2)}
    return [listed.offset for listed in admin.list_offsets(wanted).values()]


def is_compacted(once: Read, now: Read) -> bool:
    """True if there are gaps between the remaining records."""
    firsts: dict[int, int] = {}
    for number, offset, _ in now:
        firsts.setdefault(number, offset)
    kept = set(now)
    return any(
        number in firsts and offset > firsts[number] and (number, offset, value) not in kept
        for number, offset, value in once
    )


def test_ranges_with_compacted_records_are_read_to_their_end(own_node: StartNode, topic: str) -> None:
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
        tasks = reader.partitions()
        assert sum(task.size for task in tasks) == 101
        assert as_read(rows(reader, tasks)) == committed(bootstrap, topic, 1)


def test_a_task_waits_for_a_node_that_comes_back(own_node: StartNode, topic: str) -> None:
    process = own_node()
    bootstrap = process.bootstrap
    with Admin(bootstrap_servers=bootstrap) as admin, Producer(bootstrap_servers=bootstrap) as producer:
        create(admin, topic)
        fill(producer, topic, 5)
    tasks = batch_reader(bootstrap, topic).partitions()
    process.stop()
    starting = threading.Thread(target=process.start)
    starting.start()
    # Another client, so that the task has to connect again.
    task = batch_reader(bootstrap, topic, kafka__client__id="task")
    assert len(rows(task, tasks)) == 5
    starting.join()
