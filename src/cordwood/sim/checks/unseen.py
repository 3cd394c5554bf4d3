"""A consumer that reads a partition to its end through the protocol sees all of its leader's records."""

from collections.abc import Iterator

from cordwood.sim.histories.history import History
from cordwood.sim.partition import partition_name

from .violation import Violation


def nothing_stays_unseen(history: History) -> Iterator[Violation]:
    for partition, held in history.replicas.final_offsets.items():
        log = history.final.get(partition)
        seen = {record.offset for record in log.records} if log is not None else set()
        unseen = [offset for offset in held if offset not in seen]
        if unseen:
            yield Violation(
                "nothing stays unseen", f"{partition_name(partition)} has {len(unseen)} more, from {unseen[0]} on"
            )
