"""The epoch and the committed offset of a member never go back, whatever happens to its node."""

from collections.abc import Iterator

from cordwood.sim.histories.history import History

from .violation import Violation


def epochs_never_go_back(history: History) -> Iterator[Violation]:
    latest: dict[int, int] = {}
    for seen in history.quorum.epochs:
        before = latest.get(seen.node_id, -1)
        if seen.epoch < before:
            yield Violation(
                "epochs never go back",
                f"node {seen.node_id}, start {seen.incarnation}: epoch {seen.epoch} at {seen.at_s:.6f} after {before}",
            )
        latest[seen.node_id] = max(before, seen.epoch)


def the_metadata_high_watermark_never_goes_back(history: History) -> Iterator[Violation]:
    """Within a start of a node, and from one leader to the next: a leader that reports less than one of an earlier
    epoch has lost committed records. A deposed leader may still process older fetches, and report less than its
    successor."""
    members: dict[tuple[int, int], int] = {}
    led: dict[int, int] = {}
    leaders: set[tuple[int, int]] = set()
    for commit in history.quorum.commits:
        member = (commit.node_id, commit.incarnation)
        if commit.high_watermark < members.get(member, 0):
            yield Violation(
                "the metadata high watermark never goes back",
                f"node {commit.node_id}: {commit.high_watermark} at {commit.at_s:.6f} after {members[member]}",
            )
        members[member] = commit.high_watermark
        if not commit.is_leader:
            continue
        leader = (commit.node_id, commit.epoch)
        before = max((told for epoch, told in led.items() if epoch < commit.epoch), default=0)
        if leader not in leaders and commit.high_watermark < before:
            yield Violation(
                "the metadata high watermark never goes back",
                f"node {commit.node_id} leads epoch {commit.epoch} and tells {commit.high_watermark} at "
                f"{commit.at_s:.6f}, after {before} was told by a leader",
            )
        leaders.add(leader)
        led[commit.epoch] = max(led.get(commit.epoch, 0), commit.high_watermark)
