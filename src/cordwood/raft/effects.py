"""Effects for the shell to perform, in the order in which a step returns them.

The contract, for each step:

1. Perform the effects strictly in order. An effect may rely on all before it.
2. `PersistQuorumState` and `InstallSnapshot` are barriers: what they write is on stable storage before the next effect
   is performed. So no vote and no request leaves this node before the file that backs it is durable.
3. `Append` and `Truncate` have been written (not necessarily synced) before the next effect is performed: a
   `Respond` after them may read what they wrote.
4. `Flush` only asks for an fsync, which covers everything appended before it begins. The shell continues with other
   steps, and reports with `Flushed` when it is done and where the log ended when it began. At most one is in progress;
   appends that come later are covered by the next one.
5. `Send`, `Respond`, `CommitUpTo` and the rest need not be durable and may not be repeated after a crash.
6. All effects of a step are performed before the next step begins.

A replica that fails to perform an effect has to stop: the machine takes each as done.
"""

from typing import Any, NamedTuple, TypeAlias

from cordwood.wire.errors import ErrorCode
from cordwood.wire.record import Buffer
from cordwood.wire.schema import Request, Response

from .identity import Node
from .log import OffsetAndEpoch


class PersistQuorumState(NamedTuple):
    """Replace the `quorum-state` file, atomically and durably."""

    data: bytes


class Append(NamedTuple):
    """Write these batches at the end of the log."""

    base_offset: int
    end_offset: int
    batches: Buffer


class Truncate(NamedTuple):
    """Drop the records from an offset on; none of them is committed."""

    offset: int


class Flush(NamedTuple):
    """Begin an fsync of the log, which ends here or further on by then; `Flushed` reports its completion."""

    end_offset: int


class Send(NamedTuple):
    """Send a request. An answer is `ResponseReceived`; if none can come any more, `RequestFailed`."""

    node: Node
    correlation_id: int
    request: Request[Any]


class LogSlice(NamedTuple):
    """Whole batches from an offset on, at least one, up to about `max_bytes`."""

    offset: int
    max_bytes: int


class SnapshotSlice(NamedTuple):
    id: OffsetAndEpoch
    position: int
    max_bytes: int


class Respond(NamedTuple):
    """Answer a request. The shell reads `records`, if given, into the response's only partition."""

    request_id: int
    response: Response
    records: LogSlice | SnapshotSlice | None = None


class CommitUpTo(NamedTuple):
    """The high watermark has moved: hand the records below it to the state machine."""

    high_watermark: int


class WriteSnapshotPiece(NamedTuple):
    """Write a piece of a snapshot that is being fetched; position 0 starts it over."""

    id: OffsetAndEpoch
    position: int
    data: Buffer


class InstallSnapshot(NamedTuple):
    """Make a fetched snapshot durable and complete, then drop the whole log, which continues at the snapshot's end.

    The state machine is loaded from it. Older snapshots may be deleted.
    """

    id: OffsetAndEpoch


class DiscardSnapshot(NamedTuple):
    """A snapshot that was being fetched is not needed any more."""

    id: OffsetAndEpoch


class LeadershipChanged(NamedTuple):
    """Tell the state machine about the leader of an epoch, None while it is unknown.

    A leader is announced to itself only once it has committed a record of its own epoch, after the `CommitUpTo` for it:
    its state machine has then seen everything that was ever committed.
    """

    leader_id: int | None
    epoch: int


class ProposalAppended(NamedTuple):
    """The proposal is in the log; it is committed when the high watermark has passed `last_offset`."""

    proposal_id: int
    last_offset: int


class ProposalRefused(NamedTuple):
    proposal_id: int
    error: ErrorCode
    message: str


class ShutdownCompleted(NamedTuple):
    """The replica may stop. Not clean: no other leader was known when the timeout came."""

    is_clean: bool


Effect: TypeAlias = (
    PersistQuorumState
    | Append
    | Truncate
    | Flush
    | Send
    | Respond
    | CommitUpTo
    | WriteSnapshotPiece
    | InstallSnapshot
    | DiscardSnapshot
    | LeadershipChanged
    | ProposalAppended
    | ProposalRefused
    | ShutdownCompleted
)
