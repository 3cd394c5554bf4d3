"""Rows that load a running broker: produce, consume, small requests, latency."""

from __future__ import annotations

from bench.nodes import latency, replay
from bench.nodes.brokers import Broker
from bench.nodes.processes import cpu_s, rss_mb, settle
from bench.nodes.replay import Load
from bench.nodes.table import Bench, Measure, Row
from cordwood.wire.compression import Codec

PARTITIONS = 4
# Under load librdkafka fills its batches towards 1 MB; 1,000 records are what it has when a broker keeps up with it.
RECORDS_PER_REQUEST = 1_000
IN_FLIGHT = 8
# A producer that numbers its batches has at most five in flight (max.in.flight.requests.per.connection).
IN_FLIGHT_IDEMPOTENT = 5
SMALL_IN_FLIGHT = 200
FETCH_BYTES = 1 << 20
FETCHES_IN_FLIGHT = 4
TOUCHED_BYTES = 1 << 30


def produce(bench: Bench, broker: Broker, load: Load, in_flight: int = IN_FLIGHT) -> tuple[float, float]:
    """Million records a second, broker's CPU seconds per million."""
    with broker.client() as client:
        client.create_topic(load.topic, load.partitions)
        if load.producer:
            load.producer = client.new_producer()
        settle(TOUCHED_BYTES)
        before = cpu_s(broker.pid)
        elapsed_s = replay.produce(broker.address, load, in_flight)
        spent = cpu_s(broker.pid) - before
        client.delete_topic(load.topic)
    return load.records / elapsed_s / 1e6, spent / load.records * 1e6


def _requests(bench: Bench, records: int, per_request: int) -> int:
    requests = int(records * bench.scale) // per_request
    return max(PARTITIONS, requests - requests % PARTITIONS)


def produce_100(bench: Bench, broker: Broker) -> tuple[float, ...]:
    requests = _requests(bench, 4_000_000, RECORDS_PER_REQUEST)
    return produce(bench, broker, Load(bench.topic("produce"), PARTITIONS, requests, RECORDS_PER_REQUEST, 100))


def produce_1k(bench: Bench, broker: Broker) -> tuple[float, ...]:
    per_request = 500
    requests = _requests(bench, 600_000, per_request)
    return produce(bench, broker, Load(bench.topic("produce1k"), PARTITIONS, requests, per_request, 1024, acks=-1))


def produce_lz4(bench: Bench, broker: Broker) -> tuple[float, ...]:
    requests = _requests(bench, 4_000_000, RECORDS_PER_REQUEST)
    load = Load(bench.topic("lz4"), PARTITIONS, requests, RECORDS_PER_REQUEST, 100, codec=Codec.LZ4)
    return produce(bench, broker, load)


def produce_idempotent(bench: Bench, broker: Broker) -> tuple[float, ...]:
    requests = _requests(bench, 4_000_000, RECORDS_PER_REQUEST)
    load = Load(bench.topic("idempotent"), PARTITIONS, requests, RECORDS_PER_REQUEST, 100, acks=-1, producer=(0, 0))
    return produce(bench, broker, load, IN_FLIGHT_IDEMPOTENT)


def one_record_requests(bench: Bench, broker: Broker) -> tuple[float, ...]:
    load = Load(bench.topic("single"), PARTITIONS, _requests(bench, 40_000, 1), 1, 100)
    millions_per_s, cpu_s_per_million = produce(bench, broker, load, SMALL_IN_FLIGHT)
    return millions_per_s * 1e6, cpu_s_per_million


def consume(bench: Bench, broker: Broker) -> tuple[float, ...]:
    """For a log that was just written: it is in the page cache."""
    requests = _requests(bench, 4_000_000, RECORDS_PER_REQUEST)
    load = Load(bench.topic("consume"), PARTITIONS, requests, RECORDS_PER_REQUEST, 100)
    with broker.client() as client:
        client.create_topic(load.topic, load.partitions)
        replay.produce(broker.address, load, IN_FLIGHT)
        before = cpu_s(broker.pid)
        elapsed_s = replay.consume(broker.address, load, FETCH_BYTES, FETCHES_IN_FLIGHT)
        spent = cpu_s(broker.pid) - before
        client.delete_topic(load.topic)
    return load.records / elapsed_s / 1e6, spent / load.records * 1e6


def end_to_end(bench: Bench, broker: Broker, rate: int, linger_ms: int) -> tuple[float, ...]:
    topic = bench.topic("latency")
    with broker.client() as client:
        client.create_topic(topic, 1)
        before = cpu_s(broker.pid)
        measured = latency.measure(broker.bootstrap, topic, rate, bench.latency_s, linger_ms)
        spent = cpu_s(broker.pid) - before
        client.delete_topic(topic)
    share = spent / (bench.latency_s + latency.WARM_UP_S) * 100
    return measured.p50_ms, measured.p99_ms, measured.p999_ms, share


def after_load(bench: Bench, broker: Broker) -> tuple[float, ...]:
    return (rss_mb(broker.pid),)


def _bulk(rate_ratio: float, cpu_ratio: float | None = None) -> tuple[Measure, Measure]:
    return (
        Measure("rate", "M/s", higher_is_better=True, ratio=rate_ratio),
        Measure("broker CPU", "s/M", ratio=cpu_ratio),
    )


def _latency(ratio: float | None, limit_ms: float | None = None) -> tuple[Measure, ...]:
    return (
        Measure("p50", "ms"),
        Measure("p99", "ms", ratio=ratio, limit=limit_ms),
        Measure("p99.9", "ms"),
        Measure("broker CPU", "%"),
    )


ROWS = (
    Row("produce", "produce 100 B, acks=1", _bulk(1.0, 0.7), produce_100),
    Row("produce1k", "produce 1 KiB, acks=all", _bulk(1.1, 0.6), produce_1k),
    Row("lz4", "produce 100 B, lz4", _bulk(1.0), produce_lz4),
    Row("idempotent", "produce 100 B, idempotent", _bulk(1.0), produce_idempotent),
    Row("consume", "consume 100 B", _bulk(1.0, 1.0), consume),
    Row(
        "single",
        "one-record requests",
        (Measure("rate", "/s", higher_is_better=True, ratio=6), Measure("broker CPU", "µs each")),
        one_record_requests,
    ),
    Row(
        "latency1k",
        "end to end, 1,000/s, linger 0",
        _latency(0.7),
        lambda bench, broker: end_to_end(bench, broker, 1_000, 0),
    ),
    Row(
        "latency5k",
        "end to end, 5,000/s, linger 0",
        _latency(None, 5),
        lambda bench, broker: end_to_end(bench, broker, 5_000, 0),
    ),
    Row(
        "latency5k-linger5",
        "end to end, 5,000/s, linger 5 ms",
        _latency(1.0),
        lambda bench, broker: end_to_end(bench, broker, 5_000, 5),
    ),
    Row("rss", "after this load", (Measure("RSS", "MB", limit=100),), after_load, rounds=1),
)
