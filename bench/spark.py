"""Spark, with `format("cordwood")` and with Spark's own Kafka connector: `python -m bench spark [--only ROW …]`.
`python -m bench spark soak` is about the memory of Spark's Python processes.

Both read and write topics of one node, in turns, each with its own Spark at local[2]; the best of several runs counts.
Where the connector cannot be had, a sentence says so, and Cordwood is measured alone. Docs: docs/performance.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench.nodes.brokers import Broker, Cordwood, free_ports
from bench.sparks import soak, topics, typed
from bench.sparks.connector import VERSION, Connector, NoConnector, connector_folder
from bench.sparks.contestants import Contestant
from bench.sparks.rows import JSON, PLAIN, ROWS, Bench, Row
from bench.sparks.table import HEADER, OURS, THEIRS, lines

_QUICK_ROWS = 1_000_000
_ROWS = 10_000_000


def main(arguments: list[str] | None = None) -> None:
    if arguments and arguments[0] == "soak":
        soak.main(arguments[1:])
        return
    options = _parser().parse_args(arguments or [])
    rows = [row for row in ROWS if not options.only or row.name in options.only]
    with tempfile.TemporaryDirectory(prefix="cordwood-bench-") as temporary, ExitStack() as stack:
        folder = Path(temporary)
        registry = f"http://127.0.0.1:{free_ports(1)[0]}"
        broker = Cordwood(folder / "node", {"cordwood.registry.listeners": registry})
        stack.callback(broker.stop)
        broker.start()
        contestants = _contestants(options, broker, folder)
        for contestant in contestants:
            stack.callback(contestant.stop)
        is_quick = options.quick
        bench = Bench(
            broker,
            registry,
            read_rows=options.rows or (_QUICK_ROWS if is_quick else _ROWS),
            warm_s=10 if is_quick else 20,
            hold_s=10 if is_quick else 30,
            batch_bytes=options.batch_bytes,
            is_verbose=options.verbose,
        )
        _fill(bench, {row.needs for row in rows})
        print(HEADER, flush=True)
        for row in rows:
            _report(bench, row, contestants, options.rounds or (min(row.rounds, 2) if is_quick else row.rounds))


def _contestants(options: argparse.Namespace, broker: Broker, folder: Path) -> list[Contestant]:
    """The connector first, if it can be had."""
    found = []
    if not options.alone:
        connector = Connector(options.connector)
        try:
            if not connector.is_there:
                print(f"getting PySpark {VERSION} and the connector into {connector.folder} …", flush=True)
                connector.make()
            log = folder / "connector.log"
            python = str(connector.python)
            found.append(Contestant(THEIRS, "kafka", python, connector.jars, broker.bootstrap, log))
        except NoConnector as error:
            print(f"Spark's Kafka connector {VERSION} is not measured: {error}", flush=True)
    found.append(Contestant(OURS, "cordwood", sys.executable, [], broker.bootstrap, folder / "cordwood.log"))
    return found


def _fill(bench: Bench, needed: set[str | None]) -> None:
    bootstrap = bench.broker.bootstrap
    if PLAIN in needed:
        topics.fill_plain(bootstrap, PLAIN, bench.read_rows, bench.batch_bytes)
    if JSON in needed:
        topics.fill_json(bootstrap, JSON, bench.json_rows, bench.batch_bytes)
    for each in (typed.FLAT, typed.NESTED):
        if each.name in needed:
            typed.fill(bootstrap, bench.registry, each, bench.avro_rows, bench.batch_bytes)


def _report(bench: Bench, row: Row, contestants: list[Contestant], rounds: int) -> None:
    runs: dict[str, list[tuple[float, ...]]] = {}
    for _ in range(rounds):
        for contestant in contestants:
            if not (row.alone and contestant.name != OURS):
                runs.setdefault(contestant.name, []).append(row.run(bench, contestant))
    print("\n".join(lines(row.title, row.measures, runs)), flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench spark", description=__doc__)
    names = [row.name for row in ROWS]
    parser.add_argument("--only", nargs="+", choices=names, metavar="ROW", help=f"of {', '.join(names)}")
    parser.add_argument("--rows", type=int, help=f"to read ({_ROWS:,}); what other rows of the table take follows it")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, and less time")
    parser.add_argument("--rounds", type=int, default=0, help="runs of each row, of which the best counts")
    parser.add_argument("--batch-bytes", type=int, default=1_000_000, help="of record batches in topics that are read")
    parser.add_argument("--alone", action="store_true", help="without the connector")
    parser.add_argument("--connector", type=Path, default=connector_folder(), metavar="DIR", help="its environment")
    parser.add_argument("--verbose", action="store_true", help="tell of each run, and where its time went")
    return parser
