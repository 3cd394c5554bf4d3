"""An epoch of the metadata quorum has one leader (Raft 5.2)."""

from collections.abc import Iterator

from cordwood.sim.histories.history import History

from .violation import Violation


def an_epoch_has_one_leader(history: History) -> Iterator[Violation]:
    leaders: dict[int, int] = {}
    for election in history.quorum.elections:
        known = leaders.setdefault(election.epoch, election.node_id)
        if known != election.node_id:
            yield Violation(
                "an epoch has one leader",
                f"node {known} and, since {election.at_s:.6f}, node {election.node_id} lead epoch {election.epoch}",
            )
    for failure in history.quorum.failures:
        yield Violation("an epoch has one leader", f"a member found that the quorum broke a rule: {failure}")
