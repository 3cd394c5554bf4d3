"""A member's reaction to each error of JoinGroup, SyncGroup and Heartbeat, as in Kafka's client."""

from collections.abc import Mapping
from enum import Enum, auto

from cordwood.wire.errors import ErrorCode


class Remedy(Enum):
    RETRY = auto()
    """Retry after a pause."""
    FIND_COORDINATOR = auto()
    """Find the coordinator again, after a pause."""
    REJOIN = auto()
    """Rejoin at once, with the member id."""
    REJOIN_WITH_ID = auto()
    """The generation is over, and the partitions are lost; the member id may still be valid."""
    REJOIN_AS_NEW = auto()
    """The coordinator no longer knows the member."""
    TAKE_ID = auto()
    """The coordinator assigned an id to join with (KIP-394)."""
    GIVE_UP = auto()
    """Report the error to the application."""


JOIN: Mapping[ErrorCode, Remedy] = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Remedy.RETRY,
    # The coordinator could not write the join's changes.
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
