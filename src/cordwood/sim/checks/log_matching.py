"""All members commit the same batches (Raft 5.3 and 5.4.3), and their logs have them at the end."""

from collections.abc import Iterator

from cordwood.sim.histories.history import History
from cordwood.sim.histories.quorum import Batch

from .violation import Violation


def members_commit_the_same(history: History) -> Iterator[Violation]:
    committed: dict[int, tuple[Batch, int]] = {}
    for commit in history.quorum.commits:
        for batch in commit.batches:
            known, node_id = committed.setdefault(batch.base_offset, (batch, commit.node_id))
            if known != batch:
                yield Violation(
                    "members commit the same",
                    f"node {commit.node_id} commits {batch} at {commit.at_s:.6f}, and node {node_id} {known}",
                )
                return
    for node_id, batches in history.quorum.final_logs.items():
        for batch in batches:
            known, other = committed.get(batch.base_offset, (batch, node_id))
            if known != batch:
                yield Violation(
                    "members commit the same",
                    f"when all is over node {node_id} has {batch}, and node {other} had committed {known}",
                )
                return
