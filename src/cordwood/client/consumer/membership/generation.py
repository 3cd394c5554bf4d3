"""A member's identity in a generation of a classic group, and the requests it sends with it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cordwood.client.consumer.assignors.assignor import NO_GENERATION
from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.consumer.membership.classic_protocol import PROTOCOL_TYPE
from cordwood.wire.messages.heartbeat import HeartbeatRequest
from cordwood.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from cordwood.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from cordwood.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

# The broker's limit (KIP-800).
_REASON_CHARACTERS = 255


@dataclass(frozen=True, slots=True)
class Generation:
    group_id: str
    group_instance_id: str | None
    member_id: str = ""
    """Empty until the coordinator assigns one."""
    id: int = NO_GENERATION
    protocol_name: str | None = None
    """The assignor that the coordinator chose."""

    @property
    def is_void(self) -> bool:
        """True if the member's previous partitions may belong to others."""
        return self.id == NO_GENERATION or not self.member_id

    @property
    def metadata(self) -> GroupMetadata:
        return GroupMetadata(self.group_id, self.id, self.member_id, self.group_instance_id)

    def void(self, *, keeps_id: bool = False) -> "Generation":
        return replace(self, id=NO_GENERATION, protocol_name=None, member_id=self.member_id if keeps_id else "")

    def join(
        self,
        protocols: Sequence[JoinGroupRequestProtocol],
        reason: str,
        *,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
    ) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=list(protocols),
            reason=reason[:_REASON_CHARACTERS],
        )

    def sync(self, assignments: Sequence[SyncGroupRequestAssignment]) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.id,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self.protocol_name,
            assignments=list(assignments),
        )

    def heartbeat(self) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.id,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
        )

    def leave(self, reason: str) -> LeaveGroupRequest:
        identity = MemberIdentity(
            member_id=self.member_id, group_instance_id=self.group_instance_id, reason=reason[:_REASON_CHARACTERS]
        )
        return LeaveGroupRequest(group_id=self.group_id, members=[identity])
