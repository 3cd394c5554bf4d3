"""A whole node, next to Apache Kafka where that is available: `python -m bench node [--kafka DIR] [row …]`.

The brokers take turns within each row, and the best of several runs counts: what else the machine does then meets
both. Docs: docs/performance.md.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from bench.nodes import disk_rows, life_rows, load_rows, transaction_rows
from bench.nodes.brokers import Broker, Cordwood, Kafka, Running
from bench.nodes.table import HEADER, Bench, Row, lines

WARM_UP_RUNS = 10
ROWS = (*load_rows.ROWS, *disk_rows.ROWS, *transaction_rows.ROWS, *life_rows.ROWS)


def main(arguments: list[str] | None = None) -> None:
    options = _parser().parse_args(arguments or [])
    unknown = set(options.rows) - {row.name for row in ROWS}
    if unknown:
        raise SystemExit(f"no row {', '.join(sorted(unknown))}; there are {', '.join(row.name for row in ROWS)}")
    rows = [row for row in ROWS if not options.rows or row.name in options.rows]
    bench = Bench(scale=options.scale, latency_s=options.latency_seconds, log_bytes=int(options.log_gb * 1e9))
    folder = Path(tempfile.mkdtemp(prefix="cordwood-bench-", dir=options.folder))
    print(HEADER)
    try:
        _run(bench, options, [row for row in rows if not row.needs_own_start], folder)
        for row in rows:
            if row.needs_own_start:
                _run_fresh(bench, options, row, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(bench: Bench, options: argparse.Namespace, rows: list[Row], folder: Path) -> None:
    """All rows on one process of each broker, as it runs in life."""
    if not rows:
        return
    brokers = _brokers(options, folder / "loaded")
    with ExitStack() as stack:
        for broker in brokers:
            stack.callback(broker.stop)
            broker.start()
        if options.warm_up:
            # A JVM compiles what it has seen often; after two runs Kafka was still three times slower than later.
            for broker in brokers:
                for _ in range(WARM_UP_RUNS if isinstance(broker, Kafka) else 1):
                    load_rows.produce_100(bench, broker)
        for row in rows:
            _report(bench, options, row, brokers)


def _run_fresh(bench: Bench, options: argparse.Namespace, row: Row, folder: Path) -> None:
    values: dict[str, list[tuple[float, ...]]] = {}
    for number in range(options.rounds or row.rounds):
        for broker in _brokers(options, folder / f"{row.name}-{number}"):
            if not isinstance(broker, Running) and not (row.alone and isinstance(broker, Kafka)):
                values.setdefault(broker.name, []).append(row.run(bench, broker))
                shutil.rmtree(broker.folder)
    print("\n".join(lines(row, values)), flush=True)


def _report(bench: Bench, options: argparse.Namespace, row: Row, brokers: list[Broker]) -> None:
    values: dict[str, list[tuple[float, ...]]] = {}
    for _ in range(options.rounds or row.rounds):
        for broker in brokers:
            values.setdefault(broker.name, []).append(row.run(bench, broker))
            time.sleep(options.pause)
    print("\n".join(lines(row, values)), flush=True)


def _brokers(options: argparse.Namespace, folder: Path) -> list[Broker]:
    brokers: list[Broker] = []
    if options.kafka:
        brokers.append(Kafka(options.kafka.resolve(), folder / "kafka"))
    if options.kafka_bootstrap:
        brokers.append(Running("Kafka", options.kafka_bootstrap, options.kafka_pid))
    if options.bootstrap:
        brokers.append(Running("Cordwood", options.bootstrap, options.pid))
    elif not options.only_kafka:
        brokers.append(Cordwood(folder / "cordwood"))
    return brokers


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench node", description=__doc__)
    parser.add_argument("rows", nargs="*", help=f"of {', '.join(row.name for row in ROWS)}; all unless named")
    parser.add_argument("--kafka", type=Path, metavar="DIR", help="Apache Kafka, unpacked: started and stopped here")
    parser.add_argument("--kafka-bootstrap", metavar="HOST:PORT", help="a Kafka that runs, instead")
    parser.add_argument("--kafka-pid", type=int, metavar="PID")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="a Cordwood that runs, instead of one started here")
    parser.add_argument("--pid", type=int)
    parser.add_argument("--only-kafka", action="store_true", help="no Cordwood")
    parser.add_argument("--rounds", type=int, default=0, help="runs of each row, of which the best counts")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of records")
    parser.add_argument("--latency-seconds", type=int, default=10)
    parser.add_argument("--log-gb", type=float, default=2, help="size of the large log of row `positions`")
    parser.add_argument("--pause", type=float, default=0.5, metavar="S", help="rest between runs")
    parser.add_argument("--folder", type=Path, help="where data goes (a temporary folder)")
    parser.add_argument("--no-warm-up", dest="warm_up", action="store_false")
    return parser
