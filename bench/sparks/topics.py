"""Topics for Spark to read, what is in those that it wrote, and a producer that writes while it reads."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from cordwood import Admin, Consumer, NewTopic, Producer, TopicPartition

PARTITIONS = 4
USERS = 1_000
_ROWS_AT_ONCE = 200_000
_FIRST_TIMESTAMP_MS = 1_700_000_000_000
_PACE_S = 0.002


def create(bootstrap: str, topic: str, partitions: int = PARTITIONS) -> str:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, partitions)])
    return topic


def fill_plain(bootstrap: str, topic: str, rows: int, batch_bytes: int) -> None:
    """Keys of 16 bytes, values of 100, each another."""
    fill(bootstrap, topic, rows, batch_bytes, lambda ids: pc.utf8_lpad(ids.cast(pa.string()), 100, "0"))


def fill_json(bootstrap: str, topic: str, rows: int, batch_bytes: int) -> None:
    """Objects as `session.JSON_SCHEMA` has them."""
    fill(bootstrap, topic, rows, batch_bytes, _json_values)


def fill(bootstrap: str, topic: str, rows: int, batch_bytes: int, values_of: Callable[[pa.Array], pa.Array]) -> None:
    """`values_of` has a value for each number of a record."""
    create(bootstrap, topic)
    with Producer(
        bootstrap_servers=bootstrap, batch_size=batch_bytes, max_request_size=4 * batch_bytes, linger_ms=50
    ) as producer:
        for begin in range(0, rows, _ROWS_AT_ONCE):
            ids = pa.array(range(begin, min(begin + _ROWS_AT_ONCE, rows)), pa.int64())
            partitions = pc.bit_wise_and(ids, PARTITIONS - 1).cast(pa.int32())
            keys = pc.utf8_lpad(ids.cast(pa.string()), 16, "0")
            batch = pa.RecordBatch.from_arrays([keys, values_of(ids)], ["key", "value"])
            producer.send_arrow(batch, topic, key="key", value="value", partition=partitions)
        producer.flush()
    if (found := count(bootstrap, topic)) != rows:
        raise RuntimeError(f"{topic} was filled with {found} rows instead of {rows}")


def _json_values(ids: pa.Array) -> pa.Array:
    chosen = random.Random(ids[0].as_py())
    users = pa.array([f"{chosen.randrange(USERS):03}" for _ in range(len(ids))])
    amounts = pa.array([f"{chosen.randrange(10_000_000) / 100:.2f}" for _ in range(len(ids))])
    times = pc.add(ids, _FIRST_TIMESTAMP_MS).cast(pa.string())
    parts = ['{"id":', ids.cast(pa.string()), ',"user":"u', users, '","amount":', amounts, ',"ts":', times, "}", ""]
    return pc.binary_join_element_wise(*parts)


def count(bootstrap: str, topic: str) -> int:
    """Committed records; it reads them all."""
    with Consumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_partition_fetch_bytes=8 << 20,
    ) as consumer:
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        rows = 0
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            rows += sum(batch.num_rows for batch in consumer.arrow(timeout_ms=100))
        return rows


@contextmanager
def fed(bootstrap: str, topic: str, partitions: int, per_second: float) -> Iterator[None]:
    """Meanwhile another process writes to all partitions in turns: the time of each record's making, in ns."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    feeder = context.Process(target=_feed, args=(bootstrap, topic, partitions, per_second, stop))
    feeder.start()
    try:
        yield
    finally:
        stop.set()
        feeder.join()


def _feed(bootstrap: str, topic: str, partitions: int, per_second: float, stop: Event) -> None:
    # A client that is neither's own, with 5 ms of linger.
    from confluent_kafka import Producer as LibrdkafkaProducer

    producer = LibrdkafkaProducer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    began = time.monotonic()
    sent = 0
    while not stop.is_set():
        due = int((time.monotonic() - began) * per_second)
        for number in range(sent, due):
            producer.produce(topic, b"%-100d" % time.time_ns(), b"%016d" % number, partition=number % partitions)
        sent = max(sent, due)
        producer.poll(0)
        time.sleep(_PACE_S)
    producer.flush(10)
