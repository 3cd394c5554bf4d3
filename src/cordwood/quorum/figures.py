"""The figures of a node's member of the metadata quorum that Kafka's nodes report as raft-metrics."""

from __future__ import annotations

from collections.abc import Callable

from cordwood.raft.states import Candidate, Follower, Leader, Prospective, State, Unattached

# As Kafka's: averages, maxima and rates are of the present window and the one before.
_WINDOW_S = 30.0


class Windowed:
    """Values of the last 30 to 60 seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._since_s = monotonic()
        # Their number, sum and maximum, in the present window and in the one before.
        self._present: tuple[int, float, float] = (0, 0.0, 0.0)
        self._former: tuple[int, float, float] | None = None

    def add(self, value: float) -> None:
        self._roll()
        count, total, most = self._present
        self._present = (count + 1, total + value, max(most, value))

    @property
    def average(self) -> float:
        """NaN without any value, as in Kafka."""
        count, total, _most = self._both()
        return total / count if count else float("nan")

    @property
    def maximum(self) -> float:
        count, _total, most = self._both()
        return most if count else float("nan")

    @property
    def rate(self) -> float:
        """Their sum by second."""
        _count, total, _most = self._both()
        elapsed_s = self._monotonic() - self._since_s + (0.0 if self._former is None else _WINDOW_S)
        return total / max(elapsed_s, 1.0)

    def _both(self) -> tuple[int, float, float]:
        self._roll()
        if self._former is None:
            return self._present
        (count, total, most), (former_count, former_total, former_most) = self._present, self._former
        return count + former_count, total + former_total, max(most, former_most)

    def _roll(self) -> None:
        windows = int((self._monotonic() - self._since_s) / _WINDOW_S)
        if windows:
            self._former = self._present if windows == 1 else (0, 0.0, 0.0)
            self._present = (0, 0.0, 0.0)
            self._since_s += windows * _WINDOW_S


class QuorumFigures:
    """Follows the member step by step."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self.election_ms = Windowed(monotonic)
        self.commit_ms = Windowed(monotonic)
        self.appended_records = Windowed(monotonic)
        self.fetched_records = Windowed(monotonic)
        self._busy = Windowed(monotonic)
        self._election_began_s: float | None = None

    def appended(self, records: int, state: State) -> None:
        (self.appended_records if isinstance(state, Leader) else self.fetched_records).add(records)

    def committed(self, latency_ms: int) -> None:
        self.commit_ms.add(latency_ms)

    def stepped(self, before: State, after: State, began_s: float) -> None:
        """A step of the machine has been performed."""
        now_s = self._monotonic()
        self._busy.add(now_s - began_s)
        if before is after:
            return
        if isinstance(after, Prospective | Candidate):
            if self._election_began_s is None:
                self._election_began_s = now_s
        elif isinstance(after, Leader | Follower):
            began, self._election_began_s = self._election_began_s, None
            # Pre-votes that are lost lead back to the leader that there was.
            if began is not None and (after.epoch, after.leader_id) != (before.epoch, before.leader_id):
                self.election_ms.add((now_s - began) * 1000)

    @property
    def idle_ratio(self) -> float:
        """The share of time in which the loop did no work for the quorum."""
        return max(0.0, 1.0 - self._busy.rate)


def state_name(state: State, *, is_voter: bool) -> str:
    """In Kafka's terms: a node without a vote is an observer, whether it knows the leader or not. A leader that has
    restarted or was outvoted is `resigned`, for which Kafka has no name."""
    if isinstance(state, Follower | Unattached) and not is_voter:
        return "observer"
    has_voted = isinstance(state, Unattached | Prospective) and state.voted_key is not None
    return state.name.lower() + ("-voted" if has_voted else "")
