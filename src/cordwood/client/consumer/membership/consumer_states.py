"""The states of a KIP-848 member and their transitions: Kafka's MemberState."""

from collections.abc import Mapping
from enum import Enum


class MemberState(Enum):
    UNSUBSCRIBED = "unsubscribed"
    """Not in the group, and does not want to be; or is to join within the application's next poll."""
    JOINING = "joining"
    """Says epoch 0 until the coordinator has answered."""
    RECONCILING = "reconciling"
    """The assignment differs from the owned partitions: the application has to give up or take some."""
    ACKNOWLEDGING = "acknowledging"
    """It has what it was given, and is to tell so."""
    STABLE = "stable"
    FENCED = "fenced"
    """The coordinator has removed it: the application loses all it has, then the member joins again."""
    STALE = "stale"
    """It left by itself, for the application did not poll for max_poll_interval_ms; joins again when that polls."""
    PREPARE_LEAVING = "prepare_leaving"
    """The application lets go of all it has before the member leaves."""
    LEAVING = "leaving"
    """Has told that it leaves."""
    FATAL = "fatal"
    """The coordinator will not have it; the application has been told why."""


S = MemberState

_OUT_OF_A_GROUP: Mapping[MemberState, str] = {
    S.FENCED: "the coordinator has removed it",
    S.STALE: "max_poll_interval_ms exceeded",
    S.PREPARE_LEAVING: "close or unsubscribe",
    S.FATAL: "a fatal error",
}

NEXT_STATES: Mapping[MemberState, Mapping[MemberState, str]] = {
    S.UNSUBSCRIBED: {S.JOINING: "subscribed, and polls"},
    S.JOINING: {S.RECONCILING: "the first assignment", **_OUT_OF_A_GROUP},
    S.RECONCILING: {
        S.ACKNOWLEDGING: "the application has what it is to have",
        S.STABLE: "and that has been told",
        **_OUT_OF_A_GROUP,
    },
    S.ACKNOWLEDGING: {S.STABLE: "a heartbeat tells it", S.RECONCILING: "new assignment", **_OUT_OF_A_GROUP},
    S.STABLE: {S.RECONCILING: "new assignment", **_OUT_OF_A_GROUP},
    S.FENCED: {S.JOINING: "all is lost", S.UNSUBSCRIBED: "close or unsubscribe"},
    S.STALE: {S.JOINING: "all is lost, and it polls", S.UNSUBSCRIBED: "close or unsubscribe"},
    S.PREPARE_LEAVING: {S.LEAVING: "the application has let go", S.UNSUBSCRIBED: "and it had been removed"},
    S.LEAVING: {S.UNSUBSCRIBED: "answered or not"},
    S.FATAL: {S.UNSUBSCRIBED: "subscribed again"},
}

IN_GROUP = frozenset({S.JOINING, S.RECONCILING, S.ACKNOWLEDGING, S.STABLE})
"""Takes part: sends heartbeats, and the application has to poll."""
