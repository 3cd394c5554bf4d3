"""The states of a classic group's member, and what moves it from one to another."""

from collections.abc import Mapping
from enum import Enum


class State(Enum):
    # Nothing is wanted of a group: not subscribed, left, or given up for an error.
    OUT = "out"
    # To join, once the application polls, has let go of what it must, or the pause after a failure is over.
    UNJOINED = "unjoined"
    # JoinGroup waits for the others.
    JOINING = "joining"
    # It leads, and learns how many partitions the topics of the others have.
    ASSIGNING = "assigning"
    # SyncGroup waits for the leader's.
    SYNCING = "syncing"
    STABLE = "stable"


class Move(Enum):
    """State transitions, labelled for the diagram."""

    SUBSCRIBED = "the application subscribes"
    JOIN_SENT = "JoinGroup is sent"
    ELECTED = "the coordinator makes it the leader"
    JOINED = "the others lead, or the assignment stands"
    ASSIGNED = "the leader has assigned"
    SYNCED = "the assignment came"
    FAILED = "rejected, fenced or timed out: rejoins"
    ENDED = "left, or a fatal error"


_IN_REBALANCE = (State.JOINING, State.ASSIGNING, State.SYNCING)

TRANSITIONS: Mapping[tuple[State, Move], State] = {
    (State.OUT, Move.SUBSCRIBED): State.UNJOINED,
    (State.UNJOINED, Move.JOIN_SENT): State.JOINING,
    (State.STABLE, Move.JOIN_SENT): State.JOINING,
    (State.JOINING, Move.ELECTED): State.ASSIGNING,
    (State.JOINING, Move.JOINED): State.SYNCING,
    (State.ASSIGNING, Move.ASSIGNED): State.SYNCING,
    (State.SYNCING, Move.SYNCED): State.STABLE,
    **{(state, Move.FAILED): State.UNJOINED for state in (*_IN_REBALANCE, State.UNJOINED, State.STABLE)},
    **{(state, Move.ENDED): State.OUT for state in State},
}

# Where the coordinator waits for heartbeats. While it joins, the pending JoinGroup stands for the member.
HEARTBEATING = frozenset({State.ASSIGNING, State.SYNCING, State.STABLE})
