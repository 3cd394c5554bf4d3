"""`make demo`: 200,000 orders on three brokers, counted exactly once by a pipeline on Spark. The pipeline is killed in
the middle, and later a broker is.

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
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

import cordwood.testing
from cordwood import Consumer, Producer, TopicPartition

BROKERS, PARTITIONS, BATCHES = 3, 3, 10
KILLED_AFTER_BATCHES = 3
BEGIN, APART = datetime(2026, 1, 1, tzinfo=UTC), timedelta(milliseconds=100)
PATIENCE_S = 600.0

PIPELINE = Path(__file__).parent / "spark" / "order_windows.py"
ITEMS = ("candles", "matches", "logs", "axes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="for the brokers' data and the query's checkpoint")
    parser.add_argument("--orders", type=int, default=200_000)
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="cordwood-demo-"))
    with cordwood.testing.cluster(brokers=BROKERS, data=folder / "data") as cluster:
        say(f"{BROKERS} brokers are ready at {cluster.bootstrap}.")
        source = cluster.topic("orders", partitions=PARTITIONS)
        target = cluster.topic("order-totals", partitions=PARTITIONS)
        placed = produce(cluster.bootstrap, source, options.orders)
        per_batch = options.orders // BATCHES

        say("A pipeline on Spark counts them in windows of an hour, and is killed (SIGKILL) in the middle.")
        run_pipeline(cluster.bootstrap, folder, per_batch, after=Interruption(KILLED_AFTER_BATCHES, None))
        leader = cluster.partition_leader(source)
        say(f"It is started again. Broker {leader}, which leads partition 0 of the orders, is killed in the middle.")
        killed = Interruption(KILLED_AFTER_BATCHES, lambda: cluster.kill(leader))
        run_pipeline(cluster.bootstrap, folder, per_batch, after=killed)
        show(placed, list(read(cluster.bootstrap, target)))
        cluster.start(leader)
        say(f"Broker {leader} is back.")
    say(f"Look around:  cordwood up --brokers {BROKERS} --data {folder / 'data'}   and   cordwood consume order-totals")


class Interruption(NamedTuple):
    """Happens once, after so many batches. Without an action the pipeline itself is killed."""

    batches: int
    action: Callable[[], None] | None


def produce(bootstrap: str, topic: str, orders: int) -> Counter[datetime]:
    """Returns how many orders were placed in each hour."""
    placed: Counter[datetime] = Counter()
    started = time.perf_counter()
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(orders):
            placed_at = BEGIN + number * APART
            producer.send(topic, order(number, placed_at), key=f"customer-{number % 1_000}")
            placed[placed_at.replace(minute=0, second=0, microsecond=0)] += 1
        producer.flush()
        # The last window is over when somebody orders after it.
        producer.send(topic, order(orders, BEGIN + orders * APART + timedelta(hours=2)))
    seconds = time.perf_counter() - started
    say(f"{orders:,} orders are placed, {orders / seconds:,.0f} a second.")
    return placed


def order(number: int, placed_at: datetime) -> bytes:
    fields = {
        "order": number,
        "item": ITEMS[number % len(ITEMS)],
        "amount": 10 + number % 90,
        "placed_at": placed_at.isoformat(),
    }
    return json.dumps(fields).encode()


def run_pipeline(bootstrap: str, folder: Path, per_batch: int, *, after: Interruption) -> None:
    """Until all orders are counted, or until it is killed."""
    command = [sys.executable, "-m", "cordwood", "pipeline", "run", str(PIPELINE)]
    command += ["--bootstrap", bootstrap, "--set", f"checkpoint={folder / 'checkpoint'}"]
    command += ["--set", f"orders_per_batch={per_batch}", "--set", "available_now=true"]
    said = []
    pending: Interruption | None = after
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
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
