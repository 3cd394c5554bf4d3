"""The quorum's settings: Kafka's `controller.quorum.*`, with its defaults."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QuorumConfig:
    # A voter without a leader waits between one and two of these before it asks for votes.
    election_timeout_ms: int = 1000
    # A voter that could not fetch for this long asks for votes; a leader without fetches of a majority for 1.5 times
    # this long resigns.
    fetch_timeout_ms: int = 2000
    election_backoff_max_ms: int = 1000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_bytes: int = 1 << 20
    fetch_snapshot_max_bytes: int = 1 << 20
    auto_join_enable: bool = False
    # How long a leader may hold a fetch that has nothing to return; not configurable in Kafka.
    fetch_max_wait_ms: int = 500

    @property
    def check_quorum_timeout_ms(self) -> int:
        return self.fetch_timeout_ms * 3 // 2

    @property
    def begin_quorum_epoch_timeout_ms(self) -> int:
        return self.fetch_timeout_ms // 2
