"""A library consumer commits only records that its application was given and has processed."""

from bisect import bisect_left
from collections.abc import Iterator

from cordwood.sim.histories.history import History, Promise

from .violation import Violation


def only_what_was_given_is_committed(history: History) -> Iterator[Violation]:
    if history.promise is Promise.PREFIX:
        return
    there = {
        partition: [seen.offset for seen in log.records if seen.marker is None]
        for partition, log in history.final.items()
    }
    for commit in history.groups.commits:
        if commit.given_to < 0:
            continue
        log = there.get(commit.partition, [])
        skipped = log[bisect_left(log, commit.given_to) : bisect_left(log, commit.offset)]
        if skipped:
            yield Violation("only returned records are committed", f"not {skipped[:10]}: {commit}")
