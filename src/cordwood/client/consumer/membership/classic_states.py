"""The states of a classic group's member and their transitions."""

from collections.abc import Mapping
from enum import Enum


class State(Enum):
    # No group is needed: not subscribed, left, or given up after an error.
    OUT = "out"
    # Will join once the application polls and has released partitions, or after a failure's back-off.
    UNJOINED = "unjoined"
    # JoinGroup waits for the other members.
    JOINING = "joining"
    # The leader waits for partition counts of the other members' topics.
    ASSIGNING = "assigning"
    # SyncGroup waits for the leader's.
    SYNCING = "syncing"
    STABLE = "stable"


class Move(Enum):
    """State transitions, labelled for the diagram."""

    SUBSCRIBED = "the application subscribes"
    JOIN_SENT = "JoinGroup is sent"
    ELECTED = "the coordinator makes it the leader"
    JOINED = "the others lead, or the assignment is kept"
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

# States in which the coordinator expires the session without heartbeats. During a join the pending JoinGroup keeps it
# alive.
HEARTBEATING = frozenset({State.ASSIGNING, State.SYNCING, State.STABLE})
