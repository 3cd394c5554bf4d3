"""The states of a classic group and the transitions between them, from which docs/groups.md draws its diagram."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class ClassicState(Enum):
    """Spelled as in ListGroups and DescribeGroups."""

    # No members: all have left, or the group has only ever had offsets.
    EMPTY = "Empty"
    # Members must (re)join; their JoinGroups wait for each other.
    PREPARING_REBALANCE = "PreparingRebalance"
    # All members know the generation; their SyncGroups wait for the leader's, which contains the assignment.
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    # Removed from the coordinator.
    DEAD = "Dead"


class Event(Enum):
    """Events that move a group between states, labelled for the diagram."""

    REBALANCE = "a member joins, leaves, changes or fails"
    ALL_JOINED = "all members have joined, or the rebalance timed out"
    ALL_GONE = "the last member left"
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
