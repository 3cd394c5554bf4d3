"""The committed offset is the last one committed, and never goes back: neither through an earlier commit, nor through
one of a member that has left the group.

One commit precedes another if it was answered before the other was sent, or if the partition changed owners in between:
from then on commits of the former owner don't count. An unanswered commit may take effect at any time, until then.
"""

from collections.abc import Iterator

from cordwood.sim.histories.groups import Commit, CommitOutcome, OffsetRead, Tenure
from cordwood.sim.histories.history import History, Promise
from cordwood.sim.partition import Partition

from .violation import Violation


def committed_offsets_never_go_back(history: History) -> Iterator[Violation]:
    if history.promise is Promise.PREFIX:
        return
    groups = history.groups
    commits = _Commits(groups.commits)
    reads: dict[tuple[str, Partition], list[OffsetRead]] = {}
    for read in groups.offset_reads:
        reads.setdefault((read.group, read.partition), []).append(read)
    for (group, partition), some in reads.items():
        acknowledged = [
            commit
            for commit in groups.commits
            if commit.group == group and commit.partition == partition and commit.outcome is CommitOutcome.ACKNOWLEDGED
        ]
        yield from _stale_reads(some, acknowledged, commits)
    yield from _of_former_owners(history)


class _Commits:
    """Finds the commit of an offset that was read."""

    def __init__(self, commits: list[Commit]) -> None:
        self._numbered = {str(commit.number): commit for commit in commits if commit.has_number}
        self._others: dict[tuple[str, Partition, int], list[Commit]] = {}
        for commit in commits:
            if not commit.has_number:
                self._others.setdefault((commit.group, commit.partition, commit.offset), []).append(commit)

    def those(self, read: OffsetRead) -> list[Commit]:
        """All candidates among the commits without a number."""
        if read.metadata:
            return [self._numbered[read.metadata]] if read.metadata in self._numbered else []
        some = self._others.get((read.group, read.partition, read.offset), [])
        return [one for one in some if one.begun_s <= read.ended_s and one.outcome is not CommitOutcome.REFUSED]


def _stale_reads(reads: list[OffsetRead], acknowledged: list[Commit], commits: "_Commits") -> Iterator[Violation]:
    """The commits known when a read begins: those acknowledged before, and those read before."""
    known = [(commit.ended_s, [commit], not commit.is_transactional) for commit in acknowledged]
    for read in reads:
        seen = commits.those(read)
        wrong = _wrong(read, seen)
        if wrong is not None:
            yield wrong
        elif seen:
            known.append((read.ended_s, seen, True))
    known.sort(key=lambda entry: entry[0])
    for read in reads:
        seen = commits.those(read)
        for ended_s, before, is_stable in known:
            if ended_s >= read.begun_s:
                break
            # A transaction's offset counts once its marker is written, soon after the transaction has ended; until then
            # only fetches of stable offsets wait for it.
            if (is_stable or read.require_stable) and _all_precede(seen, before):
                gone_back = read.offset < before[0].offset
                invariant = "committed offsets never go back" if gone_back else "the last commit wins"
                yield Violation(invariant, f"{read}; it was {_listed(seen)}; but before: {_listed(before)}")
                break


def _wrong(read: OffsetRead, seen: list[Commit]) -> Violation | None:
    """The violations that don't depend on the order of commits. Commits without a number may have been read, too."""
    if not seen:
        is_of_nobody = read.offset >= 0
        return Violation("a committed offset is unchanged", f"{read}; nobody's") if is_of_nobody else None
    one = seen[0]
    if (one.offset, one.group, one.partition) != (read.offset, read.group, read.partition):
        return Violation("a committed offset is unchanged", f"{read}; {one}")
    if one.outcome is CommitOutcome.REFUSED:
        return Violation("refused commits have no effect", f"{read}; {one}, error {one.error}")
    if one.begun_s > read.ended_s:
        return Violation("offsets are visible only after their commit", f"{read}; {one}")
    return None


def _all_precede(some: list[Commit], others: list[Commit]) -> bool:
    """Whichever of them it was."""
    return all(_precedes(one, other) for one in some for other in others)


def _listed(commits: list[Commit]) -> str:
    return ", or ".join(map(str, commits)) or "none"


def _precedes(one: Commit, other: Commit) -> bool:
    if one is other:
        return False
    return one.ended_s < other.begun_s or -1 < one.tenure < other.tenure


def _of_former_owners(history: History) -> Iterator[Violation]:
    """Commits of a member that continues with former partitions are rejected."""
    tenures: dict[tuple[str, Partition], list[Tenure]] = {}
    for tenure in history.groups.tenures:
        tenures.setdefault((tenure.group, tenure.partition), []).append(tenure)
    for commit in history.groups.commits:
        if commit.outcome is not CommitOutcome.ACKNOWLEDGED:
            continue
        here = tenures.get((commit.group, commit.partition), [])
        mine = next((tenure for tenure in here if tenure.number == commit.tenure), None)
        for other in here:
            if (
                mine is not None
                and other.number > mine.number
                and other.owner != mine.owner
                and other.begun_s < min(commit.asked_s, other.ended_s)
            ):
                yield Violation("only owners commit", f"{commit}; but {other}")
                break
