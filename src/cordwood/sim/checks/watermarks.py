"""Within an incarnation of the node high watermark and log start only grow, and they are consistent with the
answers."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from cordwood.sim.histories.history import History, Partition

from .violation import Violation

_EARLIEST, _LATEST = -2, -1


class Told(NamedTuple):
    """A lower bound that was known by the end of a request, or a value reported after its begin."""

    begun_s: float
    ended_s: float
    at_least: int
    told: int | None
    source: object


def watermarks_never_go_back(history: History) -> Iterator[Violation]:
    for invariant, collect in (
        ("the high watermark never goes back", _high_watermarks),
        ("the log start never goes back", _starts),
    ):
        groups: dict[tuple[Partition, int], list[Told]] = {}
        for partition, incarnation, told in collect(history):
            groups.setdefault((partition, incarnation), []).append(told)
        for tells in groups.values():
            yield from _regressions(invariant, tells)


def _high_watermarks(history: History) -> Iterator[tuple[Partition, int, Told]]:
    for read in history.reads:
        if not read.error and not read.is_polled:
            mark = read.high_watermark
            yield read.partition, read.incarnation, Told(read.begun_s, read.ended_s, mark, mark, read)
    for send in history.acknowledged():
        bound = send.last_offset + 1
        yield send.partition, send.incarnation, Told(send.begun_s, send.ended_s, bound, None, send)
    for listed in history.listed:
        if listed.timestamp == _LATEST:
            told = Told(listed.begun_s, listed.ended_s, listed.offset, listed.offset, listed)
            yield listed.partition, listed.incarnation, told


def _starts(history: History) -> Iterator[tuple[Partition, int, Told]]:
    for read in history.reads:
        if not read.error and not read.is_polled:
            start = read.start_offset
            yield read.partition, read.incarnation, Told(read.begun_s, read.ended_s, start, start, read)
    for listed in history.listed:
        if listed.timestamp == _EARLIEST:
            told = Told(listed.begun_s, listed.ended_s, listed.offset, listed.offset, listed)
            yield listed.partition, listed.incarnation, told
    for deletion in history.deletions:
        if deletion.low_watermark >= 0:
            low = deletion.low_watermark
            yield deletion.partition, deletion.incarnation, Told(deletion.begun_s, deletion.ended_s, low, low, deletion)


def _regressions(invariant: str, tells: list[Told]) -> Iterator[Violation]:
    by_end: Callable[[Told], float] = lambda told: told.ended_s  # noqa: E731
    ended = sorted(tells, key=by_end)
    at = 0
    highest: Told | None = None
    for told in sorted(tells, key=lambda told: told.begun_s):
        while at < len(ended) and ended[at].ended_s < told.begun_s:
            if highest is None or ended[at].at_least > highest.at_least:
                highest = ended[at]
            at += 1
        if highest is not None and told.told is not None and told.told < highest.at_least:
            yield Violation(invariant, f"{highest.source}, and then {told.source}")
