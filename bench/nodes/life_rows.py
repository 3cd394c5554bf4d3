"""Rows about a broker's own life: starting, idling, many topics, restarting. Each begins on an empty directory."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench.nodes import replay
from bench.nodes.brokers import Broker
from bench.nodes.processes import cpu_s, rss_mb
from bench.nodes.replay import Load
from bench.nodes.table import Bench, Measure, Row

SETTLE_S = 3
IDLE_S = 10
TOPICS = 1_000
MANY_PARTITIONS = 10_000
PARTITIONS_PER_TOPIC = 10
FEW = 8
SPREAD_IN_FLIGHT = 200
# CPU time is reported in hundredths of a second, which is as much as a thousand of these requests take.
TURNS = 5


def started(body: Callable[[Bench, Broker, float], tuple[float, ...]]) -> Callable[[Bench, Broker], tuple[float, ...]]:
    """The row with the broker started for it (its third argument: in how many seconds) and ended after it."""

    def run(bench: Bench, broker: Broker) -> tuple[float, ...]:
        start_s = broker.start()
        try:
            return body(bench, broker, start_s)
        finally:
            broker.kill()

    return run


def idle_percent(broker: Broker) -> float:
    time.sleep(SETTLE_S)
    before = cpu_s(broker.pid)
    time.sleep(IDLE_S)
    return (cpu_s(broker.pid) - before) / IDLE_S * 100


@started
def start_and_idle(bench: Bench, broker: Broker, start_s: float) -> tuple[float, ...]:
    idle = idle_percent(broker)
    return start_s, rss_mb(broker.pid), idle


def topics(per_request: int) -> Callable[[Bench, Broker], tuple[float, ...]]:
    @started
    def run(bench: Bench, broker: Broker, start_s: float) -> tuple[float, ...]:
        time.sleep(SETTLE_S)
        with broker.client() as client:
            begun = time.perf_counter()
            names = [f"topic-{number:05}" for number in range(TOPICS)]
            for first in range(0, TOPICS, per_request):
                client.create_topics(names[first : first + per_request], 1)
            client.wait_until_led(TOPICS)
            return (time.perf_counter() - begun,)

    return run


@started
def restart(bench: Bench, broker: Broker, start_s: float) -> tuple[float, ...]:
    """Until all partitions are led again; each holds a record, so that none is without files."""
    names = [f"topic-{number:05}" for number in range(TOPICS)]
    with broker.client() as client:
        for first in range(0, TOPICS, 100):
            client.create_topics(names[first : first + 100], 1)
        client.wait_until_led(TOPICS)
    replay.send_until_taken(broker.address, _one_record_each(names, 1), SPREAD_IN_FLIGHT)
    seconds = []
    for end in (broker.stop, broker.kill):
        end()
        begun = time.perf_counter()
        broker.start()
        with broker.client() as client:
            client.wait_until_led(TOPICS)
        seconds.append(time.perf_counter() - begun)
    return tuple(seconds)


@started
def many_partitions(bench: Bench, broker: Broker, start_s: float) -> tuple[float, ...]:
    """Written to and restarted; then the cost of one-record requests to all of them in turns, to a few, and to one."""
    names = [f"topic-{number:05}" for number in range(MANY_PARTITIONS // PARTITIONS_PER_TOPIC)]
    with broker.client() as client:
        for first in range(0, len(names), 100):
            client.create_topics(names[first : first + 100], PARTITIONS_PER_TOPIC)
        client.wait_until_led(MANY_PARTITIONS)
    everywhere = _one_record_each(names, PARTITIONS_PER_TOPIC)
    before = cpu_s(broker.pid)
    replay.send_all(broker.address, everywhere, SPREAD_IN_FLIGHT)
    # With the first record of a partition its files are made.
    first_us = (cpu_s(broker.pid) - before) / len(everywhere) * 1e6
    broker.stop()
    restart_s = broker.start()
    idle = idle_percent(broker)
    rss = rss_mb(broker.pid)
    few = everywhere[:: len(everywhere) // FEW] * (len(everywhere) // FEW)
    one = everywhere[:1] * len(everywhere)
    costs: list[list[float]] = [[], [], []]
    # The first round opens files; what lasts is what is compared.
    replay.send_all(broker.address, everywhere, SPREAD_IN_FLIGHT)
    for _ in range(3):
        for frames, cost in zip((everywhere * TURNS, few * TURNS, one * TURNS), costs, strict=True):
            before = cpu_s(broker.pid)
            replay.send_all(broker.address, frames, SPREAD_IN_FLIGHT)
            cost.append((cpu_s(broker.pid) - before) / len(frames) * 1e6)
    to_all, to_few, to_one = (min(cost) for cost in costs)
    return restart_s, rss, idle, first_us, to_all, to_few, to_one, to_few / to_one, to_all / to_one


def _one_record_each(topics: list[str], partitions: int) -> list[bytes]:
    batch = replay.batch_of(Load("", 1, 1, 1, 100))
    return [replay.produce_request(topic, number, batch, 1) for number in range(partitions) for topic in topics]


ROWS = (
    Row(
        "start",
        "one node, empty",
        (
            Measure("start to ready", "s", limit=0.3),
            Measure("RSS idle", "MB", limit=42),
            Measure("CPU idle", "%", limit=1),
        ),
        start_and_idle,
        needs_own_start=True,
    ),
    Row(
        "topics",
        "1,000 topics in 10 requests",
        (Measure("until all are led", "s", limit=1),),
        topics(100),
        rounds=2,
        needs_own_start=True,
    ),
    Row(
        "topics-single",
        "1,000 topics, one request each",
        (Measure("until all are led", "s", limit=2),),
        topics(1),
        rounds=2,
        needs_own_start=True,
    ),
    Row(
        "restart",
        "restart with 1,000 partitions",
        (Measure("clean", "s", limit=1), Measure("after kill -9", "s", limit=2)),
        restart,
        rounds=2,
        needs_own_start=True,
    ),
    Row(
        "partitions",
        "10,000 partitions",
        (
            Measure("start", "s", limit=10),
            Measure("RSS", "MB", limit=500),
            Measure("CPU idle", "%", limit=5),
            Measure("produce to each, its first record", "µs"),
            Measure("produce to all in turns", "µs"),
            Measure("produce to any few", "µs"),
            Measure("produce to one", "µs"),
            Measure("any few / one", "", limit=1.1),
            Measure("all in turns / one", "", limit=1.1),
        ),
        many_partitions,
        rounds=1,
        needs_own_start=True,
        alone=True,
    ),
)
