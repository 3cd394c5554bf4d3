"""The table of faults with their gaps, as Markdown."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from chaos.gaps import Gap

# In the name of such a load. The order in which it reads partitions depends on the available records, so only the
# overall gap is meaningful.
_TRANSACTIONS = "transactions"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One fault, with the gap that each load has seen."""

    fault: str
    detail: str
    gaps: dict[str, Gap]
    in_sync_s: float


def table(outcomes: Sequence[Outcome]) -> str:
    """A row for each kind of fault: medians, and in parentheses the longest where there were several."""
    loads = list(outcomes[0].gaps) if outcomes else []
    by_fault: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_fault[outcome.fault].append(outcome)
    titles = ["fault", "times"]
    for load in loads:
        titles += [load] if _TRANSACTIONS in load else [f"{load}: any", "worst partition"]
    titles.append("in sync after")
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for fault, found in by_fault.items():
        cells = [fault, str(len(found))]
        for load in loads:
            cells.append(seconds([outcome.gaps[load].overall for outcome in found]))
            if _TRANSACTIONS not in load:
                cells.append(seconds([outcome.gaps[load].worst_partition for outcome in found]))
        cells.append(seconds([outcome.in_sync_s for outcome in found]))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def seconds(found: Sequence[float]) -> str:
    """The median, and in parentheses the longest where there are several."""
    middle = f"{statistics.median(found):.1f}"
    longest = f"{max(found):.1f}"
    return middle if len(found) == 1 else f"{middle} ({longest})"
