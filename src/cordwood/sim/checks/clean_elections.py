"""A leader is elected from the replicas with all committed records, unless the topic may lose some."""

from collections.abc import Iterator

from cordwood.sim.histories.history import History
from cordwood.sim.partition import partition_name

from .violation import Violation


def leaders_have_been_in_sync(history: History) -> Iterator[Violation]:
    for change in history.replicas.states:
        before, leader = change.before, change.state.leader
        if before is None or leader in (-1, before.leader) or change.partition[0] in history.replicas.loose:
            continue
        # A replica that joins with the change that completes a reassignment may lead from then on; it is not alone.
        has_joined = leader in change.state.isr and len(change.state.isr) > 1
        if not has_joined and leader not in (*before.isr, *before.elr, *before.last_known_elr):
            yield Violation(
                "a leader was in sync",
                f"{change.at_s:.6f}: node {leader} leads {partition_name(change.partition)} from epoch "
                f"{change.state.leader_epoch} on; in sync were {before.isr}, eligible {before.elr}",
            )
            return
