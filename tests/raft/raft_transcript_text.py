"""Effects and states of a transcript as lines of text."""

from typing import Any

from cordwood.raft.effects import (
    Append,
    CommitUpTo,
    DiscardSnapshot,
    Effect,
    Flush,
    InstallSnapshot,
    LeadershipChanged,
    LogSlice,
    PersistQuorumState,
    ProposalAppended,
    ProposalRefused,
    Respond,
    Send,
    ShutdownCompleted,
    Truncate,
    WriteSnapshotPiece,
)
from cordwood.raft.election_state import ElectionState
from cordwood.raft.machine import RaftMachine
from cordwood.raft.states import Candidate, Leader, Prospective
from cordwood.wire.batch_header import read_header
from cordwood.wire.control import ControlType, parse_control_type
from cordwood.wire.errors import ErrorCode
from cordwood.wire.record import Buffer
from cordwood.wire.records import decode_batch


def describe(effect: Effect) -> str:
    match effect:
        case PersistQuorumState(data):
            election = ElectionState.decode("", data)
            voted = election.voted_key.id if election.voted_key is not None else None
            return f"persist epoch={election.epoch} leader={_known(election.leader_id)} voted={_known(voted)}"
        case Append(base_offset, end_offset, batches):
            return f"append {base_offset}..{end_offset}/{read_header(batches).leader_epoch} {_contents(batches)}"
        case Truncate(offset):
            return f"truncate {offset}"
        case Flush(end_offset):
            return f"flush {end_offset}"
        case Send(node, _, request):
            return f"send {node.id} {type(request).__name__.removesuffix('Request')} {_fields(request)}".rstrip()
        case Respond(request_id, response, records):
            read = ""
            if isinstance(records, LogSlice):
                read = f" records={records.offset}.."
            elif records is not None:
                read = f" bytes={records.position}..{records.position + records.max_bytes}"
            name = type(response).__name__.removesuffix("Response")
            return f"respond {request_id} {name} {_fields(response)}".rstrip() + read
        case CommitUpTo(high_watermark):
            return f"commit {high_watermark}"
        case WriteSnapshotPiece(snapshot_id, position, data):
            return f"write snapshot {_end(snapshot_id)} {position}..{position + len(data)}"
        case InstallSnapshot(snapshot_id):
            return f"install snapshot {_end(snapshot_id)}"
        case DiscardSnapshot(snapshot_id):
            return f"discard snapshot {_end(snapshot_id)}"
        case LeadershipChanged(leader_id, epoch):
            return f"leader of epoch {epoch} is {_known(leader_id)}"
        case ProposalAppended(_, last_offset):
            return f"appended up to {last_offset}"
        case ProposalRefused(_, error, message):
            return f"refused {error.name}: {message}"
        case ShutdownCompleted(is_clean):
            return f"shutdown is {'complete' if is_clean else 'overdue'}"


def describe_state(machine: RaftMachine) -> str:
    state, log = machine.state, machine.log
    voted = state.voted_key.id if state.voted_key is not None else None
    words = [
        f"= {state.name} epoch={state.epoch} leader={_known(state.leader_id)} voted={_known(voted)}",
        f"hw={_known(state.high_watermark)} log={log.start_offset}..{_end(log.end)}",
    ]
    if log.flushed_offset != log.end_offset:
        words.append(f"flushed={log.flushed_offset}")
    if isinstance(state, Candidate | Prospective):
        words.append(f"granted={','.join(str(voter) for voter in state.votes.granting)}")
    if isinstance(state, Leader):
        words.append(f"voters={','.join(str(voter) for voter in state.voters)}")
    return " ".join(words)


def _known(value: int | None) -> str:
    return "-" if value is None or value < 0 else str(value)


def _end(end: tuple[int, int]) -> str:
    return f"{end[0]}/{end[1]}"


def _contents(batches: Buffer) -> str:
    if not read_header(batches).is_control:
        return " ".join((record.value or b"").decode() for record in decode_batch(batches))
    names = {
        ControlType.LEADER_CHANGE: "LeaderChange",
        ControlType.KRAFT_VERSION: "KRaftVersion",
        ControlType.KRAFT_VOTERS: "Voters",
    }
    kinds = [parse_control_type(record.key) for record in decode_batch(batches)]
    return " ".join(names[kind] for kind in kinds if kind is not None)


def _fields(message: Any) -> str:
    """The fields of a message, without those that every one of its kind has."""
    words: list[str] = []
    topics = getattr(message, "topics", None) or getattr(message, "responses", None) or []
    holders = [message, *(partition for topic in topics for partition in topic.partitions)]
    for holder in holders:
        for name, show in _SHOWN.items():
            if hasattr(holder, name):
                text = show(getattr(holder, name))
                if text:
                    words.append(text)
    return " ".join(words)


def _error(code: int) -> str:
    return "" if code == 0 else ErrorCode(code).name


def _replicas(replicas: list[Any]) -> str:
    shown = (f"{known.replica_id}:{_known(known.log_end_offset)}" for known in replicas)
    return ",".join(shown) or "-"


_SHOWN: dict[str, Any] = {
    "error_code": _error,
    "error_message": lambda text: f"({text})" if text else "",
    "pre_vote": lambda is_pre: "pre" if is_pre else "",
    "vote_granted": lambda is_granted: "granted" if is_granted else "not granted",
    "replica_epoch": lambda epoch: f"epoch={epoch}" if epoch >= 0 else "",
    "leader_id": lambda leader_id: f"leader={_known(leader_id)}",
    "leader_epoch": lambda epoch: f"epoch={epoch}",
    "current_leader_epoch": lambda epoch: f"epoch={epoch}",
    "current_leader": lambda leader: f"leader={_known(leader.leader_id)} epoch={leader.leader_epoch}",
    "last_offset": lambda offset: f"end={offset}",
    "last_offset_epoch": lambda epoch: f"end-epoch={epoch}",
    "fetch_offset": lambda offset: f"at={offset}",
    "last_fetched_epoch": lambda epoch: f"at-epoch={epoch}",
    "high_watermark": lambda offset: f"hw={_known(offset)}",
    "diverging_epoch": lambda end: f"diverging={end.end_offset}/{end.epoch}" if end.epoch >= 0 else "",
    "snapshot_id": lambda end: f"snapshot={end.end_offset}/{end.epoch}" if end.epoch >= 0 and end.end_offset else "",
    "position": lambda position: f"position={position}",
    "preferred_candidates": lambda known: "successors=" + ",".join(str(key.candidate_id) for key in known),
    "current_voters": lambda known: f"voters={_replicas(known)}",
    "observers": lambda known: f"observers={_replicas(known)}",
    "voter_id": lambda voter_id: f"voter={voter_id}",
}
