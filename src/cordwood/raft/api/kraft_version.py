"""Upgrading kraft.version from 0, where voters are configured, to 1, where they are in the log (KIP-1022, KIP-853)."""

from cordwood.raft.effects import ProposalAppended, ProposalRefused
from cordwood.raft.events import UpgradeKRaftVersion
from cordwood.raft.replica import KRAFT_VERSION_FEATURE, Replica, version_record, voters_record
from cordwood.raft.states import Leader
from cordwood.wire.errors import ErrorCode


def upgrade_kraft_version(replica: Replica, event: UpgradeKRaftVersion, now: int) -> None:
    """Appends the version and the voters as one batch. A level that holds already is appended as nothing."""
    refused = _refusal(replica, event)
    if refused is not None:
        replica.outbox.append(ProposalRefused(event.proposal_id, *refused))
        return
    leader = replica.quorum.state
    assert isinstance(leader, Leader)
    last_offset = replica.log.end_offset - 1
    if event.version != replica.control.kraft_version and not event.validate_only:
        assert leader.volatile_voters is not None
        records = [version_record(event.version), voters_record(leader.volatile_voters)]
        leader.volatile_voters = None
        last_offset = replica.append_control(records, now)
    replica.outbox.append(ProposalAppended(event.proposal_id, last_offset))


def _refusal(replica: Replica, event: UpgradeKRaftVersion) -> tuple[ErrorCode, str] | None:
    leader, level = replica.quorum.state, replica.control.kraft_version
    if not isinstance(leader, Leader) or leader.epoch != event.epoch:
        return ErrorCode.NOT_CONTROLLER, f"This node doesn't lead epoch {event.epoch}"
    if event.version == level:
        return None
    if event.version < level or leader.volatile_voters is None:
        return (
            ErrorCode.INVALID_UPDATE_VERSION,
            f"{KRAFT_VERSION_FEATURE} can't go from {level} to {event.version}, only from 0 to 1",
        )
    if not leader.volatile_voters.supports(event.version):
        return ErrorCode.INVALID_UPDATE_VERSION, f"Not every voter supports {KRAFT_VERSION_FEATURE} {event.version}"
    if not leader.volatile_voters.has_all_directories():
        return (
            ErrorCode.INVALID_UPDATE_VERSION,
            "The directory id of some voter isn't known yet; each reports it to a new leader within a few seconds",
        )
    return None
