"""read_committed returns all committed records, and no others. Nothing aborted (G1a), and nothing before a commit was
requested. Within the range of a read all committed records: so no part of a transaction without the rest.
"""

from collections.abc import Iterator

from cordwood.sim.histories.history import History, Promise
from cordwood.sim.histories.transactions import Fate

from .decided import decided
from .violation import Violation


def only_what_is_committed_is_read(history: History) -> Iterator[Violation]:
    transactions = history.transactions.by_number()
    transaction_of = {
        value: transactions[send.transaction]
        for send in history.sends
        if send.transaction >= 0
        for value in send.values
    }
    for read in history.reads:
        if not read.is_committed or read.error:
            continue
        for seen in read.visible():
            transaction = transaction_of.get(seen.value)
            if transaction is None:
                continue
            if transaction.fate is Fate.NOT_COMMITTED:
                yield Violation("nothing aborted is read", f"offset {seen.offset} of {read}; {transaction}")
            elif read.ended_s < transaction.commit_begun_s:
                yield Violation(
                    "nothing is read before it is committed", f"offset {seen.offset} of {read}; {transaction}"
                )
    if history.promise is not Promise.PREFIX:
        yield from _as_the_markers_say(history)


def _as_the_markers_say(history: History) -> Iterator[Violation]:
    truth = {partition: decided(log) for partition, log in history.final.items()}
    for read in history.reads:
        log = history.final.get(read.partition)
        if not read.is_committed or read.error or log is None or read.partition[0] in history.compacted:
            continue
        here = truth[read.partition]
        shown = {seen.offset for seen in read.visible() if seen.offset >= log.start_offset}
        expected = set(range(max(read.offset, log.start_offset), read.next_offset)) & here.committed
        for offset in sorted(shown - expected):
            yield Violation(
                "read_committed shows committed records only", f"offset {offset} is {here.of(offset)}: {read}"
            )
        # A consumer whose offset was deleted has continued at the log's start.
        deleted_to = history.deleted_to(read.partition) if read.is_polled else 0
        for offset in sorted(offset for offset in expected - shown if offset >= deleted_to):
            yield Violation("read_committed shows all committed records", f"offset {offset} is left out: {read}")
