"""The history of group members: owners of partitions over time, and committed offsets."""

from dataclasses import dataclass
from enum import Enum

from cordwood.sim.partition import Partition, partition_name


@dataclass(slots=True, eq=False)
class Tenure:
    """The ownership of a partition by a member, from the response with the assignment. Until `ended_s` no other member
    may own it: until the member released it, just before it reported that, or until it may have been considered dead,
    if that was earlier. Those of one partition are ordered by their numbers.
    """

    number: int
    group: str
    partition: Partition
    # The member, or the instance of a static one, whose replacement gets its partitions.
    owner: str
    # The generation of the assignment by a leader; -1 without a leader.
    generation: int
    begun_s: float
    ended_s: float = float("inf")

    def __str__(self) -> str:
        when = f"{self.begun_s:.6f}-{self.ended_s:.6f}"
        generation = f" in generation {self.generation}" if self.generation >= 0 else ""
        return f"{self.owner} of {self.group} has {partition_name(self.partition)}{generation}, {when}"


class CommitOutcome(Enum):
    UNKNOWN = "unknown"
    ACKNOWLEDGED = "acknowledged"
    # An error that says that it does not count, to a request that was sent once.
    REFUSED = "refused"


@dataclass(slots=True, eq=False)
class Commit:
    """A commit of one partition's offset. Its number is stored as metadata, so a reader of the offset can tell the
    commit. Automatic commits of a library consumer have no number. A commit in a transaction begins and ends with the
    request that commits the transaction, some time after it was made.
    """

    number: int
    client: str
    group: str
    partition: Partition
    offset: int
    # The tenure of the committing member; -1 for others.
    tenure: int
    begun_s: float
    ended_s: float = float("inf")
    outcome: CommitOutcome = CommitOutcome.UNKNOWN
    error: int = 0
    transaction: int = -1
    asked_s: float = 0.0
    has_number: bool = True
    # The position up to which a library consumer's application has processed records; -1 if unknown.
    given_to: int = -1

    @property
    def is_transactional(self) -> bool:
        return self.transaction >= 0

    def __str__(self) -> str:
        within = f" in transaction {self.transaction}" if self.is_transactional else ""
        return (
            f"commit {self.number} of {self.offset} for {partition_name(self.partition)} in {self.group} by "
            f"{self.client}, tenure {self.tenure}{within}, {self.begun_s:.6f}-{self.ended_s:.6f}: {self.outcome.value}"
        )


@dataclass(frozen=True, slots=True)
class OffsetRead:
    """A committed offset as returned by OffsetFetch; -1 if there was none."""

    client: str
    group: str
    partition: Partition
    begun_s: float
    ended_s: float
    offset: int
    metadata: str
    require_stable: bool

    def __str__(self) -> str:
        return (
            f"{self.client} read offset {self.offset} (commit {self.metadata or 'none'}) for "
            f"{partition_name(self.partition)} in {self.group}, {self.begun_s:.6f}-{self.ended_s:.6f}"
        )


class GroupHistory:
    def __init__(self) -> None:
        self.tenures: list[Tenure] = []
        self.commits: list[Commit] = []
        self.offset_reads: list[OffsetRead] = []
        # The unowned partitions of a group that was undisturbed for long.
        self.left_over: list[str] = []
