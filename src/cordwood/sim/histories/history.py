"""The actions and observations of a run's clients, with times: the input of the checks.

A value is sent by one `Send` only, so it identifies the send wherever it is read. `incarnation` is the start of the
node that answered. Times are those of the simulation; an action that began after another had ended came after it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from cordwood.sim.partition import Partition as Partition

from .damage import DamageHistory
from .groups import GroupHistory
from .quorum import QuorumHistory
from .registry import RegistryHistory
from .replicas import ReplicaHistory
from .transactions import TransactionHistory


class Promise(Enum):
    """The meaning of an acknowledgement in this run."""

    DURABLE = "flush.messages=1: acknowledged and read records survive everything"
    KILLS = "the defaults, without a power loss: acknowledged and read records survive the process"
    REPLICATED = "acks=all, min.insync.replicas=2: acknowledged records survive if an in-sync replica keeps its disk"
    PREFIX = "the defaults, with power losses: each may take the end of a log"


class Outcome(Enum):
    UNKNOWN = "unknown"
    ACKNOWLEDGED = "acknowledged"
    # An error that says that it was not appended.
    REFUSED = "refused"


@dataclass(slots=True, eq=False)
class Send:
    """One batch, sent once, or by an idempotent producer until it was answered."""

    number: int
    client: str
    partition: Partition
    values: tuple[bytes, ...]
    keys: tuple[bytes | None, ...]
    acks: int
    begun_s: float
    # The identity and sequence of an idempotent producer; -1 otherwise.
    producer_id: int = -1
    producer_epoch: int = 0
    sequence: int = -1
    # Its number, if it is part of one.
    transaction: int = -1
    attempts: int = 1
    # The library producer, if it preserves order, and its life.
    stream: str = ""
    # The node that it was sent to first.
    first_incarnation: int = 0
    outcome: Outcome = Outcome.UNKNOWN
    error: int = 0
    base_offset: int = -1
    start_offset: int = -1
    ended_s: float = float("inf")
    incarnation: int = 0

    @property
    def is_idempotent(self) -> bool:
        return self.producer_id >= 0

    @property
    def last_offset(self) -> int:
        return self.base_offset + len(self.values) - 1

    def __str__(self) -> str:
        who = (
            f" as producer {self.producer_id}/{self.producer_epoch} from {self.sequence}" if self.is_idempotent else ""
        )
        where = f" at {self.base_offset} by incarnation {self.incarnation}" if self.base_offset >= 0 else ""
        return (
            f"send {self.number} of {self.client}{who} to {self.partition[0]}-{self.partition[1]}, acks={self.acks}, "
            f"{len(self.values)} records, {self.begun_s:.6f}-{self.ended_s:.6f}: {self.outcome.value}{where}"
        )


@dataclass(frozen=True, slots=True)
class SequenceGap:
    """A broker's answer that a batch does not follow, though all before it are acknowledged."""

    send: Send
    error: int
    incarnation: int
    # The time of the request.
    begun_s: float
    ended_s: float
    # The broker, in a cluster.
    node_id: int = -1


class Marker(Enum):
    """The end of a producer's transaction in a partition."""

    COMMIT = "commit"
    ABORT = "abort"


@dataclass(frozen=True, slots=True)
class Seen:
    """A record, or the marker that ends a transaction."""

    offset: int
    timestamp: int
    value: bytes
    # The producer of its batch.
    producer_id: int = -1
    producer_epoch: int = -1
    is_transactional: bool = False
    marker: Marker | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """One partition of one answered Fetch, or of one poll."""

    client: str
    partition: Partition
    incarnation: int
    begun_s: float
    ended_s: float
    offset: int
    error: int
    high_watermark: int
    start_offset: int
    records: tuple[Seen, ...]
    # Behind the last batch that came, which may have lost all its records to compaction.
    next_offset: int
    # It fetched only this partition, without limits: all records must be returned.
    is_alone: bool = False
    is_committed: bool = False
    last_stable_offset: int = -1
    # Transactions that were aborted: a producer's id, and where it began.
    aborted: tuple[tuple[int, int], ...] = ()
    # Records that a library consumer returned to its application, which knows no watermarks: `offset` is the position
    # before, `next_offset` the one after.
    is_polled: bool = False

    @property
    def limit(self) -> int:
        """The offset up to which it may read."""
        return self.last_stable_offset if self.is_committed else self.high_watermark

    def visible(self) -> Iterator[Seen]:
        """The records that a client hands on: for read_committed, nothing that was aborted."""
        to_come = sorted(self.aborted, key=lambda one: one[1], reverse=True) if self.is_committed else []
        aborting: set[int] = set()
        for seen in self.records:
            while to_come and to_come[-1][1] <= seen.offset:
                aborting.add(to_come.pop()[0])
            if seen.marker is not None:
                aborting.discard(seen.producer_id)
            elif seen.offset >= self.offset and not (seen.is_transactional and seen.producer_id in aborting):
                yield seen

    def __str__(self) -> str:
        isolation = f"read_committed, last stable offset {self.last_stable_offset}, " if self.is_committed else ""
        found = f"{self.records[0].offset}..{self.records[-1].offset}" if self.records else "nothing"
        return (
            f"read by {self.client} of {self.partition[0]}-{self.partition[1]} from {self.offset}, "
            f"{self.begun_s:.6f}-{self.ended_s:.6f}, incarnation {self.incarnation}: {found}, error {self.error}, "
            f"{isolation}high watermark {self.high_watermark}, log start {self.start_offset}"
        )


