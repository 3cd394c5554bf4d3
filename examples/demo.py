"""`make demo`: 200,000 orders on three brokers, counted exactly once by a pipeline on Spark. The pipeline is killed in
the middle, and later a broker is. Orders are Avro, and in the middle their schema gets another field.

The pipeline is examples/spark/order_windows.py; `cordwood pipeline run` runs it, as you would.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

import cordwood.testing
from cordwood import Consumer, Producer, TopicPartition
from cordwood.registry import RegistryClient, RegistryRefused, Serializer

BROKERS, PARTITIONS, BATCHES = 3, 3, 10
KILLED_AFTER_BATCHES = 3
# The others are placed after the pipeline was killed, by producers with the second version of the schema.
FIRST_VERSION_BATCHES = 7
BEGIN, APART = datetime(2026, 1, 1, tzinfo=UTC), timedelta(milliseconds=100)
PATIENCE_S = 600.0

PIPELINE = Path(__file__).parent / "spark" / "order_windows.py"
ITEMS = ("candles", "matches", "logs", "axes")
CHANNELS = ("web", "phone")

SUBJECT = "orders-value"
_FIELDS: list[dict[str, Any]] = [
    {"name": "order", "type": "long"},
    {"name": "item", "type": "string"},
    {"name": "amount", "type": "int"},
    {"name": "placed_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
]


def schema_of(fields: Sequence[dict[str, Any]]) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


FIRST = schema_of(_FIELDS)
SECOND = schema_of([*_FIELDS, {"name": "channel", "type": "string", "default": "shop"}])
WITHOUT_DEFAULT = schema_of([*_FIELDS, {"name": "channel", "type": "string"}])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="for the brokers' data and the query's checkpoint")
    parser.add_argument("--orders", type=int, default=200_000)
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="cordwood-demo-"))
    with (
        cordwood.testing.cluster(brokers=BROKERS, data=folder / "data") as cluster,
        serving_registry(cluster.bootstrap) as registry,
    ):
        say(f"{BROKERS} brokers are ready at {cluster.bootstrap}, a schema registry at {registry}.")
        source = cluster.topic("orders", partitions=PARTITIONS)
        target = cluster.topic("order-totals", partitions=PARTITIONS)
        shop = Shop(cluster.bootstrap, registry, source)
        per_batch = options.orders // BATCHES
        shop.place(per_batch * FIRST_VERSION_BATCHES, FIRST)

        say("A pipeline on Spark counts them in windows of an hour, and is killed (SIGKILL) in the middle.")
        pipeline = Pipeline(cluster.bootstrap, registry, folder, per_batch)
        pipeline.run(Interruption(KILLED_AFTER_BATCHES, None))
        evolve(registry)
        shop.place(options.orders - shop.orders, SECOND)
        shop.close_last_window()
        leader = cluster.partition_leader(source)
        say(f"It is started again. Broker {leader}, which leads partition 0 of the orders, is killed in the middle.")
        pipeline.run(Interruption(KILLED_AFTER_BATCHES, lambda: cluster.kill(leader)))
        show(shop.placed, list(read(cluster.bootstrap, target)))
        cluster.start(leader)
        say(f"Broker {leader} is back.")
    say(f"Look around:  cordwood up --brokers {BROKERS} --data {folder / 'data'}   and   cordwood consume order-totals")


@contextmanager
def serving_registry(bootstrap: str) -> Iterator[str]:
    command = [sys.executable, "-m", "cordwood", "registry", "--bootstrap", bootstrap, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            ready = process.stdout.readline()
            if not ready:
                sys.exit("the schema registry did not start")
            yield ready.split()[-1]
        finally:
            process.terminate()


def evolve(registry: str) -> None:
    client = RegistryClient(registry)
    try:
        client.register(SUBJECT, WITHOUT_DEFAULT, "AVRO")
    except RegistryRefused as refused:
        reason = str(refused).partition("description:'")[2].partition("', additionalInfo")[0]
        say(f"Orders get a field, channel. Without a default the registry refuses it: {reason}")
    else:
        sys.exit("The registry has taken a schema that cannot read what is stored.")
    version = client.register(SUBJECT, SECOND, "AVRO").version
    say(f"With a default it is version {version}. The pipeline goes on with the one that its checkpoint has.")


class Interruption(NamedTuple):
    """Happens once, after so many batches. Without an action the pipeline itself is killed."""

    batches: int
    action: Callable[[], None] | None


class Shop:
    """Places orders, and knows how many in each hour."""

    def __init__(self, bootstrap: str, registry: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._registry = registry
        self._topic = topic
        self.orders = 0
        self.placed: Counter[datetime] = Counter()

    def place(self, orders: int, schema: str) -> None:
        started = time.perf_counter()
        with self._producer(schema) as producer:
            for number in range(self.orders, self.orders + orders):
                placed_at = BEGIN + number * APART
                producer.send(self._topic, order(number, placed_at), key=f"customer-{number % 1_000}")
                self.placed[placed_at.replace(minute=0, second=0, microsecond=0)] += 1
        self.orders += orders
        seconds = time.perf_counter() - started
        say(f"{orders:,} orders are placed, {orders / seconds:,.0f} a second.")

    def close_last_window(self) -> None:
        """It ends with a later order."""
        with self._producer(SECOND) as producer:
            producer.send(self._topic, order(self.orders, BEGIN + self.orders * APART + timedelta(hours=2)))

    def _producer(self, schema: str) -> Producer:
        values = Serializer(RegistryClient(self._registry), schema)
        return Producer(bootstrap_servers=self._bootstrap, value_serializer=values)


def order(number: int, placed_at: datetime) -> dict[str, Any]:
    """By the first version of the schema there is no channel: what it does not have, is not written."""
    return {
        "order": number,
        "item": ITEMS[number % len(ITEMS)],
        "amount": 10 + number % 90,
        "placed_at": placed_at,
        "channel": CHANNELS[number % len(CHANNELS)],
    }


class Pipeline:
    def __init__(self, bootstrap: str, registry: str, folder: Path, per_batch: int) -> None:
        arguments = {
            "checkpoint": folder / "checkpoint",
            "orders_per_batch": per_batch,
            "available_now": "true",
            "registry": registry,
        }
        self._command = [sys.executable, "-m", "cordwood", "pipeline", "run", str(PIPELINE), "--bootstrap", bootstrap]
        for name, value in arguments.items():
            self._command += ["--set", f"{name}={value}"]

    def run(self, after: Interruption) -> None:
        """Until all orders are counted, or until it is killed."""
        said = []
        pending: Interruption | None = after
        with subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
            assert process.stderr is not None
            for line in process.stderr:
                said.append(line)
                if line.startswith("order windows: "):
                    print(f"  {line.removeprefix('order windows: ')}", end="", flush=True)
                batches = re.search(r"(\d+) batches", line)
                if pending is not None and batches is not None and int(batches[1]) >= pending.batches:
                    if pending.action is None:
                        # With Java, which it has started.
                        os.killpg(process.pid, signal.SIGKILL)
                        print("  killed", flush=True)
                    else:
                        pending.action()
                        print("  the broker is killed", flush=True)
                    pending = None
        if process.returncode != (-signal.SIGKILL if after.action is None else 0):
            sys.exit(f"the pipeline ended with {process.returncode}:\n{''.join(said)}")


def read(bootstrap: str, topic: str) -> Iterator[dict[str, object]]:
    """The totals that are committed."""
    partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    with Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed", enable_auto_commit=False) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            for records in consumer.poll(timeout_ms=1_000).values():
                yield from (json.loads(record.value or b"") for record in records)


def show(placed: Counter[datetime], totals: list[dict[str, object]]) -> None:
    counted: Counter[datetime] = Counter()
    times: Counter[tuple[object, object]] = Counter()
    for total in totals:
        counted[datetime.fromisoformat(str(total["start"]))] += int(str(total["orders"]))
        times[total["start"], total["item"]] += 1
    table = Table(title="Orders in each hour", title_justify="left")
    for column in ("hour", "placed", "counted", "windows written twice"):
        table.add_column(column, justify="right")
    for hour in sorted(placed | counted):
        twice = sum(count > 1 for (start, _), count in times.items() if datetime.fromisoformat(str(start)) == hour)
        table.add_row(f"{hour:%H:%M}", f"{placed[hour]:,}", f"{counted[hour]:,}", str(twice))
    table.add_section()
    table.add_row("all", f"{placed.total():,}", f"{counted.total():,}", str(sum(n > 1 for n in times.values())))
    Console().print(table)
    if placed != counted or any(count > 1 for count in times.values()):
        sys.exit("Some orders were not counted once.")
    say("Every order was counted once.")


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
