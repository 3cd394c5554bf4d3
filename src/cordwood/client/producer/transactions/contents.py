"""The partitions and offsets of the open transaction, and those still to be added."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.errors import ClientError
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.client.producer.transactions.operation import Operation
from cordwood.wire.errors import ErrorCode


@dataclass(slots=True)
class OffsetCommit:
    """Offsets of a group being committed; acknowledged ones leave `offsets`."""

    group: GroupMetadata
    offsets: dict[TopicPartition, OffsetAndMetadata]
    operation: Operation


class Contents:
    """A partition is new, then being added (requested, perhaps done), then added. Dicts serve as ordered sets."""

    def __init__(self, *, is_started: bool = False) -> None:
        self.is_started = is_started
        """True if the coordinator may have it open, so that it must be ended."""
        self.new: dict[TopicPartition, None] = {}
        self.adding: dict[TopicPartition, None] = {}
        self.added: dict[TopicPartition, None] = {}
        self.adding_group: str | None = None
        self.groups: set[str] = set()
        self.commits: deque[OffsetCommit] = deque()

    def has(self, partition: TopicPartition) -> bool:
        return partition in self.added or partition in self.adding or partition in self.new

    def partitions_are_added(self) -> None:
        self.is_started = True
        self.added |= self.adding
        self.adding = {}

    def group_is_added(self) -> None:
        assert self.adding_group is not None
        self.is_started = True
        self.groups.add(self.adding_group)
        self.adding_group = None

    def offsets_are_committed(self, told: Iterable[tuple[TopicPartition, int]]) -> None:
        """A response for the first of the commits; there are none if the transaction has failed since."""
        if not self.commits:
            return
        commit = self.commits[0]
        for partition, code in told:
            if code == ErrorCode.NONE:
                commit.offsets.pop(partition, None)
        if not commit.offsets:
            self.commits.popleft()
            commit.operation.succeed()

    def drop_unasked(self, error: ClientError) -> None:
        """The transaction cannot be committed any more. Keeps unanswered requests, which may have been executed, so
        that the transaction must be ended."""
        self.new = {}
        commits, self.commits = self.commits, deque()
        for commit in commits:
            commit.operation.fail(error)

    def drop_unanswered(self) -> None:
        """The request was refused."""
        self.adding = {}
        self.adding_group = None
