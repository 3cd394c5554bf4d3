"""One member of a classic group."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from cordwood.shard.promise import Promise
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.join_group import JoinGroupResponse
from cordwood.wire.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from cordwood.shard.timers import Alarm, Timers

_NO_PROTOCOL_SINCE = 7

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata), what the member likes best first. For consumers: assignors, and what they are told."""


class ClassicMember:
    """It is the key of its own session's timer."""

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "join_version",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_alarm",
        "session_timeout_ms",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        # group.instance.id: a static member's name, which outlives its member id (KIP-345).
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        # Until its first JoinGroup is answered.
        self.is_new = False
        self.awaiting_join: Promise[JoinGroupResponse] | None = None
        # Of the JoinGroup that waits.
        self.join_version = 0
        self.awaiting_sync: Promise[SyncGroupResponse] | None = None
        # Made once, as each heartbeat sets it anew.
        self.session_alarm: Alarm | None = None

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def may_expire(self) -> bool:
        """Returns whether its session may expire. A member that waits for the group cannot send heartbeats; but it may
        also be gone, so one that has never been answered does not wait forever."""
        return self.is_new or (self.awaiting_join is None and self.awaiting_sync is None)

    def renew_session(self, timers: Timers, timeout_ms: int | None = None) -> None:
        """It was heard of: its session begins anew, with its own timeout unless another is given."""
        assert self.session_alarm is not None
        timers.after(self, self.session_timeout_ms if timeout_ms is None else timeout_ms, self.session_alarm)

    def metadata(self, protocol: str | None) -> bytes:
        metadata = self.known_metadata(protocol)
        if metadata is None:
            raise KeyError(f"member {self.member_id} does not know the protocol {protocol}")
        return metadata

    def known_metadata(self, protocol: str | None) -> bytes | None:
        """None where it does not know the protocol: one who waits for the next generation need not know the present
        one's."""
        return next((metadata for name, metadata in self.protocols if name == protocol), None)

    def vote(self, candidates: Container[str]) -> str:
        """Its preferred protocol among those that all members support."""
        return next(name for name, _ in self.protocols if name in candidates)

    def __str__(self) -> str:
        return f"member {self.member_id}"


def refused_join(error: ErrorCode, version: int, member_id: str) -> JoinGroupResponse:
    """Before version 7 no protocol is an empty one."""
    return JoinGroupResponse(
        error_code=error, protocol_name=None if version >= _NO_PROTOCOL_SINCE else "", member_id=member_id
    )
