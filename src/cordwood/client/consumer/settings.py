"""Settings of a consumer; Kafka's names in Python's spelling, and Kafka's defaults."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cordwood.client.settings import Settings

Deserializer = Callable[[bytes], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings(Settings):
    key_deserializer: Deserializer | None = None
    """A callable that takes a key's bytes. Without one keys are bytes. Not called for None."""
    value_deserializer: Deserializer | None = None
    """A callable that takes a value's bytes. Without one values are bytes. Not called for None."""
    group_id: str | None = None
    """Consumers with the same one share the partitions of their topics. None: no group, and no committed offsets."""
    group_instance_id: str | None = None
    """Makes this a static member, which may be away for as long as its session lasts without a rebalance."""
    group_protocol: str = "classic"
    """classic, or consumer: the brokers assign the partitions (KIP-848)."""
    group_remote_assignor: str | None = None
    """With group_protocol=consumer: the brokers' assignor, uniform or range. None: the brokers choose."""
    partition_assignment_strategy: Sequence[Any] = ("range", "cooperative-sticky")
    """Names (range, roundrobin, sticky, cooperative-sticky) or assignors of one's own; the group takes one that all
    of its members have."""
    session_timeout_ms: int = 45_000
    """Without a heartbeat for so long, the group goes on without this member."""
    heartbeat_interval_ms: int = 3_000
    """Interval of heartbeats to the coordinator, also while the application works."""
    max_poll_interval_ms: int = 300_000
    """Without a poll for so long, the member leaves its group: the application is stuck."""
    max_poll_records: int = 500
    """Records that one poll returns at most."""
    fetch_min_bytes: int = 1
    """A broker waits until there is so much to read, up to fetch_max_wait_ms."""
    fetch_max_wait_ms: int = 500
    """Time for which a broker waits for fetch_min_bytes."""
    fetch_max_bytes: int = 52_428_800
    """Bytes of a response, unless its first batch is larger."""
    max_partition_fetch_bytes: int = 1_048_576
    """Bytes of one partition in a response, unless its first batch is larger."""
    check_crcs: bool = True
    """Batches are checked against their checksums."""
    enable_auto_commit: bool = True
    """Commits automatically what polls have returned; False without a group_id."""
    auto_commit_interval_ms: int = 5_000
    """Interval of automatic commits."""
    auto_offset_reset: str = "latest"
    """earliest, latest, none, or by_duration:PT1H (KIP-1106): where to begin without a committed offset."""
    isolation_level: str = "read_uncommitted"
    """read_uncommitted; read_committed: no records of transactions that are open or were aborted."""
    client_rack: str = ""
    """Where this client is, so that it may read from a replica nearby."""
    allow_auto_create_topics: bool = True
    """Lets brokers create a topic that is subscribed to."""
    exclude_internal_topics: bool = True
    """A pattern does not match topics such as __consumer_offsets."""
    interceptors: Sequence[Any] = ()
    """Objects with on_consume and on_commit, called in their order."""
