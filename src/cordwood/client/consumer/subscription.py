"""A consumer's subscription: topics or a pattern, with partitions assigned by its group, or a manual assignment;
sans-IO."""

import re
from collections.abc import Collection, Iterable
from enum import Enum
from typing import Any, Protocol

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.offsets.positions import PartitionState
from cordwood.client.errors import BadSetting, IllegalState


class RebalanceListener(Protocol):
    """Called about rebalances, within the application's own polls. Methods may be async, or missing."""

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> Any:
        """The partitions are still owned: commit here."""

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> Any:
        """Nothing of them has been read yet: seek here."""

    def on_partitions_lost(self, lost: list[TopicPartition]) -> Any:
        """Other members may own them already. Falls back to `on_partitions_revoked`."""


_LISTENING = ("on_partitions_revoked", "on_partitions_assigned", "on_partitions_lost")


def check_listener(listener: Any) -> None:
    """Rejects an object without any listener method. Raises `BadSetting`."""
    if listener is None:
        return
    if isinstance(listener, type):
        raise BadSetting(f"the listener is a class; expected an instance of it: {listener.__name__}()")
    if not any(callable(getattr(listener, name, None)) for name in _LISTENING):
        raise BadSetting(f"the listener {listener!r} has no callback methods; expected {', '.join(_LISTENING)}")


class SubscriptionPattern(str):
    """A pattern in RE2's syntax, which the broker matches (KIP-848)."""

    __slots__ = ()


class Mode(Enum):
    NOTHING = "nothing"
    TOPICS = "topics"
    PATTERN = "pattern"
    MANUAL = "manual"


class Subscription:
    """`states` has every partition that is read, in fetch order."""

    def __init__(self) -> None:
        self.mode = Mode.NOTHING
        self.topics: frozenset[str] = frozenset()
        """By name; with a pattern, the matching topics that the client knows."""
        self.pattern: re.Pattern[str] | None = None
        self.remote_pattern: str | None = None
        self.listener: Any = None
        self.states: dict[TopicPartition, PartitionState] = {}

    @property
    def is_group_managed(self) -> bool:
        return self.mode in (Mode.TOPICS, Mode.PATTERN)

    def subscribe(self, topics: Collection[str], listener: Any) -> None:
        if isinstance(topics, str):
            raise BadSetting(f"topics must be a list of names, not the str {topics!r}")
        for topic in topics:
            if not isinstance(topic, str) or not topic.strip():
                raise BadSetting(f"{topic!r} is not a topic name")
        self._begin(Mode.TOPICS, listener)
        self.topics = frozenset(topics)
        self.pattern = self.remote_pattern = None

    def subscribe_pattern(self, pattern: "re.Pattern[str] | SubscriptionPattern", listener: Any) -> None:
        self._begin(Mode.PATTERN, listener)
        self.topics = frozenset()
        if isinstance(pattern, SubscriptionPattern):
            self.pattern, self.remote_pattern = None, str(pattern)
        else:
            self.pattern, self.remote_pattern = pattern, None

    def match(self, topics: Iterable[str]) -> bool:
        """Returns whether the set of matching topics has changed."""
        assert self.pattern is not None
        matching = frozenset(name for name in topics if self.pattern.search(name))
        changed = matching != self.topics
        self.topics = matching
        return changed

    def assign(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Assigns manually; partitions that were read before keep their positions. Returns those that are no longer
        read."""
        self._begin(Mode.MANUAL, None)
        return self._replace(partitions)

    def unsubscribe(self) -> list[TopicPartition]:
        dropped = list(self.states)
        self.mode = Mode.NOTHING
        self.topics = frozenset()
        self.pattern = self.remote_pattern = self.listener = None
        self.states = {}
        return dropped

    def _begin(self, mode: Mode, listener: Any) -> None:
        if self.mode is not Mode.NOTHING and self.mode is not mode:
            raise IllegalState(
                f"the consumer reads by {self.mode.value}, cannot read by {mode.value}: topics, a pattern and "
                "manual assignment are mutually exclusive; call unsubscribe() first"
            )
        self.mode = mode
        self.listener = listener

    # ---- rebalances

    def grant(self, partitions: Iterable[TopicPartition]) -> None:
        """Nothing is read of them before the application's listener was called."""
        for partition in sorted(partitions):
            state = self.states[partition] = PartitionState(partition)
            state.awaits_listener = True

    def withdraw(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self.states.pop(partition, None)

    # ---- states

    def state(self, partition: TopicPartition) -> PartitionState:
        state = self.states.get(partition)
        if state is None:
            raise IllegalState(f"{partition} is not assigned to this consumer")
        return state

    def select(self, partitions: Collection[TopicPartition]) -> list[PartitionState]:
        """Returns the states of these partitions; of all for none."""
        return [self.state(partition) for partition in partitions] if partitions else list(self.states.values())

    def move_to_end(self, partition: TopicPartition) -> None:
        """Brokers fill responses from the first partition on, so one that returned records goes last."""
        state = self.states.pop(partition, None)
        if state is not None:
            self.states[partition] = state

    def _replace(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        kept = {partition: self.states.get(partition) or PartitionState(partition) for partition in partitions}
        dropped = [partition for partition in self.states if partition not in kept]
        self.states = kept
        return dropped


def pattern_of(
    given: str | re.Pattern[str] | SubscriptionPattern, *, is_remote: bool
) -> re.Pattern[str] | SubscriptionPattern:
    """`is_remote`: brokers match texts. Raises `BadSetting`."""
    if isinstance(given, SubscriptionPattern):
        if not is_remote:
            raise BadSetting("a SubscriptionPattern needs group_protocol=consumer, because brokers match it")
        return given
    if isinstance(given, str):
        return SubscriptionPattern(given) if is_remote else _compiled(given)
    if not isinstance(given, re.Pattern) or not isinstance(given.pattern, str):
        raise BadSetting(f"the pattern is {given!r}; expected a text or re.compile(...) of one")
    return given


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise BadSetting(f"the pattern {pattern!r} is not a valid regular expression: {error}") from error
