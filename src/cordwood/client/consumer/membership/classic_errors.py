"""A member's reaction to each error of JoinGroup, SyncGroup and Heartbeat, as in Kafka's client."""

from collections.abc import Mapping
from enum import Enum, auto

from cordwood.wire.errors import ErrorCode


class Remedy(Enum):
    RETRY = auto()
    """After a pause."""
    FIND_COORDINATOR = auto()
    """It is elsewhere; again after a pause."""
    REJOIN = auto()
    """At once, with its member id."""
    REJOIN_WITH_ID = auto()
    """The generation is over, and what the member had is lost; its id may still be good."""
    REJOIN_AS_NEW = auto()
    """The coordinator does not know it any more."""
    TAKE_ID = auto()
    """The coordinator gave it an id, to join with (KIP-394)."""
    GIVE_UP = auto()
    """The application is told."""


JOIN: Mapping[ErrorCode, Remedy] = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Remedy.RETRY,
    # The coordinator could not write down what the join changed.
    ErrorCode.REBALANCE_IN_PROGRESS: Remedy.RETRY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Remedy.FIND_COORDINATOR,
    ErrorCode.NOT_COORDINATOR: Remedy.FIND_COORDINATOR,
    ErrorCode.UNKNOWN_MEMBER_ID: Remedy.REJOIN_AS_NEW,
    ErrorCode.MEMBER_ID_REQUIRED: Remedy.TAKE_ID,
}

SYNC: Mapping[ErrorCode, Remedy] = {
    ErrorCode.REBALANCE_IN_PROGRESS: Remedy.REJOIN,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Remedy.RETRY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Remedy.FIND_COORDINATOR,
    ErrorCode.NOT_COORDINATOR: Remedy.FIND_COORDINATOR,
    ErrorCode.ILLEGAL_GENERATION: Remedy.REJOIN_WITH_ID,
    ErrorCode.UNKNOWN_MEMBER_ID: Remedy.REJOIN_AS_NEW,
}

HEARTBEAT: Mapping[ErrorCode, Remedy] = {
    ErrorCode.REBALANCE_IN_PROGRESS: Remedy.REJOIN,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Remedy.FIND_COORDINATOR,
    ErrorCode.NOT_COORDINATOR: Remedy.FIND_COORDINATOR,
    ErrorCode.ILLEGAL_GENERATION: Remedy.REJOIN_WITH_ID,
    ErrorCode.UNKNOWN_MEMBER_ID: Remedy.REJOIN_AS_NEW,
    ErrorCode.FENCED_INSTANCE_ID: Remedy.GIVE_UP,
}
