"""In a compacted topic the last record of each key stays."""

from collections.abc import Iterator

from cordwood.sim.histories.history import History, Partition

from .violation import Violation


def the_last_of_each_key_stays(history: History) -> Iterator[Violation]:
    key_of = {value: key for send in history.sends for value, key in zip(send.values, send.keys, strict=True)}
    for partition, log in history.final.items():
        if partition[0] not in history.compacted:
            continue
        kept: dict[bytes | None, int] = {}
        for seen in log.records:
            kept[key_of.get(seen.value)] = seen.offset
        for key, offset in _last_known(history, partition, key_of, history.era(log.incarnation)).items():
            if kept.get(key, -1) < offset:
                yield Violation(
                    "the last record of a key stays",
                    f"{partition[0]}-{partition[1]}: {key!r} was at {offset}, and in the end at {kept.get(key)}",
                )


def _last_known(
    history: History, partition: Partition, key_of: dict[bytes, bytes | None], era: int
) -> dict[bytes | None, int]:
    last: dict[bytes | None, int] = {}
    for send in history.acknowledged():
        if send.partition == partition and history.era(send.incarnation) == era:
            for at, key in enumerate(send.keys):
                last[key] = max(last.get(key, -1), send.base_offset + at)
    for read in history.reads:
        if read.partition == partition and history.era(read.incarnation) == era:
            for seen in read.records:
                key = key_of.get(seen.value)
                last[key] = max(last.get(key, -1), seen.offset)
    return last