@dataclass(frozen=True, slots=True)
class Listed:
    """The earliest or latest offset, or the first with a timestamp, as returned by ListOffsets."""

    partition: Partition
    incarnation: int
    begun_s: float
    ended_s: float
    timestamp: int
    offset: int
    found_timestamp: int


@dataclass(slots=True, eq=False)
class Deletion:
    """A DeleteRecords; it may happen at any time after it was begun."""

    partition: Partition
    offset: int
    begun_s: float
    # The answer; -1 if there was none.
    low_watermark: int = -1
    incarnation: int = 0
    ended_s: float = float("inf")


@dataclass(slots=True)
class FinalLog:
    """A whole partition as read at the end."""

    start_offset: int
    high_watermark: int
    incarnation: int
    records: list[Seen] = field(default_factory=list)
    read_s: float = 0.0
    last_stable_offset: int = -1


class Settings:
    """The certain values of things that one client sets sequentially."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}

    def done(self, name: str, value: str) -> None:
        self.known[name] = value

    def forget(self, name: str) -> None:
        self.known.pop(name, None)


class History:
    def __init__(self, promise: Promise) -> None:
        self.promise = promise
        self.sends: list[Send] = []
        self.reads: list[Read] = []
        self.listed: list[Listed] = []
        self.deletions: list[Deletion] = []
        self.final: dict[Partition, FinalLog] = {}
        # The topics that clients have seen, and those that exist in the end, with their ids.
        self.topics: dict[str, str] = {}
        self.final_topics: dict[str, str] = {}
        # Batches that could not be decoded.
        self.broken: list[str] = []
        # Time-based look-ups in the final log: (partition, timestamp, offset, its timestamp).
        self.looked_up: list[tuple[Partition, int, int, int]] = []
        self.sequence_gaps: list[SequenceGap] = []
        # Compacted topics.
        self.compacted: set[str] = set()
        # The retention time of records; infinite if they never expire.
        self.retention_s = float("inf")
        # Changes of topics, partitions and configurations, and the final state.
        self.settings = Settings()
        self.found_settings: dict[str, str] = {}
        # Incarnations after which the power was lost.
        self.power_losses: list[int] = []
        # Unexpected errors of library clients.
        self.client_failures: list[str] = []
        # The warnings and errors that the node has logged.
        self.warnings: list[str] = []
        # Damage to its files, if any.
        self.damage = DamageHistory()
        # The actions of group members and transactional producers.
        self.groups = GroupHistory()
        self.transactions = TransactionHistory()
        # The actions of members of the metadata quorum.
        self.quorum = QuorumHistory()
        # The actions of replicas of partitions.
        self.replicas = ReplicaHistory()
        # The answers to clients of schema registries.
        self.registry = RegistryHistory()

    def deleted_to(self, partition: Partition) -> int:
        """The offset up to which records may have been deleted. An unanswered deletion may have happened, and a crash
        undone it."""
        return max((deletion.offset for deletion in self.deletions if deletion.partition == partition), default=0)

    def era(self, incarnation: int) -> int:
        """Within an era no acknowledged or read record may be lost."""
        if self.promise is not Promise.PREFIX:
            return 0
        return sum(lost < incarnation for lost in self.power_losses)

    def is_loose(self, partition: Partition) -> bool:
        """Returns whether acknowledged records may be lost."""
        return partition[0] in self.replicas.loose

    def acknowledged(self) -> Iterator[Send]:
        """Those that have to stay."""
        return (
            send
            for send in self.sends
            if send.outcome is Outcome.ACKNOWLEDGED and send.base_offset >= 0 and not self.is_loose(send.partition)
        )
