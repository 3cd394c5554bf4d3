"""A replica's progress, as its leader knows it."""

from dataclasses import dataclass, field

from cordwood.raft.identity import Endpoints, ReplicaKey


@dataclass(slots=True)
class ReplicaProgress:
    key: ReplicaKey
    endpoints: Endpoints = field(default_factory=dict)
    # None until its first fetch.
    end_offset: int | None = None
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1
    has_acknowledged_leader: bool = False
    _leader_end_at_last_fetch: int = -1

    def fetched(self, now: int, offset: int, leader_end_offset: int) -> None:
        if offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now)
        elif 0 < self._leader_end_at_last_fetch <= offset:
            # The leader's log end at its previous fetch, which it has reached.
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self._leader_end_at_last_fetch = leader_end_offset
        self.last_fetch_ms = max(self.last_fetch_ms, now)
        self.end_offset = offset
        self.has_acknowledged_leader = True

    @property
    def rank(self) -> tuple[int, ReplicaKey]:
        """Orders replicas by descending end offset."""
        return (-self.end_offset if self.end_offset is not None else 1, self.key)
