"""The quorum's settings: Kafka's `controller.quorum.*`, with its defaults."""

from dataclasses import dataclass

from cordwood.config.broker import BrokerConfig


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
    # How long a leader may wait for more appends before it flushes them together.
    append_linger_ms: int = 25
    auto_join_enable: bool = False
    # How long a leader may hold a fetch that has nothing to return; not configurable in Kafka.
    fetch_max_wait_ms: int = 500

    @classmethod
    def of(cls, config: BrokerConfig) -> "QuorumConfig":
        return cls(
            election_timeout_ms=config.integer("controller.quorum.election.timeout.ms"),
            fetch_timeout_ms=config.integer("controller.quorum.fetch.timeout.ms"),
            election_backoff_max_ms=config.integer("controller.quorum.election.backoff.max.ms"),
            request_timeout_ms=config.integer("controller.quorum.request.timeout.ms"),
            retry_backoff_ms=config.integer("controller.quorum.retry.backoff.ms"),
            fetch_max_bytes=config.integer("controller.quorum.fetch.max.bytes"),
            fetch_snapshot_max_bytes=config.integer("controller.quorum.fetch.snapshot.max.bytes"),
            append_linger_ms=config.integer("controller.quorum.append.linger.ms"),
            auto_join_enable=config.flag("controller.quorum.auto.join.enable"),
        )

    @property
    def check_quorum_timeout_ms(self) -> int:
        return self.fetch_timeout_ms * 3 // 2

    @property
    def begin_quorum_epoch_timeout_ms(self) -> int:
        return self.fetch_timeout_ms // 2
