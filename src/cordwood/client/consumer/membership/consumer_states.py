"""What a member of a KIP-848 group can be, and what may follow what: Kafka's MemberState."""

from enum import Enum, auto


class MemberState(Enum):
    UNSUBSCRIBED = auto()
    """Not in the group, and does not want to be; or is to join within the application's next poll."""
    JOINING = auto()
    """Says epoch 0 until the coordinator has answered."""
    RECONCILING = auto()
    """What it was given is not what it has: the application is to let go of or to take partitions."""
    ACKNOWLEDGING = auto()
    """It has what it was given, and is to tell so."""
    STABLE = auto()
    FENCED = auto()
    """The coordinator has removed it: the application loses all it has, then the member joins again."""
    STALE = auto()
    """It left by itself, for the application did not poll for max_poll_interval_ms; joins again when that polls."""
    PREPARE_LEAVING = auto()
    """The application lets go of all it has before the member leaves."""
    LEAVING = auto()
    """Has told that it leaves."""
    FATAL = auto()
    """The coordinator will not have it; the application has been told why."""


S = MemberState

NEXT_STATES: dict[MemberState, frozenset[MemberState]] = {
    S.UNSUBSCRIBED: frozenset({S.JOINING}),
    S.JOINING: frozenset({S.RECONCILING, S.STABLE, S.FENCED, S.PREPARE_LEAVING, S.STALE, S.FATAL}),
    S.RECONCILING: frozenset({S.ACKNOWLEDGING, S.STABLE, S.FENCED, S.PREPARE_LEAVING, S.STALE, S.FATAL}),
    S.ACKNOWLEDGING: frozenset({S.STABLE, S.RECONCILING, S.FENCED, S.PREPARE_LEAVING, S.STALE, S.FATAL}),
    S.STABLE: frozenset({S.RECONCILING, S.FENCED, S.PREPARE_LEAVING, S.STALE, S.FATAL}),
    S.FENCED: frozenset({S.JOINING, S.UNSUBSCRIBED}),
    S.STALE: frozenset({S.JOINING, S.UNSUBSCRIBED}),
    S.PREPARE_LEAVING: frozenset({S.LEAVING, S.UNSUBSCRIBED}),
    S.LEAVING: frozenset({S.UNSUBSCRIBED}),
    S.FATAL: frozenset({S.UNSUBSCRIBED}),
}

IN_GROUP = frozenset({S.JOINING, S.RECONCILING, S.ACKNOWLEDGING, S.STABLE})
"""Takes part: sends heartbeats, and the application has to poll."""
