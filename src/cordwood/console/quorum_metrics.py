"""The metrics of a node's member of the metadata quorum, under the names that Kafka's raft-metrics have in Prometheus'
usual JMX rules."""

from __future__ import annotations

from cordwood.quorum.figures import state_name
from cordwood.quorum.member import Member
from cordwood.raft.states import Leader

from .exposition import Exposition

_NONE = -1


def write_quorum(page: Exposition, member: Member) -> None:
    state, figures, voted = member.state, member.figures, member.state.voted_key
    end, high_watermark = member.log_end, state.high_watermark
    is_leader = isinstance(state, Leader)

    def gauge(name: str, about: str, value: float) -> None:
        page.gauge(f"kafka_server_raftmetrics_{name}", about, ((), value))

    gauge("current_leader", "The leader's node id, -1 if none is known.", _id(state.leader_id))
    gauge("current_epoch", "The epoch of the quorum.", state.epoch)
    gauge(
        "current_vote",
        "The node that this one has voted for in the epoch, itself while it leads, -1 if none.",
        _id(state.leader_id if is_leader else None if voted is None else voted.id),
    )
    gauge("high_watermark", "The metadata log is known to be committed up to here.", _id(high_watermark))
    gauge("log_end_offset", "Where the metadata log of this node ends.", end.offset)
    gauge("log_end_epoch", "The epoch of the last record of the metadata log of this node.", end.epoch)
    page.gauge(
        "kafka_server_raftmetrics_current_state",
        "Always 1; the label is the state of this node in the quorum.",
        ((("state", state_name(state, is_voter=member.is_voter)),), 1),
    )
    gauge("number_of_voters", "Voters of the quorum.", len(member.voters))
    observers = len(state.observers) if isinstance(state, Leader) else 0
    gauge("number_of_observers", "Nodes that follow the metadata log without a vote, as the leader sees it.", observers)
    is_pending = isinstance(state, Leader) and state.pending_change is not None
    gauge("uncommitted_voter_change", "1 while the leader changes the voters.", int(is_pending))
    gauge("election_latency_avg", "Milliseconds that elections took, on average.", figures.election_ms.average)
    gauge("election_latency_max", "Milliseconds that the longest election took.", figures.election_ms.maximum)
    gauge("commit_latency_avg", "Milliseconds from append to commit.", figures.commit_ms.average)
    gauge("commit_latency_max", "The most milliseconds until a record was committed.", figures.commit_ms.maximum)
    gauge(
        "append_records_rate",
        "Records per second that this node appended as the leader.",
        figures.appended_records.rate,
    )
    gauge("fetch_records_rate", "Records per second that this node fetched.", figures.fetched_records.rate)
    gauge("poll_idle_ratio_avg", "The share of the time without work for the quorum.", figures.idle_ratio)


def _id(value: int | None) -> int:
    return _NONE if value is None else value
