"""A member of a group in the classic protocol: join, sync, heartbeats, and all partitions back before joining again.

Or, in a cooperative group (KIP-429), only those that it must give up: a partition that moves has no owner for a while.
"""

from cordwood.runtime.network import NetworkError
from cordwood.sim.clients.client import Run
from cordwood.sim.partition import Partition
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.heartbeat import HeartbeatRequest
from cordwood.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from cordwood.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from cordwood.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

from .coordinator import UNAVAILABLE
from .leading import (
    assign,
    decode_assignment,
    encode_assignment,
    encode_subscription,
    may_not_know,
    without_what_others_have,
)
from .member import Fenced, GroupPlan, Member, Rebalancing
from .offsets import Identity

_PROTOCOL_TYPE = "consumer"
_JOIN_STATIC_SINCE = 5
_SYNC_STATIC_SINCE = 3
_HEARTBEAT_STATIC_SINCE = 3
_LEAVE_BATCHES_SINCE = 3
_EAGER, _COOPERATIVE = ("range", "roundrobin"), ("cooperative-sticky",)
_SUBSCRIPTION_VERSIONS = 4
# A member's partitions and their generation.
_COOPERATIVE_SUBSCRIPTION_SINCE = 2
_BACKOFF_S = 0.3
# Without rebalance_timeout_ms in the request, the session's is taken.
_REBALANCE_TIMEOUT_SINCE = 1


class ClassicMember(Member):
    def __init__(self, run: Run, name: str, plan: GroupPlan, instance_id: str | None) -> None:
        super().__init__(run, name, plan, instance_id)
        self._heartbeat_due_s = 0.0
        low = _COOPERATIVE_SUBSCRIPTION_SINCE if plan.is_cooperative else 0
        self._subscription_version = self.source.randrange(low, _SUBSCRIPTION_VERSIONS)
        # How many there were when it assigned them, if it leads.
        self._partition_count: int | None = None
        # The released partitions wait for their next owner.
        self._has_let_go = False

    @property
    def identity(self) -> Identity:
        return Identity(self.member_id, self.instance_id, self.generation)

    async def join(self) -> None:
        if not self.plan.is_cooperative:
            self.hands.let_go_of_all()
        while True:
            joined = await self._join_group()
            if joined is not None and await self._sync_group(joined):
                return
            await self.pause(_BACKOFF_S)

    async def _join_group(self) -> JoinGroupResponse | None:
        """None: the caller must retry."""
        low = _REBALANCE_TIMEOUT_SINCE if self.instance_id is None else _JOIN_STATIC_SINCE
        version = self.source.randint(low, JoinGroupRequest.stable_versions.high)
        owned = self.hands.held if self.plan.is_cooperative else []
        subscription = encode_subscription(self.plan.topics, owned, self.generation, self._subscription_version)
        names = _COOPERATIVE if self.plan.is_cooperative else _EAGER
        request = JoinGroupRequest(
            group_id=self.plan.group_id,
            session_timeout_ms=int(self.plan.session_timeout_s * 1000),
            rebalance_timeout_ms=int(self.plan.rebalance_timeout_s * 1000),
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=subscription) for name in names],
        )
        response = await self.ask(request, version)
        match response.error_code:
            case ErrorCode.NONE:
                if may_not_know(self.generation, response, self.instance_id):
                    self.hands.let_go_of_all()
                self.member_id, self.generation = response.member_id, response.generation_id
                return response
            case ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = response.member_id
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
                self.hands.let_go_of_all()
            case ErrorCode.FENCED_INSTANCE_ID:
                self.member_id = ""
                raise Fenced("another has this instance's place")
            case error if error in UNAVAILABLE:
                raise NetworkError(f"no coordinator: {error}")
        return None

    async def _sync_group(self, joined: JoinGroupResponse) -> bool:
        """Returns whether it is a member now."""
        leads = joined.leader == self.member_id
        self._partition_count = len(self.run.partitions) if leads else None
        assignments: dict[str, list[Partition]] = {}
        if leads and not joined.skip_assignment:
            subscriptions = {member.member_id: member.metadata for member in joined.members}
            assignments = assign(subscriptions, self.run.partitions)
            if self.plan.is_cooperative:
                assignments = without_what_others_have(subscriptions, assignments)
        low = 0 if self.instance_id is None else _SYNC_STATIC_SINCE
        request = SyncGroupRequest(
            group_id=self.plan.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(partitions))
                for member, partitions in assignments.items()
            ],
        )
        asked_s = self.run.now_s
        response = await self.ask(request, self.source.randint(low, SyncGroupRequest.stable_versions.high))
        if response.error_code:
            self._note_lost_membership(ErrorCode(response.error_code))
            return False
        # This doesn't show that the session was renewed: a member that joins and syncs again within a generation gets
        # the same answers, and its session isn't extended, as in Kafka. The first heartbeat shows it.
        self.hands.was_left_alone(asked_s)
        self._take(decode_assignment(bytes(response.assignment)))
        self._heartbeat_due_s = self.run.now_s
        return True

    def _take(self, assigned: list[Partition]) -> None:
        gone = [partition for partition in self.hands.held if partition not in assigned]
        self.hands.let_go(gone)
        self._has_let_go = bool(gone)
        generation = -1 if self.plan.has_both_protocols else self.generation
        fresh = [partition for partition in assigned if partition not in self.hands]
        self.hands.take(fresh, self.instance_id or self.member_id, generation)

    async def heartbeat(self) -> None:
        if self._has_let_go or self._partition_count not in (None, len(self.run.partitions)):
            raise Rebalancing("there is something to be assigned")
        if self.run.now_s < self._heartbeat_due_s:
            return
        low = 0 if self.instance_id is None else _HEARTBEAT_STATIC_SINCE
        request = HeartbeatRequest(
            group_id=self.plan.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        asked_s = self.run.now_s
        response = await self.ask(request, self.source.randint(low, HeartbeatRequest.stable_versions.high))
        error = ErrorCode(response.error_code)
        if error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self.hands.was_heard(asked_s)
        if not error:
            self.hands.was_left_alone(asked_s)
        self._heartbeat_due_s = self.run.now_s + self.plan.session_timeout_s * self.source.uniform(0.1, 0.4)
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            await self.commit_before_letting_go()
        if error:
            self._note_lost_membership(error)
            raise Rebalancing(error.name)

    def _note_lost_membership(self, error: ErrorCode) -> None:
        if error in UNAVAILABLE:
            raise NetworkError(f"no coordinator: {error.name}")
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id = ""
            raise Fenced(error.name)
        if error == ErrorCode.ILLEGAL_GENERATION:
            # The group has continued without it.
            self.hands.let_go_of_all()

    def note_error(self, error: ErrorCode) -> None:
        self._note_lost_membership(error)
        super().note_error(error)

    async def leave(self) -> None:
        if self.instance_id is None:
            version = self.source.randint(0, LeaveGroupRequest.stable_versions.high)
        else:
            version = self.source.randint(_LEAVE_BATCHES_SINCE, LeaveGroupRequest.stable_versions.high)
        request = LeaveGroupRequest(group_id=self.plan.group_id)
        if version < _LEAVE_BATCHES_SINCE:
            request.member_id = self.member_id
        else:
            request.members = [MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)]
        await self.ask(request, version)

    def forget_identity(self) -> None:
        self.member_id = ""
        self.generation = -1
