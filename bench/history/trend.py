"""Renders the history as a page: for each figure the first, the best and the last run, and all of them as a line."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_BARS = "▁▂▃▄▅▆▇█"
_SHOWN_RUNS = 20

_TABLE_HEAD = "| figure | unit | runs | first | best | last | trend |\n|---|---|---|---|---|---|---|\n"

_HEAD = """\
# Benchmark history

`make bench` appends its figures to `bench/history/figures.jsonl`, with date, commit, machine and load average, and
rewrites this page. Compare figures of one machine only, and look at the load: other work on the machine makes every
figure worse. [Performance](performance.md) has the figures next to Kafka's, from a quiet machine.
"""


def render(entries: Iterable[Mapping[str, Any]]) -> str:
    by_machine: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for entry in entries:
        by_machine[entry["machine"]].append(entry)
    if not by_machine:
        return _HEAD + "\nNo run has been recorded yet.\n"
    return _HEAD + "".join(_machine(machine, found) for machine, found in by_machine.items())


def load(lines: Iterable[str]) -> list[Mapping[str, Any]]:
    return [json.loads(line) for line in lines if line.strip()]


def _machine(machine: str, entries: Sequence[Mapping[str, Any]]) -> str:
    last = entries[-1]
    text = (
        f"\n## {machine}\nLast run: {last['date']}, commit {last['commit']}, load {last['load']}; {last['software']}.\n"
    )
    series: dict[str, dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    for entry in entries:
        series[entry["benchmark"]][entry["name"], entry["unit"]].append(entry["value"])
    for benchmark, figures in series.items():
        text += f"\n### {benchmark}\n\n{_TABLE_HEAD}"
        for (name, unit), values in figures.items():
            best = max(values) if unit.endswith("/s") else min(values)
            cells = (name, unit, len(values), _number(values[0]), _number(best), _number(values[-1]), _line(values))
            text += f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |\n"
    return text


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1_000 else f"{value:g}"


def _line(values: Sequence[float]) -> str:
    shown = values[-_SHOWN_RUNS:]
    low, high = min(shown), max(shown)
    span = high - low or 1.0
    return "".join(_BARS[round((value - low) / span * (len(_BARS) - 1))] for value in shown)
