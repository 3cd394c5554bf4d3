"""A JoinGroup on its way, and what new and old members have in common when they join."""

from __future__ import annotations

from typing import NamedTuple

from cordwood.metadata.controller.decision import new_uuid
from cordwood.runtime.randomness import Random
from cordwood.shard.promise import Promise
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from cordwood.wire.primitives import MAX_STRING_BYTES

from .effects import Effects
from .group import ClassicGroup
from .member import ClassicMember, Protocols, refused_join


class Joining(NamedTuple):
    """A JoinGroup, and who sends it."""

    request: JoinGroupRequest
    version: int
    client_id: str
    client_host: str
    protocols: Protocols

    @property
    def rebalance_timeout_ms(self) -> int:
        """The first version has none."""
        return self.request.rebalance_timeout_ms if self.version else self.request.session_timeout_ms

    def begin_wait(self, member: ClassicMember) -> Promise[JoinGroupResponse]:
        member.awaiting_join = promise = Promise[JoinGroupResponse]()
        member.join_version = self.version
        return promise

    def refused(self, error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
        return refused_join(error, self.version, member_id)

    @property
    def reason(self) -> str:
        return self.request.reason or "it does not say why"


def new_member_id(random: Random, name: str) -> str:
    """Of a client's id, or a static member's name, and a uuid as Java writes it. Of a very long name only the
    beginning, so that it can be told to others."""
    digits = new_uuid(random).hex()
    uuid = f"-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
    return name.encode()[: MAX_STRING_BYTES - len(uuid)].decode(errors="ignore") + uuid


def wait_to_join(
    group: ClassicGroup, joining: Joining, member: ClassicMember, effects: Effects
) -> Promise[JoinGroupResponse]:
    group.update_protocols(member, joining.protocols)
    member.rebalance_timeout_ms = joining.rebalance_timeout_ms
    member.session_timeout_ms = joining.request.session_timeout_ms
    if member.awaiting_join is None:
        group.waiting_to_join += 1
    # Its client has given up on the answer to an earlier one.
    effects.refuse(member, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
    return joining.begin_wait(member)
