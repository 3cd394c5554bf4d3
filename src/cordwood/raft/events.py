"""Events of a replica. `step` takes one event at a time, with the time at which it happened."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from cordwood.wire.errors import ErrorCode
from cordwood.wire.schema import Request, Response

from .log import OffsetAndEpoch


class Tick(NamedTuple):
    """The machine's deadline has come. A tick too many does no harm."""


class RequestReceived(NamedTuple):
    """A peer or a client asks. `Respond` names the same `request_id`; nothing else is read into it."""

    request_id: int
    request: Request[Any]
    # The request's version, which determines the fields of the response.
    version: int
    # The listener on which it came: the response names the leader's endpoint for that one.
    listener: str


class ResponseReceived(NamedTuple):
    """The answer to a `Send`, matched by its correlation id."""

    correlation_id: int
    response: Response


class RequestFailed(NamedTuple):
    """No answer will come: the connection broke, the peer's address refuses connections (BROKER_NOT_AVAILABLE), or the
    peer doesn't support the version (UNSUPPORTED_VERSION)."""

    correlation_id: int
    error: ErrorCode = ErrorCode.NETWORK_EXCEPTION


class Flushed(NamedTuple):
    """The fsync that `Flush` asked for is done: the log is on stable storage up to this offset."""

    end_offset: int


class Propose(NamedTuple):
    """The leader's state machine wants records appended as one atomic batch, in the epoch in which it leads."""

    proposal_id: int
    epoch: int
    values: Sequence[bytes]


class UpgradeKRaftVersion(NamedTuple):
    """The leader's state machine wants kraft.version finalized at a higher level."""

    proposal_id: int
    epoch: int
    version: int
    validate_only: bool = False


class SnapshotTaken(NamedTuple):
    """The state machine's snapshot of committed records is complete and durable."""

    id: OffsetAndEpoch
    size: int


class LogCleaned(NamedTuple):
    """Old snapshots and the log below the oldest one that is left have been deleted."""

    start_offset: int
    deleted_snapshots: Sequence[OffsetAndEpoch] = ()


class Resign(NamedTuple):
    """The leader's state machine gives up its leadership of an epoch."""

    epoch: int


class BeginShutdown(NamedTuple):
    """A clean stop. `ShutdownCompleted` signals that the replica may exit, no later than the timeout."""

    timeout_ms: int


Event: TypeAlias = (
    Tick
    | RequestReceived
    | ResponseReceived
    | RequestFailed
    | Flushed
    | Propose
    | UpgradeKRaftVersion
    | SnapshotTaken
    | LogCleaned
    | Resign
    | BeginShutdown
)
