"""Parameters of a group member's process."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class MemberSpec:
    name: str
    library: str  # "librdkafka", "kafka-python", "aiokafka" or "cordwood"
    bootstrap: str
    group: str
    # One that begins with ^ is a regular expression.
    topics: tuple[str, ...]
    journal: Path
    protocol: str = "classic"  # or "consumer": KIP-848
    assignor: str = "range"
    instance_id: str | None = None
    session_timeout_ms: int = 30_000
    max_poll_interval_ms: int = 60_000
    heartbeat_interval_ms: int = 50
    max_poll_records: int = 100
    # librdkafka only. A commit waits behind a JoinGroup on the same connection, which a member need not do.
    commits_async: bool = False
