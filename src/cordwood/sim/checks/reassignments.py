"""A reassignment ends with its new replicas in sync, or without them."""

from collections.abc import Iterator

from cordwood.sim.histories.history import History
from cordwood.sim.partition import partition_name

from .violation import Violation


def reassignments_end_in_sync(history: History) -> Iterator[Violation]:
    for change in history.replicas.states:
        before, state = change.before, change.state
        if before is None:
            continue
        had = {*before.replicas} - {*before.adding_replicas}
        # Replicas of a replaced plan may be kept until the new one is complete, if no others have their data.
        left = {*state.adding_replicas, *state.removing_replicas}
        early = sorted({*state.replicas} - left - had - {*state.isr})
        if early:
            yield Violation(
                "a reassignment ends when its replicas are in sync",
                f"{change.at_s:.6f}: {partition_name(change.partition)} has {state.replicas}, in sync are {state.isr}, "
                f"not {early}; before it had {before.replicas} and was adding {before.adding_replicas}",
            )
            return
