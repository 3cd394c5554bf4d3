"""Consume, transform, produce: each input up to the committed offset has its output once, and no other has any."""

from collections import Counter
from collections.abc import Iterator

from cordwood.sim.histories.history import History, Promise
from cordwood.sim.partition import Partition, partition_name

from .decided import decided
from .violation import Violation


def outputs_are_there_exactly_once(history: History) -> Iterator[Violation]:
    if history.promise is Promise.PREFIX or not history.transactions.inputs:
        return
    truth = {partition: decided(log) for partition, log in history.final.items()}
    outputs: Counter[tuple[str, str, int, int]] = Counter()
    for partition, log in history.final.items():
        for seen in log.records:
            place = history.transactions.inputs.get(seen.value)
            if place is not None and seen.offset in truth[partition].committed:
                outputs[place] += 1
    for (group, source), end in _ends(history).items():
        if source not in truth:
            continue
        for offset in sorted(truth[source].committed):
            count = outputs[group, *source, offset]
            if count != (offset < end):
                yield Violation(
                    "each input has its output exactly once",
                    f"{partition_name(source)}@{offset} has {count}; {group} has committed {end}",
                )


def _ends(history: History) -> dict[tuple[str, Partition], int]:
    """The final committed offset of each group, for each partition that was transformed."""
    sources = {(group, (topic, index)) for group, topic, index, _ in history.transactions.inputs.values()}
    ends: dict[tuple[str, Partition], int] = {}
    for read in sorted(history.groups.offset_reads, key=lambda read: read.begun_s):
        if (read.group, read.partition) in sources:
            ends[read.group, read.partition] = max(read.offset, 0)
    return ends
