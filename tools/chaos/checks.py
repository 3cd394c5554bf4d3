"""The invariants of a run's histories, as in Jepsen's workload for Kafka.

All of them take plain values: what was acknowledged, and what is in the log of each partition at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

# For a partition: offsets and values, in order.
Log = Sequence[tuple[int, str]]
# The number of examples shown per violation.
_SHOWN = 5


class Kind(Enum):
    LOST_WRITE = "lost write"
    DUPLICATE = "duplicate"
    INCONSISTENT_OFFSETS = "inconsistent offsets"
    ORDER = "order"
    ABORTED_READ = "aborted read"
    POLL_SKIP = "poll skip"
    NONMONOTONIC_POLL = "nonmonotonic poll"
    COMMIT_WENT_BACK = "committed offset went back"
    UNSEEN = "unseen"
    UNKNOWN_WRITE = "unknown write"
    REPLICAS_DIFFER = "replicas differ"
    CLIENT_ERROR = "client error"
    LIVENESS = "liveness"


@dataclass(frozen=True, slots=True)
class Violation:
    kind: Kind
    text: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.text}"


def check_writes(topic: str, acknowledged: Sequence[tuple[int, int]], log: Log, sent: int) -> list[Violation]:
    """Checks one partition, to which one idempotent producer wrote 0, 1, 2, … up to `sent`."""
    at = dict(log)
    found: list[Violation] = []
    lost = [(offset, number) for offset, number in acknowledged if offset not in at]
    if lost:
        found.append(_violation(Kind.LOST_WRITE, topic, "acknowledged (offset, number), not in the log", lost))
    other = [(o, number, at[o]) for o, number in acknowledged if o in at and at[o] != str(number)]
    if other:
        found.append(_violation(Kind.INCONSISTENT_OFFSETS, topic, "(offset, acknowledged, found)", other))
    found += _check_once(topic, [value for _, value in log])
    numbers = [int(value) for _, value in log]
    backwards = [pair for pair in pairwise(numbers) if pair[0] > pair[1]]
    if backwards:
        found.append(_violation(Kind.ORDER, topic, "a number before a smaller one", backwards))
    unknown = [number for number in numbers if number >= sent]
    if unknown:
        found.append(_violation(Kind.UNKNOWN_WRITE, topic, "nobody sent", unknown))
    return found


def check_transformed(topic: str, source: Log, sink: Log) -> list[Violation]:
    """Every value of the source is in the sink once, in the same order; nothing of an aborted transaction is."""
    found: list[Violation] = []
    aborted = [entry for entry in sink if entry[1].startswith(ABORTED)]
    if aborted:
        found.append(_violation(Kind.ABORTED_READ, topic, "(offset, value) of aborted transactions", aborted))
    values = [value for _, value in sink if not value.startswith(ABORTED)]
    wanted = [value for _, value in source]
    found += _check_once(topic, values)
    missing = sorted(set(wanted) - set(values), key=int)
    if missing:
        found.append(_violation(Kind.LOST_WRITE, topic, "in the source and not in the sink", missing))
    unknown = sorted(set(values) - set(wanted), key=int)
    if unknown:
        found.append(_violation(Kind.UNKNOWN_WRITE, topic, "not in the source", unknown))
    if not found and values != wanted:
        found.append(Violation(Kind.ORDER, f"{topic}: not in the order of the source"))
    return found


def check_same_reads(topic: str, one: Log, other: Log) -> list[Violation]:
    """Two readers of one partition have seen the same."""
    if list(one) == list(other):
        return []
    return [_violation(Kind.INCONSISTENT_OFFSETS, topic, "seen by one reader only", sorted(set(one) ^ set(other)))]


def check_seen(topic: str, seen: Mapping[int, str], log: Log) -> list[Violation]:
    """A group has read the whole log of a partition, and nothing else."""
    at = dict(log)
    found: list[Violation] = []
    unseen = [offset for offset in at if offset not in seen]
    if unseen:
        found.append(_violation(Kind.UNSEEN, topic, "the group never read offsets", unseen))
    other = [(offset, value, at.get(offset)) for offset, value in seen.items() if at.get(offset) != value]
    if other:
        found.append(_violation(Kind.INCONSISTENT_OFFSETS, topic, "(offset, read by the group, found)", other))
    return found


# Before the values of transactions that are aborted on purpose.
ABORTED = "aborted "


def _check_once(topic: str, values: Sequence[str]) -> list[Violation]:
    seen: set[str] = set()
    again = [value for value in values if value in seen or seen.add(value)]  # type: ignore[func-returns-value]
    return [_violation(Kind.DUPLICATE, topic, "more than once", again)] if again else []


def _violation(kind: Kind, topic: str, text: str, examples: Iterable[object]) -> Violation:
    every = list(examples)
    shown = ", ".join(str(each) for each in every[:_SHOWN])
    return Violation(kind, f"{topic}: {text}: {shown}" + (f" and {len(every) - _SHOWN} more" if every[_SHOWN:] else ""))
