"""The command line next to kcat: `python -m bench command_line [--rounds N] [--lines N]`.

`cordwood produce` and `consume`, plain and as JSON, and kcat do the same work in turns, each as a process from its
start to its end, against one node. The best of several rounds counts, also of the processor's time, which other load on
the machine disturbs less. Ratios are Cordwood's time to kcat's: below 1 is faster.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.nodes.brokers import Cordwood
from bench.nodes.processes import as_installed

WANTED = 1.5


class Cost(NamedTuple):
    wall_s: float
    cpu_s: float

    def best(self, other: Cost) -> Cost:
        return Cost(min(self.wall_s, other.wall_s), min(self.cpu_s, other.cpu_s))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench command_line", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lines", type=int, default=1_000_000)
    options = parser.parse_args(arguments or [])
    with tempfile.TemporaryDirectory(prefix="cordwood-bench-") as name:
        folder = Path(name)
        lines = folder / "lines"
        with lines.open("w") as file:
            file.writelines(
                f"{number:08} the quick brown fox jumps over the lazy dog\n" for number in range(options.lines)
            )
        broker = Cordwood(folder / "node")
        broker.start()
        try:
            compare_all(broker, lines, options.rounds)
        finally:
            broker.stop()


def compare_all(broker: Cordwood, lines: Path, rounds: int) -> None:
    ours = [sys.executable, "-m", "cordwood"]
    at = ["-b", broker.bootstrap]
    kcat = shutil.which("kcat")
    if kcat is None:
        print("kcat is not installed: Cordwood alone")
    topics = ["filled", *(f"{who}-{number}" for who in ("kcat", "cordwood") for number in range(rounds))]
    with broker.client() as client:
        for topic in topics:
            client.create_topic(topic, 1)
    run([*ours, "produce", "filled", *at], lines)

    def compare(
        title: str, cordwood: list[str], theirs: list[str], source: Path | None = None, wanted: str = f" (≤ {WANTED:g})"
    ) -> None:
        """`{who}` and `{round}` in a command stand for themselves."""
        costs: dict[str, Cost] = {}
        for number in range(rounds):
            commands = {"kcat": [kcat, *theirs]} if kcat is not None else {}
            for who, command in {**commands, "cordwood": [*ours, *cordwood]}.items():
                filled_in = [word.format(who=who, round=number) for word in command]
                cost = run([*filled_in, *at], source)
                costs[who] = cost.best(costs.get(who, cost))
        show(title, costs, wanted)

    compare("produce", ["produce", "{who}-{round}"], ["-P", "-t", "{who}-{round}"], lines)
    compare("consume", ["consume", "filled"], ["-C", "-e", "-q", "-t", "filled"])
    compare("consume as JSON", ["consume", "filled", "--json"], ["-C", "-J", "-e", "-q", "-t", "filled"])
    # Mostly Python's own start and imports: what the others have in them.
    one = ["-C", "-c", "1", "-e", "-q", "-t", "filled"]
    compare("start, and one record", ["consume", "filled", "-n", "1"], one, wanted="")


def run(command: Sequence[str], source: Path | None) -> Cost:
    with open(source or os.devnull, "rb") as stdin:
        before, started = os.times(), time.perf_counter()
        subprocess.run(command, stdin=stdin, stdout=subprocess.DEVNULL, env=as_installed(), check=True)
        wall_s, after = time.perf_counter() - started, os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    # The system counts in steps of 10 ms.
    return Cost(wall_s, max(spent, 0.01))


def show(title: str, costs: dict[str, Cost], wanted: str) -> None:
    print(f"\n{title}")
    for who, cost in costs.items():
        print(f"  {who:10} {cost.wall_s:7.2f} s, {cost.cpu_s:5.2f} s of a processor", flush=True)
    if "kcat" in costs:
        ours, theirs = costs["cordwood"], costs["kcat"]
        print(
            f"  cordwood / kcat: {ours.wall_s / theirs.wall_s:.2f}x{wanted}, "
            f"of a processor {ours.cpu_s / theirs.cpu_s:.2f}x",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
