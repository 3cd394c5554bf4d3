"""A replica of the metadata log: the object that the handlers of requests and responses work on.

It combines the parts (`Quorum`, `LogState`, `ControlState`, `Connections`), performs each transition, and collects
effects in its outbox.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cordwood.runtime.randomness import Random
from cordwood.wire.batch_header import batch_headers, check_crc
from cordwood.wire.codec import encode
from cordwood.wire.control import ControlType, control_batch
from cordwood.wire.messages.data.kraft_version_record import KRaftVersionRecord
from cordwood.wire.messages.data.leader_change_message import LeaderChangeMessage, Voter
from cordwood.wire.record import Buffer, CorruptBatch, InvalidRecord, Record
from cordwood.wire.records import encode_batch
from cordwood.wire.schema import Request

from .config import QuorumConfig
from .connections import Connections
from .control_state import ControlState
from .effects import (
    Append,
    CommitUpTo,
    DiscardSnapshot,
    Effect,
    Flush,
    InstallSnapshot,
    LeadershipChanged,
    Send,
    Truncate,
)
from .exceptions import InconsistentQuorum
from .identity import Endpoint, Endpoints, LeaderAndEpoch, Node
from .identity_check import IdentityCheck
from .log import LogState, OffsetAndEpoch
from .parked_fetches import ParkedFetches
from .quorum import Quorum
from .states import Candidate, Follower, Leader, Prospective, Resigned
from .voters import VoterNode, VoterSet

logger = logging.getLogger(__name__)

KRAFT_VERSION_FEATURE = "kraft.version"


@dataclass(frozen=True, slots=True)
class ReplicaConfig:
    """A replica's settings: itself and its cluster."""

    cluster_id: str
    # Its key, all its controller listeners, and the levels of kraft.version that it supports.
    local: VoterNode
    # The controller listener on which voters talk to each other.
    listener: str
    bootstrap_servers: Sequence[Node]
    quorum: QuorumConfig = field(default_factory=QuorumConfig)
    # A controller. It flushes as an observer too, because it may become a voter at any time.
    can_become_voter: bool = True


