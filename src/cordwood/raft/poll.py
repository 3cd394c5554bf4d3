"""A replica's reactions to passing time: transitions by timeout, and requests that are due."""

from collections.abc import Iterator

from .api.add_voter import add_voter_request
from .api.begin_quorum_epoch import begin_quorum_epoch_request
from .api.end_quorum_epoch import end_quorum_epoch_request
from .api.fetch import fetch_request
from .api.fetch_snapshot import fetch_snapshot_request
from .api.remove_voter import remove_voter_request
from .api.update_voter import update_voter_request
from .api.vote import give_up_pre_vote, vote_request
from .api.voter_changes import expire_change
from .identity import Node
from .replica import Replica
from .states import Candidate, Follower, Leader, Prospective, Resigned, Unattached


def advance(replica: Replica, now: int) -> bool:
    """Makes the transition that is due, if any; True if there was one."""
    state, is_stopping = replica.quorum.state, replica.shutdown_deadline_ms is not None
    if isinstance(state, Leader):
        if is_stopping or state.resign_requested or state.has_lost_quorum(now):
            replica.become_resigned(now)
            return True
        expire_change(replica, state, now)
        return False
    if is_stopping:
        # Elections go on as they are; nothing new is begun.
        return False
    if isinstance(state, Follower):
        if replica.quorum.is_eligible and now >= state.fetch_deadline_ms:
            replica.become_prospective(now)
            return True
        return False
    if state.election_deadline_ms is None or now < state.election_deadline_ms:
        return False
    if isinstance(state, Resigned):
        # In the same epoch others would still consider it the leader.
        replica.become_unattached(state.epoch + 1, None, now)
    elif isinstance(state, Prospective):
        give_up_pre_vote(replica, state, now)
    elif replica.quorum.is_eligible:
        replica.become_prospective(now)
    else:
        return False
    return True


def send_requests(replica: Replica, now: int) -> None:
    state = replica.quorum.state
    if isinstance(state, Leader):
        _send_begin_quorum_epoch(replica, state, now)
    elif isinstance(state, Prospective | Candidate):
        _send_votes(replica, state, now)
    elif isinstance(state, Resigned):
        for node in _nodes(replica, sorted(state.unacknowledged)):
            replica.send(node, end_quorum_epoch_request(replica, state), now)
    elif replica.shutdown_deadline_ms is not None:
        pass
    elif isinstance(state, Unattached):
        _send_fetch_to_bootstrap(replica, now)
    elif not _send_voter_change(replica, state, now):
        _send_fetch(replica, state, now)


def _nodes(replica: Replica, voter_ids: list[int]) -> Iterator[Node]:
    for voter_id in voter_ids:
        node = replica.control.voters.node(voter_id, replica.config.listener)
        if node is not None:
            yield node


def _send_begin_quorum_epoch(replica: Replica, state: Leader, now: int) -> None:
    if now < state.begin_quorum_epoch_deadline_ms:
        return
    state.begin_quorum_epoch_deadline_ms = now + replica.config.quorum.begin_quorum_epoch_timeout_ms
    for key in state.silent_voters(now):
        for node in _nodes(replica, [key.id]):
            replica.send(node, begin_quorum_epoch_request(replica, key), now)


def _send_votes(replica: Replica, state: Prospective | Candidate, now: int) -> None:
    if state.votes.is_lost:
        return
    for key in state.votes.unrecorded:
        for node in _nodes(replica, [key.id]):
            replica.send(node, vote_request(replica, key, pre_vote=isinstance(state, Prospective)), now)


def _send_voter_change(replica: Replica, state: Follower, now: int) -> bool:
    """Sends the request that aligns the voter set with this replica, if one is due."""
    leader = state.leader_node(replica.config.listener)
    if leader is None or now < state.update_voter_deadline_ms:
        return False
    control, config = replica.control, replica.config
    sent = False
    if replica.quorum.is_voter:
        # Leaders with kraft.version 0 don't persist the voters, so each one needs the update.
        is_needed = (
            control.voters.needs_update(config.local)
            if control.supports_reconfiguration
            else not state.has_updated_leader
        )
        if is_needed:
            sent = replica.send(leader, update_voter_request(replica), now)
            if not sent:
                return False
    elif config.can_become_voter and config.quorum.auto_join_enable and control.supports_reconfiguration:
        former = control.voters.get(config.local.key.id)
        request = add_voter_request(replica) if former is None else remove_voter_request(replica, former.key)
        sent = replica.send(leader, request, now)
        if not sent:
            return False
    state.update_voter_deadline_ms = now + config.quorum.fetch_timeout_ms
    return sent


def _send_fetch(replica: Replica, state: Follower, now: int) -> None:
    connections, leader = replica.connections, state.leader_node(replica.config.listener)
    if leader is None:
        _send_fetch_to_bootstrap(replica, now)
    elif connections.has_timed_out(leader.id, now):
        # There may be another leader by now.
        connections.reset(leader.id)
        _send_fetch_to_bootstrap(replica, now)
    elif connections.is_backing_off(leader.id, now):
        _send_fetch_to_bootstrap(replica, now)
    elif not connections.has_any_under_way(now):
        if state.snapshot is not None:
            replica.send(leader, fetch_snapshot_request(replica, state.snapshot), now)
        elif _may_fetch(replica):
            replica.send(leader, fetch_request(replica), now)


def _send_fetch_to_bootstrap(replica: Replica, now: int) -> None:
    if _may_fetch(replica):
        node = replica.connections.ready_bootstrap_server(now)
        if node is not None:
            replica.send(node, fetch_request(replica), now)


def _may_fetch(replica: Replica) -> bool:
    """A fetch acknowledges the whole log, so all of it must be flushed."""
    return replica.acknowledged_offset == replica.log.end_offset


def next_deadline(replica: Replica, now: int) -> int | None:
    """The time of the next step if no event comes; None: never."""
    state, deadlines = replica.quorum.state, [replica.shutdown_deadline_ms, replica.parked.deadline]
    connections = replica.connections
    is_stopping = replica.shutdown_deadline_ms is not None
    if isinstance(state, Leader):
        if not replica.quorum.is_only_voter:
            deadlines += [state.begin_quorum_epoch_deadline_ms, state.check_quorum_deadline_ms]
        if state.pending_change is not None:
            deadlines.append(state.pending_change.deadline_ms)
    elif isinstance(state, Follower):
        if not is_stopping and _may_fetch(replica):
            deadlines.append(connections.bootstrap_deadline(now))
        if not is_stopping and replica.quorum.is_eligible:
            deadlines.append(state.fetch_deadline_ms)
    else:
        if not is_stopping and (replica.quorum.is_eligible or not isinstance(state, Unattached)):
            deadlines.append(state.election_deadline_ms)
        if isinstance(state, Unattached):
            if not is_stopping and _may_fetch(replica):
                deadlines.append(connections.bootstrap_deadline(now))
        else:
            waiting = (
                sorted(state.unacknowledged)
                if isinstance(state, Resigned)
                else [key.id for key in state.votes.unrecorded if not state.votes.is_lost]
            )
            deadlines += [connections.deadline(voter_id) for voter_id in waiting]
    return min((deadline for deadline in deadlines if deadline is not None), default=None)
