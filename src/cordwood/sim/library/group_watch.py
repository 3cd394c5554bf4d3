"""Messages between a library member and its coordinator: how long it owns its partitions, and what it commits.

Automatic commits have no number in their metadata; those of the application have one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cordwood.sim.clients.client import Client
from cordwood.sim.groups.hands import Hands
from cordwood.sim.groups.leading import decode_assignment, may_not_know
from cordwood.sim.groups.member import GroupPlan
from cordwood.sim.groups.offsets import name_of, note_commit
from cordwood.sim.histories.groups import Commit, CommitOutcome, OffsetRead
from cordwood.sim.partition import Partition
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from cordwood.wire.messages.heartbeat import HeartbeatRequest
from cordwood.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from cordwood.wire.messages.leave_group import LeaveGroupRequest
from cordwood.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from cordwood.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from cordwood.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from cordwood.wire.schema import Request

from .tap import Watch


@dataclass(slots=True)
class Given:
    """An application's progress in a partition: the next offset, and the last one that it has processed."""

    position: int
    done: int


class GroupWatch(Watch):
    wanted = (
        JoinGroupRequest,
        SyncGroupRequest,
        HeartbeatRequest,
        LeaveGroupRequest,
        ConsumerGroupHeartbeatRequest,
        OffsetCommitRequest,
        OffsetFetchRequest,
    )

    def __init__(self, member: Client, plan: GroupPlan, hands: Hands) -> None:
        self.given: dict[Partition, Given] = {}
        self._member = member
        self._run = member.run
        self._plan = plan
        self._hands = hands
        self._generation = -1
        # Its last assignment in its consumer group.
        self._assigned: set[Partition] = set()
        self._planned: dict[str, Commit] = {}
        # The commits of each request in flight, and how often each commit was sent.
        self._commits: dict[int, dict[Partition, Commit]] = {}
        self._attempts: dict[int, int] = {}

    def begin(self) -> None:
        """A new process has no state."""
        self.given.clear()
        self._generation = -1
        self._assigned.clear()
        self._planned.clear()
        self._commits.clear()

    def plan(self, partition: Partition, offset: int) -> Commit:
        """Registers a commit that the application is about to make, with its number; it enters the history once it is
        sent."""
        commit = self._new_commit(partition, offset)
        self._planned[str(commit.number)] = commit
        return commit

    def asked(self, request: Request[Any]) -> None:
        match request:
            case LeaveGroupRequest():
                self._hands.was_left()
            case ConsumerGroupHeartbeatRequest() if request.member_epoch < 0:
                self._hands.was_left()
            case OffsetCommitRequest():
                self._commit(request)

    def answered(self, request: Request[Any], response: Any, sent_s: float) -> None:
        match request:
            case JoinGroupRequest() if not response.error_code:
                self._joined(response, request.group_instance_id)
            case SyncGroupRequest() if not response.error_code:
                self._synced(response, sent_s)
            case HeartbeatRequest():
                self._heard(ErrorCode(response.error_code), sent_s)
            case ConsumerGroupHeartbeatRequest() if not response.error_code and request.member_epoch >= 0:
                self._heard_by_consumer_group(response, sent_s)
            case OffsetCommitRequest():
                self._committed(request, response)
            case OffsetFetchRequest():
                self._told(request, response, sent_s)

    # ---- duration of ownership

    def _joined(self, response: JoinGroupResponse, instance_id: str | None) -> None:
        if may_not_know(self._generation, response, instance_id):
            self._hands.doubt()
        self._generation = response.generation_id

    def _synced(self, response: SyncGroupResponse, sent_s: float) -> None:
        self._hands.was_left_alone(sent_s)
        generation = -1 if self._plan.has_both_protocols else self._generation
        self._hands.confirm(decode_assignment(bytes(response.assignment)), generation)

    def _heard(self, error: ErrorCode, sent_s: float) -> None:
        if error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._hands.was_heard(sent_s)
        if not error:
            self._hands.was_left_alone(sent_s)

    def _heard_by_consumer_group(self, response: ConsumerGroupHeartbeatResponse, sent_s: float) -> None:
        self._hands.was_heard(sent_s)
        if response.assignment is not None:
            names = {topic_id: name for name, topic_id in self._run.topic_ids.items()}
            self._assigned = {
                (names[topic.topic_id], index)
                for topic in response.assignment.topic_partitions
                for index in topic.partitions
            }
        # While it holds partitions to be revoked, its rebalance timeout runs, regardless of other answers.
        if self._assigned.issuperset(self._hands.held):
            self._hands.was_left_alone(sent_s)

    # ---- commits

    def _new_commit(self, partition: Partition, offset: int) -> Commit:
        now_s = self._run.now_s
        number = self._run.next_number()
        return Commit(
            number, self._member.name, self._plan.group_id, partition, offset, self._hands.tenure_of(partition), now_s
        )

    def _commit(self, request: OffsetCommitRequest) -> None:
        commits = self._commits[id(request)] = {}
        for topic in request.topics:
            for asked in topic.partitions:
                partition = (topic.name or name_of(self._member, topic.topic_id), asked.partition_index)
                commit = self._planned.get(asked.committed_metadata or "")
                if commit is None:
                    commit = self._new_commit(partition, asked.committed_offset)
                    commit.has_number = False
                if commit.number not in self._attempts:
                    commit.begun_s = commit.asked_s = self._run.now_s
                    given = self.given.get(partition)
                    commit.given_to = -1 if given is None else given.done
                    self._run.history.groups.commits.append(commit)
                self._attempts[commit.number] = self._attempts.get(commit.number, 0) + 1
                commits[partition] = commit

    def _committed(self, request: OffsetCommitRequest, response: OffsetCommitResponse) -> None:
        commits = self._commits.pop(id(request))
        for topic in response.topics:
            for answer in topic.partitions:
                partition = (topic.name or name_of(self._member, topic.topic_id), answer.partition_index)
                commit = commits[partition]
                if commit.outcome is CommitOutcome.ACKNOWLEDGED:
                    continue
                note_commit(self._member, commit, ErrorCode(answer.error_code))
                if commit.outcome is CommitOutcome.REFUSED and self._attempts[commit.number] > 1:
                    # Earlier requests may have been executed.
                    commit.outcome = CommitOutcome.UNKNOWN

    # ---- where to begin

    def _told(self, request: OffsetFetchRequest, response: OffsetFetchResponse, sent_s: float) -> None:
        # In a cluster it is unknown here which node answered, and whether it still coordinates the group.
        is_certain = self._run.cluster is None
        for partition, offset, metadata in self._offsets(response):
            if is_certain:
                self._run.history.groups.offset_reads.append(
                    OffsetRead(
                        self._member.name,
                        self._plan.group_id,
                        partition,
                        sent_s,
                        self._run.now_s,
                        offset,
                        metadata,
                        request.require_stable,
                    )
                )
            is_for_now = partition in self._hands and self._hands.begun_s(partition) <= sent_s
            if is_for_now and partition not in self.given and not self._was_set_by_others(metadata):
                self.given[partition] = Given(max(offset, 0), max(offset, 0))

    def _was_set_by_others(self, metadata: str) -> bool:
        """Offsets set from outside may not exist: then the reader starts elsewhere."""
        return any(str(commit.number) == metadata and commit.tenure < 0 for commit in self._run.history.groups.commits)

    def _offsets(self, response: OffsetFetchResponse) -> Iterator[tuple[Partition, int, str]]:
        for group in response.groups:
            if group.error_code:
                continue
            for topic in group.topics:
                name = topic.name or name_of(self._member, topic.topic_id)
                for one in topic.partitions:
                    if not one.error_code:
                        yield (name, one.partition_index), one.committed_offset, one.metadata or ""
