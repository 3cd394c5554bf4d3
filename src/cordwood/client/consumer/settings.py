"""How a consumer behaves; Kafka's names in Python's spelling, and Kafka's defaults."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cordwood.client.settings import Settings

Deserializer = Callable[[bytes], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings(Settings):
    key_deserializer: Deserializer | None = None
    value_deserializer: Deserializer | None = None
    """Not called for None."""
    group_id: str | None = None
    group_instance_id: str | None = None
    group_protocol: str = "classic"
    group_remote_assignor: str | None = None
    partition_assignment_strategy: Sequence[Any] = ("range", "cooperative-sticky")
    """Names (range, roundrobin, sticky, cooperative-sticky) or assignors of one's own; the group takes one that all
    of its members have."""
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    max_poll_records: int = 500
    fetch_min_bytes: int = 1
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 52_428_800
    max_partition_fetch_bytes: int = 1_048_576
    check_crcs: bool = True
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    auto_offset_reset: str = "latest"
    """earliest, latest, none, or by_duration:PT1H (KIP-1106)."""
    isolation_level: str = "read_uncommitted"
    client_rack: str = ""
    allow_auto_create_topics: bool = True
    exclude_internal_topics: bool = True
    interceptors: Sequence[Any] = ()
