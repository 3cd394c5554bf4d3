"""Votes: how an election is counted, and when one that has no leader is granted."""

from collections.abc import Iterable

from cordwood.raft.identity import ReplicaKey


class Votes:
    """The votes of one election, by voter. The voters are those at its start.

    A replica that is being removed may be elected without voting itself (`Quorum.is_eligible`).
    """

    __slots__ = ("_granted", "_rejected", "_unreachable", "_voters")

    def __init__(self, voters: Iterable[ReplicaKey], local_id: int) -> None:
        self._voters = {key.id: key for key in voters}
        self._granted = {local_id} & self._voters.keys()
        self._rejected: set[int] = set()
        # Their addresses refuse connections; they are asked again.
        self._unreachable: set[int] = set()

    def record(self, voter_id: int, granted: bool) -> None:
        """Counts a vote; the answer of a replica that isn't a voter of this election is not counted."""
        if voter_id in self._voters:
            (self._granted if granted else self._rejected).add(voter_id)
            (self._rejected if granted else self._granted).discard(voter_id)

    def unreachable(self, voter_id: int) -> None:
        self._unreachable.add(voter_id)

    def ask_again(self, voter_id: int) -> None:
        """Drops a voter's rejection: it has lost its leader since."""
        self._rejected.discard(voter_id)

    @property
    def granting(self) -> list[int]:
        return sorted(self._granted)

    @property
    def unrecorded(self) -> list[ReplicaKey]:
        return [key for key in self._voters.values() if key.id not in self._granted | self._rejected]

    @property
    def is_won(self) -> bool:
        return len(self._granted) >= self._majority

    @property
    def is_lost(self) -> bool:
        """True once a majority can't be reached any more."""
        return len(self._voters) - len(self._rejected) < self._majority

    @property
    def is_hopeless(self) -> bool:
        """True if too few voters can still grant, and enough are left to win another election."""
        gone = self._rejected | (self._unreachable - self._granted)
        return bool(self._rejected) and len(self._voters) - len(gone) < self._majority

    @property
    def _majority(self) -> int:
        return len(self._voters) // 2 + 1


def can_grant(
    key: ReplicaKey, voted_key: ReplicaKey | None, leader_id: int | None, *, up_to_date: bool, pre_vote: bool
) -> bool:
    """The rule of a replica that follows no leader (Raft 5.2, 5.4.1; KIP-996 for pre-votes, which are not binding)."""
    if pre_vote:
        return up_to_date
    if voted_key is not None:
        return voted_key.matches(key)
    return leader_id is None and up_to_date
