"""A committed offset is the one that was committed last, and never goes back: not by a commit that came before, nor by
one of a member that is not in the group any more.

Of two commits one comes before the other if it was answered before the other was begun, or if the partition had come
into other hands in between: from then on nothing of its former owner counts. What was not answered may be done at any
time, until then.
"""

from collections.abc import Iterator

from cordwood.sim.group_history import Commit, CommitOutcome, OffsetRead, Tenure
from cordwood.sim.history import History, Promise
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
    """Finds which one an offset is that was told."""

    def __init__(self, commits: list[Commit]) -> None:
        self._numbered = {str(commit.number): commit for commit in commits if commit.has_number}
        self._others: dict[tuple[str, Partition, int], list[Commit]] = {}
        for commit in commits:
            if not commit.has_number:
                self._others.setdefault((commit.group, commit.partition, commit.offset), []).append(commit)

    def that(self, read: OffsetRead) -> Commit | None:
        """Of those without a number, the last that it may be."""
        if read.metadata:
            return self._numbered.get(read.metadata)
        some = self._others.get((read.group, read.partition, read.offset), [])
        possible = [one for one in some if one.begun_s <= read.ended_s and one.outcome is not CommitOutcome.REFUSED]
        return max(possible, key=_lateness, default=None)


def _lateness(commit: Commit) -> tuple[float, float]:
    """One that is of no tenure that we know comes after none for certain."""
    return (commit.tenure if commit.tenure >= 0 else float("inf"), commit.ended_s)


def _stale_reads(reads: list[OffsetRead], acknowledged: list[Commit], commits: "_Commits") -> Iterator[Violation]:
    """What is known when a read begins: what was acknowledged before, and what others had been told before."""
    known = [(commit.ended_s, commit, not commit.is_transactional) for commit in acknowledged]
    for read in reads:
        seen = commits.that(read)
        if seen is None and read.offset < 0:
            continue
        if seen is None or (seen.offset, seen.group, seen.partition) != (read.offset, read.group, read.partition):
            yield Violation("a committed offset is as it was committed", f"{read}; {seen}")
        elif seen.outcome is CommitOutcome.REFUSED:
            yield Violation("what is refused is not committed", f"{read}; {seen}, error {seen.error}")
        elif seen.begun_s > read.ended_s:
            yield Violation("an offset is not told before it is committed", f"{read}; {seen}")
        else:
            known.append((read.ended_s, seen, True))
    known.sort(key=lambda entry: entry[0])
    for read in reads:
        seen = commits.that(read)
        for ended_s, before, is_stable in known:
            if ended_s >= read.begun_s:
                break
            # The offset of a transaction counts from when its marker is written, soon after the transaction has ended;
            # until then only those who ask for what is stable wait for it.
            if (is_stable or read.require_stable) and (seen is None or _precedes(seen, before)):
                gone_back = seen is None or seen.offset < before.offset
                invariant = "committed offsets never go back" if gone_back else "the last commit is the one that counts"
                yield Violation(invariant, f"{read}; it was {seen}; but before: {before}")
                break


def _precedes(one: Commit, other: Commit) -> bool:
    if one is other:
        return False
    return one.ended_s < other.begun_s or -1 < one.tenure < other.tenure


def _of_former_owners(history: History) -> Iterator[Violation]:
    """A member that goes on with what it had once is told so."""
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
                yield Violation("only who has a partition commits for it", f"{commit}; but {other}")
                break
