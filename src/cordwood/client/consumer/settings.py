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
    """Consumers with the same id share the partitions of their topics. None: no group, and no committed offsets."""
    group_instance_id: str | None = None
    """Makes this a static member, which may be absent for up to its session timeout without a rebalance."""
    group_protocol: str = "classic"
    """classic, or consumer: the brokers assign the partitions (KIP-848)."""
    group_remote_assignor: str | None = None
    """With group_protocol=consumer: the brokers' assignor, uniform or range. None: the brokers choose."""
    partition_assignment_strategy: Sequence[Any] = ("range", "cooperative-sticky")
    """Names (range, roundrobin, sticky, cooperative-sticky) or custom assignors; the group picks one that all of its
    members have."""
    session_timeout_ms: int = 45_000
    """The group removes this member after this time without a heartbeat."""
    heartbeat_interval_ms: int = 3_000
    """Interval of heartbeats to the coordinator, which continue while the application works."""
    max_poll_interval_ms: int = 300_000
    """The member leaves its group after this time without a poll: the application is stuck."""
    max_poll_records: int = 500
    """Maximum number of records that one poll returns."""
    fetch_min_bytes: int = 1
    """A broker waits until this much data is available, up to fetch_max_wait_ms."""
    fetch_max_wait_ms: int = 500
    """Maximum time for which a broker waits for fetch_min_bytes."""
    fetch_max_bytes: int = 52_428_800
    """Maximum bytes of a response, unless its first batch is larger."""
    max_partition_fetch_bytes: int = 1_048_576
    """Maximum bytes of one partition in a response, unless its first batch is larger."""
    check_crcs: bool = True
    """Verifies the checksums of batches."""
    enable_auto_commit: bool = True
    """Commits automatically what polls have returned; False without a group_id."""
    auto_commit_interval_ms: int = 5_000
    """Interval of automatic commits."""
    auto_offset_reset: str = "latest"
    """earliest, latest, none, or by_duration:PT1H (KIP-1106): where to start without a committed offset."""
    isolation_level: str = "read_uncommitted"
    """read_uncommitted; read_committed: skip records of open and aborted transactions."""
    client_rack: str = ""
    """The rack of this client, which may then read from a nearby replica."""
    allow_auto_create_topics: bool = True
    """Lets brokers create subscribed topics."""
    exclude_internal_topics: bool = True
    """Patterns do not match internal topics such as __consumer_offsets."""
    interceptors: Sequence[Any] = ()
    """Objects with on_consume and on_commit, called in their order."""
