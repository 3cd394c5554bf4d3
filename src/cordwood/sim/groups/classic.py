"""A member of a group in the classic protocol: join, sync, heartbeats, and all partitions back before joining again."""

from cordwood.runtime.network import NetworkError
from cordwood.sim.client import Run
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.heartbeat import HeartbeatRequest
from cordwood.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from cordwood.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from cordwood.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

from .coordinator import UNAVAILABLE
from .leading import assign, decode_assignment, encode_assignment, encode_subscription
from .member import Fenced, GroupPlan, Member, Rebalancing
from .offsets import Identity

_PROTOCOL_TYPE = "consumer"
_JOIN_STATIC_SINCE = 5
_SYNC_STATIC_SINCE = 3
_HEARTBEAT_STATIC_SINCE = 3
_LEAVE_BATCHES_SINCE = 3
_PROTOCOL_NAMES = ("range", "roundrobin")
_BACKOFF_S = 0.3
# Without rebalance_timeout_ms in the request, the session's is taken.
_REBALANCE_TIMEOUT_SINCE = 1


class ClassicMember(Member):
    def __init__(self, run: Run, name: str, plan: GroupPlan, instance_id: str | None) -> None:
        super().__init__(run, name, plan, instance_id)
        self._heartbeat_due_s = 0.0
        self._subscription_version = self.source.randrange(4)

    @property
    def identity(self) -> Identity:
        return Identity(self.member_id, self.instance_id, self.generation)

    async def join(self) -> None:
        self.hands.let_go_of_all()
        while True:
            joined = await self._join_group()
            if joined is not None and await self._sync_group(joined):
                return
            await self.pause(_BACKOFF_S)

    async def _join_group(self) -> JoinGroupResponse | None:
        """None: it has to be tried again."""
        low = _REBALANCE_TIMEOUT_SINCE if self.instance_id is None else _JOIN_STATIC_SINCE
        version = self.source.randint(low, JoinGroupRequest.stable_versions.high)
        subscription = encode_subscription(self.plan.topics, self._subscription_version)
        request = JoinGroupRequest(
            group_id=self.plan.group_id,
            session_timeout_ms=int(self.plan.session_timeout_s * 1000),
            rebalance_timeout_ms=int(self.plan.rebalance_timeout_s * 1000),
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=subscription) for name in _PROTOCOL_NAMES],
        )
        response = await self.ask(request, version)
        match response.error_code:
            case ErrorCode.NONE:
                self.member_id, self.generation = response.member_id, response.generation_id
                return response
            case ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = response.member_id
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            case ErrorCode.FENCED_INSTANCE_ID:
                self.member_id = ""
                raise Fenced("another has this instance's place")
            case error if error in UNAVAILABLE:
                raise NetworkError(f"no coordinator: {error}")
        return None

    async def _sync_group(self, joined: JoinGroupResponse) -> bool:
        """Whether it is a member now."""
        assignments: dict[str, bytes] = {}
        if joined.leader == self.member_id and not joined.skip_assignment:
            subscriptions = {member.member_id: member.metadata for member in joined.members}
            assignments = {
                member: encode_assignment(partitions)
                for member, partitions in assign(subscriptions, self.run.partitions).items()
            }
        low = 0 if self.instance_id is None else _SYNC_STATIC_SINCE
        request = SyncGroupRequest(
            group_id=self.plan.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=assignment)
                for member, assignment in assignments.items()
            ],
        )
        asked_s = self.run.now_s
        response = await self.ask(request, self.source.randint(low, SyncGroupRequest.stable_versions.high))
        if response.error_code:
            self._note_lost_membership(ErrorCode(response.error_code))
            return False
        self.hands.confirmed(asked_s, rebalancing=False)
        generation = -1 if self.plan.has_both_protocols else self.generation
        self.hands.take(decode_assignment(bytes(response.assignment)), self.instance_id or self.member_id, generation)
        self._heartbeat_due_s = self.run.now_s
        return True

    async def heartbeat(self) -> None:
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
            self.hands.confirmed(asked_s, rebalancing=bool(error))
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