class Replica:
    def __init__(self, config: ReplicaConfig, log: LogState, control: ControlState, random: Random) -> None:
        self.config = config
        self.log = log
        self.control = control
        self.outbox: list[Effect] = []
        self.quorum = Quorum(config.local, config.quorum, control, random, self.outbox)
        self.connections = Connections(
            list(config.bootstrap_servers), config.quorum.retry_backoff_ms, config.quorum.request_timeout_ms, random
        )
        self.parked = ParkedFetches()
        self.identity_check = IdentityCheck(config.local.key.id, config.cluster_id, config.quorum)
        self.shutdown_deadline_ms: int | None = None
        # Set when a leader's high watermark moves, until that is handled.
        self.high_watermark_moved = False
        self._announced = LeaderAndEpoch(None, -1)
        self._is_flushing = False
        # The upper bound for an fsync in progress: the log has been truncated to here since it began.
        self._flush_limit: int | None = None

    # Transitions

    def become_unattached(self, epoch: int, leader_id: int | None, now: int) -> None:
        self._leave_state()
        self.quorum.become_unattached(epoch, leader_id, now)
        self.connections.reset_all()

    def become_follower(self, epoch: int, leader_id: int, endpoints: Endpoints, now: int) -> None:
        self._leave_state()
        self.quorum.become_follower(epoch, leader_id, endpoints, now)
        self.connections.reset_all()

    def become_prospective(self, now: int) -> None:
        self._leave_state()
        self.quorum.become_prospective(now)
        self.connections.reset_all()
        self.advance_election(now)

    def become_candidate(self, now: int) -> None:
        self.quorum.become_candidate(now)
        self.connections.reset_all()
        self.advance_election(now)

    def become_resigned(self, now: int) -> None:
        self._leave_state()
        self.quorum.become_resigned(now)
        self.connections.reset_all()

    def advance_election(self, now: int) -> None:
        """Goes on if a majority has granted: a single voter from Prospective to Leader at once."""
        state = self.quorum.state
        if isinstance(state, Prospective) and state.votes.is_won:
            self.become_candidate(now)
        elif isinstance(state, Candidate) and state.votes.is_won:
            self._become_leader(now)

    def _become_leader(self, now: int) -> None:
        leader = self.quorum.become_leader(self.log.end_offset, now)
        self.connections.reset_all()
        # Nothing is committed before a record of the new epoch is, so the leader writes one at once.
        self.append_control(self._start_of_epoch(leader), now)

    def _start_of_epoch(self, leader: Leader) -> list[tuple[ControlType, bytes]]:
        change = LeaderChangeMessage(
            version=0,
            leader_id=leader.leader_id,
            voters=[Voter(voter_id=voter_id) for voter_id in leader.voters],
            granting_voters=[Voter(voter_id=voter_id) for voter_id in leader.granting_voters],
        )
        records = [(ControlType.LEADER_CHANGE, encode(change, 0))]
        voters = self.control.voters
        if self.control.supports_reconfiguration and (
            self.control.voters_offset == -1 or voters.needs_update(leader.local)
        ):
            # The voters that formatting named enter the log with its first leader.
            updated = voters.updated(leader.local)
            assert updated is not None, (voters, leader.local)
            records += [version_record(self.control.kraft_version), voters_record(updated)]
        return records

    def _leave_state(self) -> None:
        state = self.quorum.state
        if isinstance(state, Follower) and state.snapshot is not None:
            self.outbox.append(DiscardSnapshot(state.snapshot.id))

    def follow(self, leader_id: int | None, epoch: int, endpoints: Endpoints, now: int) -> bool:
        """Acts on an epoch and its leader that a message names. False if the message names this replica as the leader.

        Two leaders in one epoch stop the replica.
        """
        quorum = self.quorum
        if leader_id == quorum.local.key.id:
            if isinstance(quorum.state, Leader) and epoch == quorum.epoch:
                return True
            where, own = (known.get(self.config.listener) for known in (endpoints, quorum.local.endpoints))
            self.identity_check.said_to_lead(epoch, where, own, f"{quorum.state.name} in epoch {quorum.epoch}", now)
            return False
        if leader_id is not None:
            self.identity_check.has_leader()
        if epoch == quorum.epoch and leader_id is not None and quorum.leader_id not in (None, leader_id):
            raise InconsistentQuorum(
                f"node {leader_id} was reported to lead epoch {epoch}, but node {quorum.leader_id} leads it"
            )
        if epoch > quorum.epoch:
            if leader_id is not None and endpoints:
                self.become_follower(epoch, leader_id, endpoints, now)
            else:
                self.become_unattached(epoch, leader_id, now)
        elif (
            leader_id is not None
            and len(endpoints) > len(quorum.state.leader_endpoints)
            and not isinstance(quorum.state, Leader | Resigned)
        ):
            # The epoch's leader or more of its endpoints were not known yet.
            self.become_follower(epoch, leader_id, endpoints, now)
        return True

    def check_cluster(self, source: Node, *, is_same: bool) -> None:
        """Notes a node that accepts this one's cluster id, or doesn't. Only a node that has not seen the quorum work
        doubts itself."""
        if is_same:
            self.identity_check.accepted_by(source)
            return
        voters, own = self.control.voters, self.quorum.local.key.id
        contacts = {voter.endpoints.get(self.config.listener) for voter in voters if voter.key.id != own} - {None}
        contacts = contacts or {Endpoint(node.host, node.port) for node in self.config.bootstrap_servers}
        may_be_wrong = not self.quorum.has_committed
        self.identity_check.refused_by(source, contacts, is_voter=self.quorum.is_voter, may_be_wrong=may_be_wrong)

    # Sending

    def send(self, node: Node, request: Request[Any], now: int) -> bool:
        """Sends unless a request to that node is in flight or in back-off."""
        if not self.connections.is_ready(node.id, now):
            return False
        self.outbox.append(Send(node, self.connections.sent(node, now), request))
        return True

    # Writing to the log

    def append_values(self, values: Sequence[bytes], now: int) -> int:
        """Appends records as the leader, as one batch; the last one's offset."""
        base_offset = self.log.end_offset
        records = [Record(offset, now, None, value) for offset, value in enumerate(values, base_offset)]
        self._append(encode_batch(records, leader_epoch=self.quorum.epoch), self.quorum.epoch)
        return self.log.end_offset - 1

    def append_control(self, contents: Iterable[tuple[ControlType, bytes]], now: int) -> int:
        base_offset, epoch = self.log.end_offset, self.quorum.epoch
        self._append(control_batch(contents, base_offset=base_offset, timestamp=now, leader_epoch=epoch), epoch)
        return self.log.end_offset - 1

    def append_fetched(self, records: Buffer) -> bool:
        """Appends what the leader sent, up to the first batch that is damaged or doesn't follow the log's end.

        False if there was one.
        """
        try:
            for position, header in batch_headers(records):
                check_crc(records, header, position)
                epoch = header.leader_epoch
                if header.base_offset != self.log.end_offset or not self.log.last_epoch <= epoch <= self.quorum.epoch:
                    logger.error(
                        "Fetched a batch at offset %d of epoch %d, which doesn't follow the log's end %s in epoch %d; "
                        "fetching it again", header.base_offset, epoch, self.log.end, self.quorum.epoch,
                    )  # fmt: skip
                    return False
                self._append(bytes(memoryview(records)[position : position + header.size]), epoch)
        except (CorruptBatch, InvalidRecord) as error:
            logger.error("Fetched a damaged batch, fetching it again: %s", error)
            return False
        return True

    def _append(self, batch: Buffer, epoch: int) -> None:
        base_offset = self.log.end_offset
        header = next(batch_headers(batch))[1]
        self.log.appended(base_offset, header.next_offset, epoch)
        self.outbox.append(Append(base_offset, header.next_offset, bytes(batch)))
        if header.is_control:
            self.control.apply_batch(batch)
            if isinstance(self.quorum.state, Leader):
                self.quorum.state.use_voters(self.control.voters)
        self._begin_flush()

    def truncate(self, diverging: OffsetAndEpoch, high_watermark: int | None) -> None:
        offset = self.log.truncation_offset(diverging)
        if high_watermark is not None and offset < high_watermark:
            raise InconsistentQuorum(
                f"the leader of epoch {self.quorum.epoch} asks to truncate to offset {offset}, "
                f"below the high watermark {high_watermark}"
            )
        if offset >= self.log.end_offset:
            return
        logger.info("Truncating the metadata log from %d to %d", self.log.end_offset, offset)
        self.log.truncated(offset)
        self.control.truncate_new(offset)
        self.outbox.append(Truncate(offset))
        self._limit_flush(offset)

    def install_snapshot(self, snapshot_id: OffsetAndEpoch, size: int, opening: Buffer) -> None:
        self.log.replaced_by_snapshot(snapshot_id, size)
        self.control.load_snapshot(snapshot_id, opening)
        self.outbox.append(InstallSnapshot(snapshot_id))
        self._limit_flush(snapshot_id.offset)

    # Flushing and committing

    @property
    def _flushes(self) -> bool:
        return self.config.can_become_voter or self.quorum.is_voter

    @property
    def acknowledged_offset(self) -> int:
        """The offset up to which this replica counts: its flushed end, or the log end if it never counts."""
        return self.log.flushed_offset if self._flushes else self.log.end_offset

    def _begin_flush(self) -> None:
        if self._flushes and not self._is_flushing and self.log.flushed_offset < self.log.end_offset:
            self._is_flushing = True
            self.outbox.append(Flush(self.log.end_offset))

    def _limit_flush(self, offset: int) -> None:
        """Notes that the fsync in progress does not cover later appends."""
        if self._is_flushing:
            self._flush_limit = offset if self._flush_limit is None else min(self._flush_limit, offset)

    def flushed(self, end_offset: int) -> None:
        if self._is_flushing:
            limit = self.log.end_offset if self._flush_limit is None else self._flush_limit
            self.log.flushed_offset = max(self.log.flushed_offset, min(end_offset, limit))
            self._is_flushing, self._flush_limit = False, None
        self._begin_flush()
        state = self.quorum.state
        if isinstance(state, Leader) and state.flushed(self.log.flushed_offset):
            self.high_watermark_moved = True
        elif isinstance(state, Follower):
            self.follow_high_watermark(state)

    def follow_high_watermark(self, state: Follower) -> None:
        """Takes over the leader's high watermark as far as this log has it."""
        high_watermark = min(state.leader_high_watermark, self.acknowledged_offset)
        if high_watermark > (-1 if state.high_watermark is None else state.high_watermark):
            state.high_watermark = high_watermark
            self.commit(high_watermark)

    def commit(self, high_watermark: int) -> None:
        if self.quorum.committed(high_watermark):
            self.outbox.append(CommitUpTo(high_watermark))

    def announce_leader(self) -> None:
        """Reports each leader to the state machine once, when it may act on that."""
        state = self.quorum.state
        leader_id = state.leader_id
        if leader_id == self.config.local.key.id and (not isinstance(state, Leader) or state.high_watermark is None):
            leader_id = None
        news = LeaderAndEpoch(leader_id, state.epoch)
        if news != self._announced:
            self._announced = news
            self.outbox.append(LeadershipChanged(news.leader_id, news.epoch))


def version_record(kraft_version: int) -> tuple[ControlType, bytes]:
    return ControlType.KRAFT_VERSION, encode(KRaftVersionRecord(version=0, k_raft_version=kraft_version), 0)


def voters_record(voters: VoterSet) -> tuple[ControlType, bytes]:
    return ControlType.KRAFT_VOTERS, encode(voters.to_record(), 0)
