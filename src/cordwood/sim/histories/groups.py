"""The history of group members: owners of partitions over time, and committed offsets."""

from dataclasses import dataclass
from enum import Enum

from cordwood.sim.partition import Partition, partition_name


@dataclass(slots=True, eq=False)
class Tenure:
    """A partition in the hands of a member, from when it was told so.

    `ended_s` is until when nobody else may have it: when the member let go of it, just before it said so, or when it
    may have been taken for dead, if that was before. Those of one partition are ordered by their numbers.
    """

    number: int
    group: str
    partition: Partition
    # The instance, of a static member; who replaces it has its partitions.
    owner: str
    # In which a leader has assigned it; -1 where no leader has.
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
    """An offset of one partition that was to be committed. Its number goes with it as metadata, so whoever is told of
    the offset knows which commit it was. Those that a library consumer makes by itself have no number.

    One that is part of a transaction begins and ends with the request that commits that, some time after it was asked
    for.
    """

    number: int
    client: str
    group: str
    partition: Partition
    offset: int
    # That of the member who committed; -1 of others.
    tenure: int
    begun_s: float
    ended_s: float = float("inf")
    outcome: CommitOutcome = CommitOutcome.UNKNOWN
    error: int = 0
    transaction: int = -1
    asked_s: float = 0.0
    has_number: bool = True
    # What a library consumer had given its application, and that was through with; -1 if nobody knows.
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
    """A committed offset as OffsetFetch told it; -1 if it knew of none."""

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
            f"{self.client} was told of offset {self.offset} (commit {self.metadata or 'none'}) for "
            f"{partition_name(self.partition)} in {self.group}, {self.begun_s:.6f}-{self.ended_s:.6f}"
        )


class GroupHistory:
    def __init__(self) -> None:
        self.tenures: list[Tenure] = []
        self.commits: list[Commit] = []
        self.offset_reads: list[OffsetRead] = []
        # What nobody had when a group had been left alone for long.
        self.left_over: list[str] = []
