"""The rows of the table: the work of each of the two, and its measurements."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench.nodes.brokers import Broker
from bench.nodes.processes import cpu_s, settle
from bench.nodes.table import Measure
from bench.sparks import topics, typed
from bench.sparks.contestants import Contestant, WorkFailed
from bench.sparks.table import OURS

PLAIN, JSON = "plain", "json"
_TOUCHED_BYTES = 1 << 30
_LATENCY_PER_S = 2_000
_MANY_PARTITIONS = 1_000
# So few that a batch has some tasks, and planning is what takes the time.
_MANY_PARTITIONS_PER_S = 10


@dataclass(slots=True)
class Bench:
    """Parameters of the command line, and the broker that both use."""

    broker: Broker
    registry: str
    read_rows: int
    warm_s: float
    hold_s: float
    batch_bytes: int
    is_verbose: bool = False
    """Print each run, to show how a figure comes about."""
    _names: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def json_rows(self) -> int:
        return self.read_rows // 2

    @property
    def avro_rows(self) -> int:
        return self.read_rows // 4

    @property
    def write_rows(self) -> int:
        return self.read_rows // 2

    @property
    def rows_per_read_batch(self) -> int:
        return self.read_rows // 20

    @property
    def rows_per_write_batch(self) -> int:
        return self.read_rows // 10

    def fresh_topic(self, partitions: int = topics.PARTITIONS) -> str:
        """A new name each time: Spark keeps producers, which may still hold rows for an older one."""
        return topics.create(self.broker.bootstrap, f"bench-{next(self._names)}", partitions)

    def tell(self, contestant: Contestant, found: dict[str, Any]) -> None:
        if self.is_verbose:
            print(f"    {contestant.name}: {found}", flush=True)


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    title: str
    measures: tuple[Measure, ...]
    run: Callable[[Bench, Contestant], tuple[float, ...]]
    """A value for each measure."""
    needs: str | None = None
    """The topic that it reads."""
    rounds: int = 3
    alone: bool = False
    """Only ours: the connector has no Python workers."""


def batch_read(bench: Bench, contestant: Contestant) -> tuple[float, ...]:
    return _rate(bench, contestant, bench.read_rows, "read", topic=PLAIN)


def stream_read(bench: Bench, contestant: Contestant) -> tuple[float, ...]:
    return _rate(bench, contestant, bench.read_rows, "stream_read", topic=PLAIN, per_trigger=None)


def stream_read_in_batches(bench: Bench, contestant: Contestant) -> tuple[float, ...]:
    per_trigger = bench.rows_per_read_batch
    return _rate(bench, contestant, bench.read_rows, "stream_read", topic=PLAIN, per_trigger=per_trigger)


def json_read(bench: Bench, contestant: Contestant) -> tuple[float, ...]:
    return _rate(bench, contestant, bench.json_rows, "json", topic=JSON)


def avro_flat(bench: Bench, contestant: Contestant) -> tuple[float, ...]:
    return _avro(bench, contestant, typed.FLAT)


def avro_nested(bench: Bench, contestant: Contestant) -> tuple[float, ...]:
    return _avro(bench, contestant, typed.NESTED)


def _avro(bench: Bench, contestant: Contestant, topic: typed.TypedTopic) -> tuple[float, ...]:
    schema = json.dumps(topic.schema)
    return _rate(bench, contestant, bench.avro_rows, "avro", topic=topic.name, registry=bench.registry, schema=schema)


def batch_write(bench: Bench, contestant: Contestant) -> tuple[float, ...]:
    contestant.ask("cache", rows=bench.write_rows)
    topic = bench.fresh_topic()
    settle(_TOUCHED_BYTES)
    measured = _rate(bench, contestant, bench.write_rows, "write", topic=topic)
    contestant.ask("cache", rows=0)
    if (found := topics.count(bench.broker.bootstrap, topic)) != bench.write_rows:
        raise WorkFailed(f"{contestant.name} wrote {found} rows instead of {bench.write_rows}")
    return measured


def stream_write(bench: Bench, contestant: Contestant) -> tuple[float, ...]:
    topic = bench.fresh_topic()
    settle(_TOUCHED_BYTES)
    per_batch = bench.rows_per_write_batch
    batches = bench.write_rows // per_batch
    measured = _rate(
        bench, contestant, batches * per_batch, "stream_write", topic=topic, batches=batches, per_batch=per_batch
    )
    # The query was stopped in the batch after these.
    if (found := topics.count(bench.broker.bootstrap, topic)) < batches * per_batch:
        raise WorkFailed(f"{contestant.name} wrote {found} rows instead of {batches * per_batch}")
    return measured


def latency(bench: Bench, contestant: Contestant) -> tuple[float, ...]:
    """From a record's making to where the application has it."""
    topic = bench.fresh_topic()
    with topics.fed(bench.broker.bootstrap, topic, topics.PARTITIONS, _LATENCY_PER_S):
        found = contestant.ask("follow", topic=topic, warm_s=bench.warm_s, hold_s=bench.hold_s)
    if found["rows"] < 0.9 * _LATENCY_PER_S * bench.hold_s:
        raise WorkFailed(f"{contestant.name} does not keep up: it saw {found['rows']} rows in {bench.hold_s:g} s")
    bench.tell(contestant, found)
    return found["median_ms"], found["p99_ms"]


