"""Events and effects of a group member, shared by the machines of both protocols.

A machine is `step(event, now_s) -> list[Effect]`. It knows no socket, no clock and no application. The driver performs
effects in their order. Partitions are taken away and given only within the application's own calls of poll: `Revoke`,
`Lose` and `Assign` wait for the next of them, and the machine hears `Settled` when the application is through with it,
or `Declined` if nothing is given any more. At most one of the three waits at a time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.errors import ClientError
from cordwood.wire.primitives import Uuid
from cordwood.wire.schema import Request

# ---- what a machine hears


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The application's new subscription; the member joins, or tells its group. An empty one is `Leave`."""

    topics: frozenset[str]
    """By name; those that match the pattern where the client matches it."""
    pattern: str | None = None
    """In RE2's syntax, for the broker to match (KIP-848 only)."""


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """Partition counts of the topics that anyone in the group may read."""

    partition_counts: Mapping[str, int]
    topic_ids: Mapping[str, Uuid] = field(default_factory=dict)
    """By name; what was told before stays known, so this may speak of some topics only. For KIP-848, whose answers
    name topics by their ids."""
    partition_racks: Mapping[TopicPartition, frozenset[str]] = field(default_factory=dict)
    """Where the replicas of each partition are, as far as brokers tell their racks (KIP-881)."""


@dataclass(frozen=True, slots=True)
class Polled:
    """The application is alive."""


@dataclass(frozen=True, slots=True)
class Answered:
    request: Request[Any]
    response: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """No answer came, so the coordinator is looked for again before the next request. Retriable errors only: others
    are raised to the application by the driver."""

    request: Request[Any]
    error: ClientError


@dataclass(frozen=True, slots=True)
class Settled:
    """The application has let go of, or taken, what the last `Revoke`, `Lose` or `Assign` named."""


@dataclass(frozen=True, slots=True)
class Declined:
    """The application was not given what the last `Assign` named: when it came for it, the member was none any more."""


@dataclass(frozen=True, slots=True)
class Leave:
    """For good (`close`), or until it subscribes again."""

    reason: str
    stays_static: bool = True
    """A static member that closes does not leave its group for good: it may come back (KIP-345)."""


@dataclass(frozen=True, slots=True)
class Tick:
    """It is later; sent at the latest when the machine asked for it."""


Event = Subscribed | TopicsChanged | Polled | Answered | Failed | Settled | Declined | Leave | Tick

# ---- what it wants done


@dataclass(frozen=True, slots=True)
class Ask:
    """Send this to the coordinator; several may be on their way. `Answered` or `Failed` follows."""

    request: Request[Any]
    timeout_ms: int | None = None
    """Where the answer may take longer than `request_timeout_ms`: a join waits for the others."""


@dataclass(frozen=True, slots=True)
class ForgetCoordinator:
    """It is not the coordinator any more: look for it before the next request."""


@dataclass(frozen=True, slots=True)
class Revoke:
    """The application still owns these, and may commit before it lets go."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Lose:
    """Others may have these already."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Assign:
    added: frozenset[TopicPartition]
    """May be empty: the application hears of each rebalance."""


@dataclass(frozen=True, slots=True)
class FindTopics:
    """The group was given topics whose names the member does not know: `TopicsChanged` is to tell their ids.

    Asked again with each heartbeat until it is known (KIP-848 only: a broker that matches a pattern may know of a topic
    sooner than we do).
    """

    topic_ids: frozenset[Uuid]


@dataclass(frozen=True, slots=True)
class CountPartitions:
    """The leader of a classic group is to assign topics that it does not read itself: `TopicsChanged` follows, once,
    and has those of them that exist."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class Raise:
    """The application's next call raises this; the member takes no part any more until it subscribes again."""

    error: ClientError


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send `Tick` at that time, in place of any time asked for before."""

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
        """Commits are sure to be refused, or what they name may belong to others soon."""

    def step(self, event: Event, now_s: float) -> list[Effect]: ...
