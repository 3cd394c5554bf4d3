"""Results of runs, kept as JSON lines: one for each fault, as soon as it is over, and one for the judgement of a run.

A run that was cut short has no judgement: its gaps count, but its faults are not known to have done no harm.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from chaos.gaps import Gap
from chaos.report import Outcome

CORDWOOD, KAFKA = "Cordwood", "Apache Kafka"


@dataclass(slots=True)
class Result:
    """A run, as far as it came."""

    system: str
    outcomes: list[Outcome] = field(default_factory=list)
    # None until its histories and replicas are judged.
    violations: list[str] | None = None


class ResultsFile:
    """Takes down one run."""

    def __init__(self, path: Path, run: str, system: str) -> None:
        """`run` is a name that no other run in the file has."""
        self._path = path
        self._run = run
        self._system = system

    def add(self, outcome: Outcome) -> None:
        self._append({"outcome": asdict(outcome)})

    def judge(self, violations: Iterable[object]) -> None:
        self._append({"violations": [str(violation) for violation in violations]})

    def _append(self, line: dict[str, Any]) -> None:
        text = json.dumps({"run": self._run, "system": self._system, **line})
        # To the millisecond, for people who read it.
        rounded = json.loads(text, parse_float=lambda number: round(float(number), 3))
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps(rounded) + "\n")


def read_results(paths: Sequence[Path]) -> list[Result]:
    """The runs of these files, in the order in which they began."""
    results: dict[tuple[Path, str], Result] = {}
    for path in paths:
        for text in path.read_text().splitlines():
            line = json.loads(text)
            result = results.setdefault((path, line["run"]), Result(line["system"]))
            if "outcome" in line:
                result.outcomes.append(_outcome(line["outcome"]))
            else:
                result.violations = line["violations"]
    return list(results.values())


def _outcome(found: dict[str, Any]) -> Outcome:
    gaps = {load: Gap(**gap) for load, gap in found["gaps"].items()}
    return Outcome(found["fault"], found["detail"], gaps, found["in_sync_s"])
