"""The states of a classic group, and what moves it from one to another. docs/groups.md draws its diagram from here."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class ClassicState(Enum):
    """As ListGroups and DescribeGroups spell them."""

    # No members: it has been left by all, or was never more than offsets.
    EMPTY = "Empty"
    # Members are to join (again): their JoinGroups wait for each other.
    PREPARING_REBALANCE = "PreparingRebalance"
    # All know the generation; their SyncGroups wait for the leader's, which brings the assignment.
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    # It is not in the coordinator any more.
    DEAD = "Dead"


class Event(Enum):
    """Events that move a group between states, labelled for the diagram."""

    REBALANCE = "a member joins, leaves, changes or fails"
    ALL_JOINED = "all have joined, or the rebalance timeout is over"
    ALL_GONE = "nobody is left"
    ASSIGNED = "the leader's SyncGroup is written"
    REMOVED = "deleted, expired, or turned into a consumer group"


TRANSITIONS: Mapping[tuple[ClassicState, Event], ClassicState] = {
    (ClassicState.EMPTY, Event.REBALANCE): ClassicState.PREPARING_REBALANCE,
    (ClassicState.PREPARING_REBALANCE, Event.ALL_JOINED): ClassicState.COMPLETING_REBALANCE,
    (ClassicState.PREPARING_REBALANCE, Event.ALL_GONE): ClassicState.EMPTY,
    (ClassicState.COMPLETING_REBALANCE, Event.ASSIGNED): ClassicState.STABLE,
    (ClassicState.COMPLETING_REBALANCE, Event.REBALANCE): ClassicState.PREPARING_REBALANCE,
    (ClassicState.STABLE, Event.REBALANCE): ClassicState.PREPARING_REBALANCE,
    (ClassicState.EMPTY, Event.REMOVED): ClassicState.DEAD,
    (ClassicState.PREPARING_REBALANCE, Event.REMOVED): ClassicState.DEAD,
    (ClassicState.COMPLETING_REBALANCE, Event.REMOVED): ClassicState.DEAD,
    (ClassicState.STABLE, Event.REMOVED): ClassicState.DEAD,
}
