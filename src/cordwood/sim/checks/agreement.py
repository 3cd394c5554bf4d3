"""An offset has one record: every observer sees the same one at all times.

Where a power loss may take the end of a log (`Promise.PREFIX`), this holds within an era; and between eras the log is
cut at one place: equal records come before different ones.
"""

from collections.abc import Iterator

from cordwood.sim.histories.history import History, Partition, Send

from .violation import Violation

# offset -> (value, its source)
Known = dict[int, tuple[bytes, str]]


def offsets_keep_their_records(history: History) -> Iterator[Violation]:
    known: dict[tuple[Partition, int], Known] = {}
    sent = {value: send for send in history.sends for value in send.values}
    for partition, incarnation, offset, value, is_marker, source in _observations(history):
        if not is_marker and (value not in sent or sent[value].partition != partition):
            yield Violation("only sent records are read", f"{value[:60]!r} at {_at(partition, offset)}: {source}")
            continue
        first = known.setdefault((partition, history.era(incarnation)), {}).setdefault(offset, (value, source))
        if first[0] != value:
            yield Violation(
                "an offset keeps its record",
                f"{_at(partition, offset)} has {value[:60]!r} ({source}), and had {first[0][:60]!r} ({first[1]})",
            )
    yield from _cuts(known, sent)


def _observations(history: History) -> Iterator[tuple[Partition, int, int, bytes, bool, str]]:
    for send in history.acknowledged():
        for at, value in enumerate(send.values):
            yield send.partition, send.incarnation, send.base_offset + at, value, False, str(send)
    for read in history.reads:
        for seen in read.records:
            yield read.partition, read.incarnation, seen.offset, seen.value, seen.marker is not None, str(read)
    for partition, log in history.final.items():
        for seen in log.records:
            yield partition, log.incarnation, seen.offset, seen.value, seen.marker is not None, "the log in the end"


def _cuts(known: dict[tuple[Partition, int], Known], sent: dict[bytes, Send]) -> Iterator[Violation]:
    for (partition, era), earlier in known.items():
        for (other, later_era), later in known.items():
            if other != partition or later_era <= era:
                continue
            # One that is sent again until it is answered may come back to the place that it had.
            both = [
                offset
                for offset in sorted(earlier.keys() & later.keys())
                if earlier[offset][0] not in sent or sent[earlier[offset][0]].attempts == 1
            ]
            same = [offset for offset in both if earlier[offset][0] == later[offset][0]]
            differ = [offset for offset in both if earlier[offset][0] != later[offset][0]]
            if same and differ and differ[0] < same[-1]:
                yield Violation(
                    "a power loss takes the end of a log only",
                    f"{_at(partition, differ[0])} was replaced and {same[-1]} was kept",
                )


def _at(partition: Partition, offset: int) -> str:
    return f"{partition[0]}-{partition[1]}@{offset}"