def planning(bench: Bench, contestant: Contestant) -> tuple[float, ...]:
    topic = bench.fresh_topic(_MANY_PARTITIONS)
    with topics.fed(bench.broker.bootstrap, topic, _MANY_PARTITIONS, _MANY_PARTITIONS_PER_S):
        found = contestant.ask("follow", topic=topic, warm_s=bench.warm_s / 2, hold_s=bench.hold_s / 2)
    bench.tell(contestant, found)
    return (found["planning_ms"],)


def first_row(bench: Bench, contestant: Contestant) -> tuple[float, ...]:
    """From `getOrCreate()` on; and with the session that Cordwood makes, which the connector has no use for, without
    and with the archive that `cordwood pipeline prepare` makes."""
    seconds = []
    for prepared, archived in ((False, False), (True, False), (True, True)):
        contestant.stop()
        ours = contestant.name == OURS
        found = contestant.ask("first_row", topic=PLAIN, prepared=prepared and ours, archived=archived and ours)
        bench.tell(contestant, found)
        seconds.append(found["seconds"])
    contestant.stop()
    return tuple(seconds)


def worker_memory(bench: Bench, contestant: Contestant) -> tuple[float, ...]:
    """Includes everything done before."""
    contestant.ask("read", topic=PLAIN)
    return (contestant.workers_peak_mb,)


def _rate(bench: Bench, contestant: Contestant, rows: int, work: str, **arguments: object) -> tuple[float, ...]:
    """Million rows a second; µs of processor time of Spark and of the broker for each row."""
    spark_before, broker_before = contestant.cpu_s(), cpu_s(bench.broker.pid)
    found = contestant.ask(work, **arguments)
    spark_s, broker_s = contestant.cpu_s() - spark_before, cpu_s(bench.broker.pid) - broker_before
    if found.get("rows", rows) != rows:
        raise WorkFailed(f"{contestant.name}: {work} had {found['rows']} rows instead of {rows}")
    rate = rows / found["seconds"] / 1e6
    bench.tell(contestant, found | {"work": work, "M_rows_per_s": round(rate, 3)})
    return rate, spark_s / rows * 1e6, broker_s / rows * 1e6


def _rates(ratio: float) -> tuple[Measure, ...]:
    return (
        Measure("M rows/s", "", higher_is_better=True, ratio=ratio),
        Measure("Spark, µs of CPU a row", ""),
        Measure("broker, µs of CPU a row", ""),
    )


ROWS = (
    Row(
        "first-row",
        "first row after starting Spark",
        (
            Measure("s", "", ratio=1),
            Measure("cordwood.spark.session(), s", "", ratio=1),
            Measure("and pipeline prepare, s", "", ratio=1),
        ),
        first_row,
        PLAIN,
        rounds=2,
    ),
    Row("read", "batch read, all columns", _rates(2), batch_read, PLAIN),
    Row("stream-read", "AvailableNow in one batch", _rates(2), stream_read, PLAIN),
    Row("stream-batches", "AvailableNow in 20 batches", _rates(2), stream_read_in_batches, PLAIN),
    Row("json", "JSON values, summed up", _rates(2), json_read, JSON),
    Row("avro-flat", "Avro values of 10 fields, as structs", _rates(2), avro_flat, typed.FLAT.name),
    Row("avro-nested", "Avro values, nested, as structs", _rates(1.5), avro_nested, typed.NESTED.name),
    Row("write", "batch write of cached rows", _rates(1.5), batch_write),
    Row("stream-write", "streaming write in 5 batches", _rates(1), stream_write),
    Row(
        "latency",
        "2,000 records/s to foreachBatch",
        (Measure("median, ms", ""), Measure("p99, ms", "", ratio=1)),
        latency,
        rounds=2,
    ),
    Row(
        "planning",
        "1,000 partitions, planning of a micro-batch",
        (Measure("ms", "", limit=1_000),),
        planning,
        rounds=1,
    ),
    Row(
        "memory",
        "peak of a Python worker",
        (Measure("MB", "", limit=300),),
        worker_memory,
        PLAIN,
        rounds=1,
        alone=True,
    ),
)
