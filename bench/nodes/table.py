"""The table: the measurement of each row, the choice among several runs, and the target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.nodes.brokers import Broker


@dataclass(frozen=True, slots=True)
class Measure:
    name: str
    unit: str
    higher_is_better: bool = False
    ratio: float | None = None
    """The target, as a multiple of the other broker's value: at least or at most."""
    limit: float | None = None
    """The target as a value."""

    def best(self, values: list[float]) -> float:
        return max(values) if self.higher_is_better else min(values)

    def target(self) -> str:
        sign = "≥" if self.higher_is_better else "≤"
        texts = [f"{sign} {self.ratio:g} x"] if self.ratio is not None else []
        texts += [f"{sign} {self.limit:g} {self.unit}"] if self.limit is not None else []
        return ", ".join(texts)

    def is_met(self, value: float, other: float | None) -> bool | None:
        """None if it is unknown."""
        bounds = [self.limit] if self.limit is not None else []
        if self.ratio is not None:
            if other is None:
                return None
            bounds.append(self.ratio * other)
        if not bounds:
            return None
        return all(value >= bound if self.higher_is_better else value <= bound for bound in bounds)


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    title: str
    measures: tuple[Measure, ...]
    run: Callable[[Bench, Broker], tuple[float, ...]]
    rounds: int = 3
    needs_own_start: bool = False
    """It starts the broker itself, on an empty directory."""
    alone: bool = False
    """Only ours: the target is a value, and the other one would take very long."""


@dataclass(slots=True)
class Bench:
    """Parameters of the command line."""

    scale: float = 1.0
    latency_s: int = 10
    log_bytes: int = 2 << 30
    runs: int = 0

    def topic(self, row: str) -> str:
        """A name that was not used before."""
        self.runs += 1
        return f"{row}-{self.runs}"


HEADER = f"{'':58}{'Kafka':>10}{'Cordwood':>10}{'ratio':>9}  target"


def lines(row: Row, values: dict[str, list[tuple[float, ...]]]) -> list[str]:
    """One for each measure; `values` has the runs of each broker by its name."""
    printed = []
    for index, measure in enumerate(row.measures):
        best = {name: measure.best([run[index] for run in runs]) for name, runs in values.items() if runs}
        ours, other = best.get("Cordwood"), best.get("Kafka")
        ratio = f"{ours / other:8.2f}x" if ours is not None and other else f"{'':9}"
        title = f"{row.title}: {measure.name} ({measure.unit})" if measure.unit else f"{row.title}: {measure.name}"
        verdict = None if ours is None else measure.is_met(ours, other)
        mark = {None: "", True: " ✓", False: " ✗"}[verdict]
        printed.append(f"{title:<58}{_number(other)}{_number(ours)}{ratio}  {measure.target()}{mark}")
    return printed


def _number(value: float | None) -> str:
    if value is None:
        return f"{'-':>10}"
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2 if abs(value) >= 0.1 else 3
    return f"{value:>10,.{digits}f}"
