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
"""(name, metadata), in the member's order of preference. For consumers: assignors with their subscription data."""


class ClassicMember:
    """Serves as the key of its own session timer."""

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
        # True until its first JoinGroup is answered.
        self.is_new = False
        self.awaiting_join: Promise[JoinGroupResponse] | None = None
        # The version of the pending JoinGroup.
        self.join_version = 0
        self.awaiting_sync: Promise[SyncGroupResponse] | None = None
        # Created once, because every heartbeat resets the timer with it.
        self.session_alarm: Alarm | None = None

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def may_expire(self) -> bool:
        """True if the session may expire. A member whose request is pending cannot send heartbeats; but its client may
        also be gone, so a member that was never answered does not wait forever."""
        return self.is_new or (self.awaiting_join is None and self.awaiting_sync is None)

    def renew_session(self, timers: Timers, timeout_ms: int | None = None) -> None:
        """Restarts the session, with the member's own timeout unless another is given."""
        assert self.session_alarm is not None
        timers.after(self, self.session_timeout_ms if timeout_ms is None else timeout_ms, self.session_alarm)

    def metadata(self, protocol: str | None) -> bytes:
        metadata = self.known_metadata(protocol)
        if metadata is None:
            raise KeyError(f"member {self.member_id} does not know the protocol {protocol}")
        return metadata

    def known_metadata(self, protocol: str | None) -> bytes | None:
        """Returns None if the member does not support the protocol: members waiting for the next generation need not
        know the current protocol."""
        return next((metadata for name, metadata in self.protocols if name == protocol), None)

    def vote(self, candidates: Container[str]) -> str:
        """Returns the member's preferred protocol among those that all members support."""
        return next(name for name, _ in self.protocols if name in candidates)

    def __str__(self) -> str:
        return f"member {self.member_id}"


def refused_join(error: ErrorCode, version: int, member_id: str) -> JoinGroupResponse:
    """Before version 7 an absent protocol is an empty string."""
    return JoinGroupResponse(
        error_code=error, protocol_name=None if version >= _NO_PROTOCOL_SINCE else "", member_id=member_id
    )
