"""`python -m chaos.comparison FILE…`: kept results of Cordwood and of Apache Kafka next to each other, as Markdown."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from chaos.faults import FAULTS
from chaos.report import Outcome, seconds
from chaos.results import CORDWOOD, KAFKA, Result, read_results

# The load whose gaps are compared: the same client with both.
_LOAD = "librdkafka"
_COLUMNS: dict[str, Callable[[Outcome], float]] = {
    "any": lambda outcome: outcome.gaps[_LOAD].overall,
    "worst partition": lambda outcome: outcome.gaps[_LOAD].worst_partition,
    "transactions": lambda outcome: outcome.gaps[f"{_LOAD} transactions"].overall,
    "in sync after": lambda outcome: outcome.in_sync_s,
}


def comparison(results: Sequence[Result]) -> str:
    """A table with a row for each kind of fault, and a sentence for each system about what was judged."""
    outcomes = {
        system: [outcome for result in results if result.system == system for outcome in result.outcomes]
        for system in (CORDWOOD, KAFKA)
    }
    titles = ["fault"]
    for system in outcomes:
        titles += [f"{system}: times", *_COLUMNS]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for fault in FAULTS:
        cells = [fault.name]
        for found in outcomes.values():
            same = [outcome for outcome in found if outcome.fault == fault.name]
            cells.append(str(len(same) or ""))
            cells += [seconds([column(outcome) for outcome in same]) if same else "" for column in _COLUMNS.values()]
        if any(cells[1:]):
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", *(_judgement(system, results) for system in outcomes)])


def _judgement(system: str, results: Sequence[Result]) -> str:
    ours = [result for result in results if result.system == system]
    judged = [result for result in ours if result.violations is not None]
    faults = sum(len(result.outcomes) for result in judged)
    violations = sum(len(result.violations or ()) for result in judged)
    text = f"{system}: {faults} faults in {len(judged)} judged runs, {violations} violations"
    cut_short = sum(len(result.outcomes) for result in ours if result.violations is None)
    return f"{text}; {cut_short} faults in runs that were cut short." if cut_short else f"{text}."


if __name__ == "__main__":
    print(comparison(read_results([Path(name) for name in sys.argv[1:]])))
