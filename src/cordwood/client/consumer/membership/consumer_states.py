"""The states of a KIP-848 member and their transitions: Kafka's MemberState."""

from collections.abc import Mapping
from enum import Enum


class MemberState(Enum):
    UNSUBSCRIBED = "unsubscribed"
    """Not in the group; may join within the application's next poll."""
    JOINING = "joining"
    """Sends epoch 0 until the coordinator has answered."""
    RECONCILING = "reconciling"
    """The assignment differs from the owned partitions: the application must release or take some."""
    ACKNOWLEDGING = "acknowledging"
    """It has taken its assignment, and must confirm it."""
    STABLE = "stable"
    FENCED = "fenced"
    """The coordinator has removed it: the application loses all it has, then the member joins again."""
    STALE = "stale"
    """It left because the application did not poll for max_poll_interval_ms; rejoins at the next poll."""
    PREPARE_LEAVING = "prepare_leaving"
    """The application releases all partitions before the member leaves."""
    LEAVING = "leaving"
    """It has sent its leave request."""
    FATAL = "fatal"
    """The coordinator refused it; the application was told why."""


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
        S.ACKNOWLEDGING: "the application has been given its assignment",
        S.STABLE: "and the coordinator has been told",
        **_OUT_OF_A_GROUP,
    },
    S.ACKNOWLEDGING: {S.STABLE: "a heartbeat reports it", S.RECONCILING: "new assignment", **_OUT_OF_A_GROUP},
    S.STABLE: {S.RECONCILING: "new assignment", **_OUT_OF_A_GROUP},
    S.FENCED: {S.JOINING: "all is lost", S.UNSUBSCRIBED: "close or unsubscribe"},
    S.STALE: {S.JOINING: "all is lost, and it polls", S.UNSUBSCRIBED: "close or unsubscribe"},
    S.PREPARE_LEAVING: {S.LEAVING: "the application has released them", S.UNSUBSCRIBED: "and it had been removed"},
    S.LEAVING: {S.UNSUBSCRIBED: "answered or not"},
    S.FATAL: {S.UNSUBSCRIBED: "subscribed again"},
}

IN_GROUP = frozenset({S.JOINING, S.RECONCILING, S.ACKNOWLEDGING, S.STABLE})
"""Takes part: sends heartbeats, and the application must poll."""
