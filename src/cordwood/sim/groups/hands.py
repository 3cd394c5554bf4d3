"""A member's partitions: positions, and how long it owns them."""

from collections.abc import Iterable

from cordwood.sim.clients.client import Run
from cordwood.sim.histories.groups import Tenure
from cordwood.sim.partition import Partition

from .offsets import Position


class Hands:
    def __init__(self, run: Run, group: str, session_timeout_s: float, rebalance_timeout_s: float) -> None:
        self._run = run
        self._group = group
        self._session_timeout_s = session_timeout_s
        self._rebalance_timeout_s = rebalance_timeout_s
        self._tenures: dict[Partition, Tenure] = {}
        # Partitions that another member may have owned for a while.
        self._doubted: list[Partition] = []
        # The number of each partition's last tenure.
        self._last: dict[Partition, int] = {}
        # The next offsets of partitions whose committed offset is known; the rest cannot be read yet.
        self.positions: dict[Partition, int] = {}
        self._session_ends_s = self._rebalance_ends_s = float("-inf")

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._tenures

    @property
    def held(self) -> list[Partition]:
        return list(self._tenures)

    @property
    def unknown(self) -> list[Partition]:
        """Partitions whose committed offset must be fetched."""
        return [partition for partition in self._tenures if partition not in self.positions]

    def position(self, partition: Partition) -> Position:
        return Position(self.positions[partition], self._tenures[partition].number)

    def tenure_of(self, partition: Partition) -> int:
        """The last; -1 if it has never had it, or may have lost it."""
        return self._last.get(partition, -1)

    def begun_s(self, partition: Partition) -> float:
        return self._tenures[partition].begun_s

    def was_heard(self, asked_s: float) -> None:
        """The session is renewed as of the time when the request was sent."""
        self._session_ends_s = asked_s + self._session_timeout_s

    def was_left_alone(self, asked_s: float) -> None:
        """No rebalance had begun by then."""
        self._rebalance_ends_s = asked_s + self._rebalance_timeout_s

    def take(self, partitions: Iterable[Partition], owner: str, generation: int = -1) -> None:
        for partition in partitions:
            tenure = Tenure(self._run.next_number(), self._group, partition, owner, generation, self._run.now_s)
            self._run.history.groups.tenures.append(tenure)
            self._tenures[partition] = tenure
            self._last[partition] = tenure.number

    def was_left(self) -> None:
        """The member is leaving: others may own its partitions from now on."""
        for tenure in self._tenures.values():
            self._end(tenure)

    def doubt(self) -> None:
        """The group may have continued without it for a while, and then its partitions belong to others. Until it
        releases them it may commit as a member of the new generation, as in Kafka: such a commit has no owner."""
        self.was_left()
        self._doubted = self.held
        self._last.update(dict.fromkeys(self.held, -1))

    def confirm(self, assigned: Iterable[Partition], generation: int) -> None:
        """Confirms partitions that it holds and was in doubt about, if they are assigned to it."""
        kept = [partition for partition in assigned if partition in self._doubted and partition in self._tenures]
        self._doubted = []
        for partition in kept:
            self.take([partition], self._tenures[partition].owner, generation)

    def let_go(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            tenure = self._tenures.pop(partition)
            self._end(tenure)
            self.positions.pop(partition, None)

    def let_go_of_all(self) -> None:
        self.let_go(self.held)

    def _end(self, tenure: Tenure) -> None:
        tenure.ended_s = min(tenure.ended_s, self._run.now_s, self._session_ends_s, self._rebalance_ends_s)
