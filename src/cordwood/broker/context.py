"""The broker's interface for its parts: types only, so that they need not import the broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from cordwood.config.broker import BrokerConfig
from cordwood.coordinator.coordinator import Coordinator
from cordwood.coordinator.groups.shard_state import GroupShardState
from cordwood.coordinator.transactions.shard_state import TransactionShardState
from cordwood.metadata.image import MetadataImage
from cordwood.replica.partition import Partition
from cordwood.replica.replicas import Replicas
from cordwood.runtime.clock import Clock
from cordwood.runtime.network import Network
from cordwood.runtime.randomness import Random
from cordwood.wire.primitives import Uuid

from .controller.channel import ControllerChannel


class BrokerContext(Protocol):
    """Implemented by `Broker`."""

    @property
    def id(self) -> int: ...

    @property
    def epoch(self) -> int:
        """The epoch of this start of the node; -1 until it is registered."""

    @property
    def config(self) -> BrokerConfig:
        """Includes dynamic settings; replaced when they change."""

    @property
    def image(self) -> MetadataImage:
        """The committed metadata."""

    @property
    def controller(self) -> ControllerChannel: ...

    @property
    def replicas(self) -> Replicas: ...

    @property
    def groups(self) -> Coordinator[GroupShardState]: ...

    @property
    def transactions(self) -> Coordinator[TransactionShardState]: ...

    @property
    def network(self) -> Network: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def random(self) -> Random: ...

    def topic_name(self, topic_id: Uuid) -> str | None: ...

    def partition(self, topic: str, index: int) -> Partition | None:
        """Returns a partition with a replica on this broker, if any."""

    def hosted(self, topic: str, index: int) -> Partition:
        """Like `partition`; raises Refusal with the reason if there is none."""

    async def until(self, condition: Callable[[], bool], timeout_s: float) -> None:
        """Returns when the committed metadata meets a condition, or on timeout."""
