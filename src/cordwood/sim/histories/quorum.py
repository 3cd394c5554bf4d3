"""The history of a metadata quorum's members and administrators: the input of the checks."""

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from cordwood.wire.batch_header import BatchHeader


class WishOutcome(Enum):
    UNKNOWN = "unknown"
    DONE = "done"
    REFUSED = "refused"


class Batch(NamedTuple):
    """A batch of the metadata log: two that are equal hold the same records."""

    base_offset: int
    next_offset: int
    epoch: int
    crc: int

    @classmethod
    def of(cls, header: BatchHeader) -> "Batch":
        return cls(header.base_offset, header.next_offset, header.leader_epoch, header.crc)


@dataclass(frozen=True, slots=True)
class Election:
    """A member that has just become the leader of an epoch, and its log then."""

    at_s: float
    node_id: int
    epoch: int
    start_offset: int
    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """A member reports these batches to its node as committed."""

    at_s: float
    node_id: int
    incarnation: int
    epoch: int
    is_leader: bool
    high_watermark: int
    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class Reset:
    """A member continues from a snapshot that it received."""

    at_s: float
    node_id: int
    incarnation: int
    offset: int


@dataclass(frozen=True, slots=True)
class EpochSeen:
    """The epoch of a member, whenever it changes."""

    at_s: float
    node_id: int
    incarnation: int
    epoch: int


@dataclass(slots=True)
class Wish:
    """A topic that an administrator wants created or deleted, or a setting of one."""

    number: int
    client: str
    topic: str
    # None: the topic itself.
    setting: str | None
    # The value of the setting; "" for a topic to be created, None for one to be deleted.
    value: str | None
    begun_s: float
    ended_s: float = float("inf")
    outcome: WishOutcome = WishOutcome.UNKNOWN
    topic_id: str = ""

    def __str__(self) -> str:
        what = "topic" if self.setting is None else f"{self.setting}={self.value}"
        return f"{self.client}: {what} of {self.topic}, {self.begun_s:.3f}-{self.ended_s:.3f}, {self.outcome.value}"


@dataclass(frozen=True, slots=True)
class FinalMetadata:
    """A broker's metadata at the end: topics, ids and settings."""

    node_id: int
    topics: dict[str, str]
    settings: dict[tuple[str, str], str]


@dataclass(slots=True)
class QuorumHistory:
    elections: list[Election] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    resets: list[Reset] = field(default_factory=list)
    epochs: list[EpochSeen] = field(default_factory=list)
    # Members that stopped because the quorum broke a rule.
    failures: list[str] = field(default_factory=list)
    wishes: list[Wish] = field(default_factory=list)
    final: list[FinalMetadata] = field(default_factory=list)
    # The metadata logs at the end, by node.
    final_logs: dict[int, tuple[Batch, ...]] = field(default_factory=dict)
    # Conditions that weren't met in time after healing.
    unhealed: list[str] = field(default_factory=list)
