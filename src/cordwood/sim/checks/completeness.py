"""An elected leader has everything that was committed before (Raft 5.4.3)."""

from collections.abc import Iterator

from cordwood.sim.histories.history import History
from cordwood.sim.histories.quorum import Batch

from .violation import Violation


def leaders_have_what_is_committed(history: History) -> Iterator[Violation]:
    commits = sorted(history.quorum.commits, key=lambda commit: commit.at_s)
    committed: dict[int, Batch] = {}
    told = 0
    for election in sorted(history.quorum.elections, key=lambda election: election.at_s):
        while told < len(commits) and commits[told].at_s <= election.at_s:
            committed.update((batch.base_offset, batch) for batch in commits[told].batches)
            told += 1
        own = {batch.base_offset: batch for batch in election.batches}
        for base_offset, batch in committed.items():
            if base_offset >= election.start_offset and own.get(base_offset) != batch:
                yield Violation(
                    "leaders have all committed batches",
                    f"node {election.node_id}, elected in epoch {election.epoch} at {election.at_s:.6f}, has "
                    f"{own.get(base_offset)} where {batch} is committed",
                )
                return
