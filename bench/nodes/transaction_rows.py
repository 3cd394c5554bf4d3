"""Rows of transactions: one librdkafka producer, small transactions one after the other, and what they cost on top of
the same records without."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import Producer

from bench.nodes.brokers import Broker
from bench.nodes.processes import cpu_s
from bench.nodes.table import Bench, Measure, Row

PARTITIONS = 4
RECORDS = 100
TRANSACTIONS = 1_000
WARM_UP = 100
_VALUE = bytes(100)
_TIMEOUT_S = 60


def transactions(bench: Bench, broker: Broker) -> tuple[float, ...]:
    """Transactions a second, their median and 99th percentile in ms, broker's CPU ms for each; and how many ms each
    takes longer than the same records by an idempotent producer that waits for them."""
    topic = bench.topic("transactions")
    count = max(WARM_UP, int(TRANSACTIONS * bench.scale))
    with broker.client() as client:
        client.create_topic(topic, PARTITIONS)
        plain_s, _ = _measure(broker, count, _idempotent(broker, topic))
        taken_s, spent_s = _measure(broker, count, _transactional(broker, topic))
        client.delete_topic(topic)
    taken_s.sort()
    total_s = sum(taken_s)
    return (
        count / total_s,
        taken_s[count // 2] * 1e3,
        taken_s[int(count * 0.99)] * 1e3,
        spent_s / count * 1e3,
        (total_s - sum(plain_s)) / count * 1e3,
    )


def _measure(broker: Broker, count: int, once: Callable[[], None]) -> tuple[list[float], float]:
    for _ in range(WARM_UP):
        once()
    before = cpu_s(broker.pid)
    taken_s = []
    for _ in range(count):
        began = time.perf_counter()
        once()
        taken_s.append(time.perf_counter() - began)
    return taken_s, cpu_s(broker.pid) - before


def _idempotent(broker: Broker, topic: str) -> Callable[[], None]:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})

    def once() -> None:
        _produce(producer, topic)
        assert not producer.flush(_TIMEOUT_S)

    return once


def _transactional(broker: Broker, topic: str) -> Callable[[], None]:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(_TIMEOUT_S)

    def once() -> None:
        producer.begin_transaction()
        _produce(producer, topic)
        producer.commit_transaction(_TIMEOUT_S)

    return once


def _produce(producer: Producer, topic: str) -> None:
    for number in range(RECORDS):
        producer.produce(topic, _VALUE, partition=number % PARTITIONS)
    producer.poll(0)


ROWS = (
    Row(
        "transactions",
        f"transactions, {RECORDS} records, {PARTITIONS} partitions",
        (
            Measure("rate", "/s", higher_is_better=True, ratio=1.0, limit=400),
            Measure("p50", "ms"),
            Measure("p99", "ms", ratio=1.0),
            Measure("broker CPU", "ms each"),
            Measure("over idempotent", "ms each"),
        ),
        transactions,
    ),
)
