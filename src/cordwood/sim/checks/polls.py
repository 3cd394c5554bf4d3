"""Polls of a library consumer continue at its position, in order, and skip no existing record.

Everything up to a poll's last record that is in the final log could have been returned; for read_committed, see
`isolation`.
"""

from bisect import bisect_left
from collections.abc import Iterator

from cordwood.sim.histories.history import History

from .violation import Violation


def polls_leave_nothing_out(history: History) -> Iterator[Violation]:
    there = {
        partition: [seen.offset for seen in log.records if seen.marker is None]
        for partition, log in history.final.items()
    }
    for read in history.reads:
        if not read.is_polled:
            continue
        offsets = [seen.offset for seen in read.records]
        if offsets != sorted(set(offsets)):
            yield Violation("a poll is in order", str(read))
        elif offsets[0] < read.offset:
            yield Violation("polls continue at the position", str(read))
        elif not read.is_committed:
            log = there.get(read.partition, [])
            expected = log[bisect_left(log, read.offset) : bisect_left(log, read.next_offset)]
            missing = sorted(set(expected).difference(offsets))
            if missing:
                yield Violation("a poll leaves nothing out", f"{missing[:10]} are not in {offsets}: {read}")
