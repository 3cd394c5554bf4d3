"""A Fetch gives whole batches without a gap from where it asked, all of it acknowledged, and something if it can."""

from collections.abc import Iterator

from cordwood.sim.histories.history import History, Read, Send
from cordwood.wire.errors import ErrorCode

from .violation import Violation


def reads_are_whole_and_behind_the_high_watermark(history: History) -> Iterator[Violation]:
    for what in history.broken:
        yield Violation("records are read as they were sent", what)
    for read in history.reads:
        if read.error or read.is_polled:
            continue
        offsets = [seen.offset for seen in read.records]
        if read.partition[0] in history.compacted:
            if offsets != sorted(set(offsets)):
                yield Violation("a read is in order", str(read))
        else:
            if offsets and not offsets[0] <= read.offset <= offsets[-1]:
                yield Violation("a read begins where it asked", str(read))
            if offsets and offsets != list(range(offsets[0], offsets[-1] + 1)):
                yield Violation("a read has no gap", str(read))
        if offsets and offsets[-1] >= read.high_watermark:
            yield Violation("nothing is read past the high watermark", str(read))
        if offsets and read.is_committed and offsets[-1] >= read.last_stable_offset:
            yield Violation("nothing is read past the last stable offset", str(read))
        if read.is_alone and read.next_offset <= read.offset < read.limit:
            yield Violation("existing records can be read", str(read))
        if not read.start_offset <= read.offset <= max(read.high_watermark, read.offset):
            yield Violation("a read lies within the log", str(read))
    yield from _out_of_range(history)


def _out_of_range(history: History) -> Iterator[Violation]:
    """An offset that is in the log, as far as a client can know, must not be reported as out of range. In a cluster a
    former leader that doesn't know its successor yet may do so for later records: hand-written clients don't send their
    leader epoch (KIP-320).
    """
    if history.replicas.states:
        return
    for refused in history.reads:
        if refused.error != ErrorCode.OFFSET_OUT_OF_RANGE:
            continue
        if history.retention_s < float("inf"):
            continue
        if refused.offset >= history.deleted_to(refused.partition) and refused.offset <= _known_end(history, refused):
            yield Violation("an offset that was there is in range", str(refused))


def _known_end(history: History, refused: Read) -> int:
    """Behind the last that was acknowledged or read before."""
    era = history.era(refused.incarnation)

    def came_before(other: Send | Read) -> bool:
        return (
            other.partition == refused.partition
            and other.ended_s < refused.begun_s
            and history.era(other.incarnation) == era
        )

    acknowledged = [send.last_offset + 1 for send in history.acknowledged() if came_before(send)]
    read = [read.records[-1].offset + 1 for read in history.reads if read.records and came_before(read)]
    return max([0, *acknowledged, *read])
