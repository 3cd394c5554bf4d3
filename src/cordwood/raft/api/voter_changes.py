"""Common parts of AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter: one change at a time, on a settled log."""

from cordwood.raft.effects import Respond
from cordwood.raft.replica import KRAFT_VERSION_FEATURE, Replica
from cordwood.raft.states import Leader
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.add_raft_voter import AddRaftVoterResponse
from cordwood.wire.messages.remove_raft_voter import RemoveRaftVoterResponse

ErrorAndMessage = tuple[ErrorCode, str]


def cannot_change(replica: Replica, leader: Leader, now: int) -> ErrorAndMessage | None:
    """Why the voters can't be changed now; None if they can."""
    expire_change(replica, leader, now)
    if leader.pending_change is not None:
        return ErrorCode.REQUEST_TIMED_OUT, "Timed out waiting for the previous voter change to complete"
    if leader.high_watermark is None:
        # Until then voters of an earlier epoch may be uncommitted: two changes could be in progress.
        return ErrorCode.REQUEST_TIMED_OUT, "Timed out waiting for the leader to commit a record of its epoch"
    if not replica.control.supports_reconfiguration:
        level = replica.control.kraft_version
        return ErrorCode.UNSUPPORTED_VERSION, f"{KRAFT_VERSION_FEATURE} is {level}, changing voters needs 1 or higher"
    offset = replica.control.voters_offset
    if offset is None or offset >= leader.high_watermark:
        return (
            ErrorCode.REQUEST_TIMED_OUT,
            f"Timed out waiting for the voters at offset {offset} to be committed; "
            f"the high watermark is {leader.high_watermark}",
        )
    return None


def expire_change(replica: Replica, leader: Leader, now: int) -> None:
    if leader.pending_change is not None and now >= leader.pending_change.deadline_ms:
        end_change(replica, leader, ErrorCode.REQUEST_TIMED_OUT, "The voter change was not committed in time")


def end_change(replica: Replica, leader: Leader, error: ErrorCode, message: str | None = None) -> None:
    """Answers the pending change, if it isn't yet, and forgets it."""
    change = leader.pending_change
    leader.pending_change = None
    if change is not None and change.request_id is not None:
        kind = RemoveRaftVoterResponse if change.voter is None else AddRaftVoterResponse
        replica.outbox.append(Respond(change.request_id, kind(error_code=error, error_message=message)))


def high_watermark_moved(replica: Replica, leader: Leader) -> None:
    """Completes the pending change once it is committed. A leader that is no longer a voter then resigns, even if no
    request waits for the change: it may have been elected only to commit that record."""
    assert leader.high_watermark is not None
    change = leader.pending_change
    if change is not None and change.offset is not None and leader.high_watermark > change.offset:
        end_change(replica, leader, ErrorCode.NONE)
    if not replica.quorum.is_eligible:
        leader.resign_requested = True
