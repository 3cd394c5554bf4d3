"""The printed table."""

from __future__ import annotations

from bench.nodes.table import Measure

OURS, THEIRS = "Cordwood", "connector"
HEADER = f"{'':66}{THEIRS:>10}{OURS:>10}{'ratio':>8}  target"


def lines(title: str, measures: tuple[Measure, ...], runs: dict[str, list[tuple[float, ...]]]) -> list[str]:
    """One for each measure; `runs` has the values of each contestant by its name, of which the best count."""
    printed = []
    for index, measure in enumerate(measures):
        best = {name: measure.best([values[index] for values in found]) for name, found in runs.items() if found}
        ours, theirs = best.get(OURS), best.get(THEIRS)
        ratio = f"{ours / theirs:7.2f}x" if ours is not None and theirs else f"{'':8}"
        is_met = None if ours is None else measure.is_met(ours, theirs)
        mark = {None: "", True: " ✓", False: " ✗"}[is_met]
        text = f"{title}: {measure.name}"
        printed.append(f"{text:<66}{_number(theirs)}{_number(ours)}{ratio}  {measure.target()}{mark}".rstrip())
    return printed


def _number(value: float | None) -> str:
    if value is None:
        return f"{'-':>10}"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:>10,.{digits}f}"
