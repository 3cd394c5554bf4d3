"""Events and effects of a group member, shared by the machines of both protocols.

A machine is `step(event, now_s) -> list[Effect]`. It knows no socket, no clock and no application. The driver performs
effects in order. Partitions change only within the application's own polls: `Revoke`, `Lose` and `Assign` wait for the
next poll, and the machine gets `Settled` when the application is done, or `Declined` if the assignment was dropped. At
most one of the three is pending.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.errors import ClientError
from cordwood.wire.primitives import Uuid
from cordwood.wire.schema import Request

# ---- events


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The application's new subscription; the member joins, or tells its group. An empty one is `Leave`."""

    topics: frozenset[str]
    """By name; with a pattern that the client matches, the matching topics."""
    pattern: str | None = None
    """In RE2's syntax, matched by the broker (KIP-848 only)."""


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """Partition counts of the topics that members of the group may read."""

    partition_counts: Mapping[str, int]
    topic_ids: Mapping[str, Uuid] = field(default_factory=dict)
    """By name; adds to earlier ones, so this may be partial. For KIP-848, whose responses identify topics by id."""
    partition_racks: Mapping[TopicPartition, frozenset[str]] = field(default_factory=dict)
    """The racks of each partition's replicas, as far as brokers report them (KIP-881)."""


@dataclass(frozen=True, slots=True)
class Polled:
    """The application is alive."""


@dataclass(frozen=True, slots=True)
class Answered:
    request: Request[Any]
    response: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """No response came, so the coordinator is looked up again before the next request. Retriable errors only: the
    driver raises others to the application."""

    request: Request[Any]
    error: ClientError


@dataclass(frozen=True, slots=True)
class Settled:
    """The application has released, or taken, the partitions of the last `Revoke`, `Lose` or `Assign`."""


@dataclass(frozen=True, slots=True)
class Declined:
    """The application did not get the partitions of the last `Assign`: the membership had ended by then."""


@dataclass(frozen=True, slots=True)
class Leave:
    """Permanently (`close`), or until it subscribes again."""

    reason: str
    stays_static: bool = True
    """A closing static member does not leave its group permanently: it may return (KIP-345)."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; sent at the time requested by the machine at the latest."""


Event = Subscribed | TopicsChanged | Polled | Answered | Failed | Settled | Declined | Leave | Tick

# ---- effects


@dataclass(frozen=True, slots=True)
class Ask:
    """Send this to the coordinator; several may be in flight. `Answered` or `Failed` follows."""

    request: Request[Any]
    timeout_ms: int | None = None
    """If the response may take longer than `request_timeout_ms`: a join waits for the others."""


@dataclass(frozen=True, slots=True)
class ForgetCoordinator:
    """The coordinator has changed: look it up before the next request."""


@dataclass(frozen=True, slots=True)
class Revoke:
    """The application still owns these, and may commit before it releases them."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Lose:
    """These may belong to others already."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Assign:
    added: frozenset[TopicPartition]
    """May be empty: the application is told about each rebalance."""


@dataclass(frozen=True, slots=True)
class FindTopics:
    """The assignment contains topic ids with unknown names: `TopicsChanged` must resolve them.

    Repeated with each heartbeat until resolved (KIP-848 only: a broker that matches a pattern may know a topic sooner
    than the client).
    """

    topic_ids: frozenset[Uuid]


@dataclass(frozen=True, slots=True)
class CountPartitions:
    """The leader of a classic group must assign topics that it does not read itself: `TopicsChanged` follows once, with
    those that exist."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class Raise:
    """Raised by the application's next call; the member takes no part until it subscribes again."""

    error: ClientError


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send `Tick` at that time; replaces an earlier request."""

    at_s: float


Effect = Ask | ForgetCoordinator | Revoke | Lose | Assign | FindTopics | CountPartitions | Raise | WakeAt


class Machine(Protocol):
    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The application's partitions: grow with `Settled` of an `Assign`, shrink with that of a `Revoke` or
        `Lose`."""

    @property
    def metadata(self) -> GroupMetadata: ...

    @property
    def is_rebalancing(self) -> bool:
        """True if commits would be refused, or their partitions may soon belong to others."""

    def step(self, event: Event, now_s: float) -> list[Effect]: ...
