"""Chooses the partition of records without an explicit one; sans-IO."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, count
from typing import Any, Protocol

from cordwood.client.cluster import Topic, TopicPartition
from cordwood.client.errors import BadSetting
from cordwood.client.producer.settings import ProducerSettings
from cordwood.client.producer.shortcut import Sticky, size_to_stick
from cordwood.runtime.randomness import Random
from cordwood.wire.hashing import partition_for_key

CustomPartitioner = Callable[[bytes | None, Sequence[int], Sequence[int]], int]
"""From the key, all partitions, and those that have a leader now, to one of them; as in kafka-python."""

# From this many bytes before a batch's worth on, check whether the batch itself is full.
_NEARLY_BYTES = 128
# The queues of a topic with very many partitions are not examined for each batch.
_LOAD_IS_FRESH_S = 0.01


class Partitioner(Protocol):
    follows_load: bool
    """True if it depends on the load: then it is called under the producer's lock, right before the record is appended,
    and again after a wait. Otherwise it is called once per record, by any thread."""

    def partition(self, topic: Topic, key: bytes | None, value: bytes | None, now_s: float) -> int:
        """Called after a record was appended."""


class Load(Protocol):
    """Load information for adaptive partitioning, provided by the accumulator."""

    def depth(self, partition: TopicPartition) -> int: ...

    def room(self, partition: TopicPartition) -> int: ...

    def finish_batch(self, partition: TopicPartition) -> None: ...

    def is_slow(self, leader: int, now_s: float) -> bool: ...


def partitioner_for(settings: ProducerSettings, load: Load, random: Random) -> Partitioner:
    chosen: Any = settings.partitioner
    if chosen is None or chosen == "default":
        return DefaultPartitioner(
            load,
            random,
            stick_bytes=max(1, settings.batch_size),
            is_adaptive=settings.partitioner_adaptive_partitioning_enable,
            ignores_keys=settings.partitioner_ignore_keys,
        )
    if chosen == "round_robin":
        return RoundRobinPartitioner()
    if callable(chosen):
        return CallingPartitioner(chosen)
    raise BadSetting(f"partitioner is {chosen!r}; expected None, 'default', 'round_robin' or a callable")


class DefaultPartitioner:
    """Partitions by murmur2 of the key. Records without a key stay together for a batch's worth of bytes, so that
    batches are large, and then switch, preferring partitions with fewer waiting batches (KIP-480, KIP-794)."""

    follows_load = True

    def __init__(
        self, load: Load, random: Random, *, stick_bytes: int, is_adaptive: bool = True, ignores_keys: bool = False
    ) -> None:
        self._load = load
        self._random = random
        self._stick_bytes = stick_bytes
        self._is_adaptive = is_adaptive
        self.ignores_keys = ignores_keys
        self._sticky: dict[str, Sticky] = {}

    def partition(self, topic: Topic, key: bytes | None, value: bytes | None, now_s: float) -> int:
        if key is not None and not self.ignores_keys:
            return partition_for_key(key, len(topic.partitions))
        return self.keyless(topic, size_to_stick(key, value), now_s)

    def sticky(self, topic: Topic) -> Sticky | None:
        """The current partition of records without keys, if it is not outdated by new metadata."""
        sticky = self._sticky.get(topic.name)
        return sticky if sticky is not None and sticky.topic is topic else None

    def keyless(self, topic: Topic, size_bytes: int, now_s: float) -> int:
        """Chooses a partition for `size_bytes` of records without keys, which stay together."""
        sticky = self._sticky.get(topic.name)
        if sticky is None or sticky.topic is not topic:
            sticky = self._know(topic, sticky, now_s)
        given_bytes = sticky.given_bytes + size_bytes
        if given_bytes > sticky.stay_bytes and self._may_leave(sticky, size_bytes):
            sticky.partition = self._next(topic, sticky, now_s)
            sticky.stay_bytes = self._stick_bytes - _NEARLY_BYTES
            given_bytes = size_bytes
        sticky.given_bytes = given_bytes
        return sticky.partition

    def _know(self, topic: Topic, sticky: Sticky | None, now_s: float) -> Sticky:
        """Handles a new topic, or new metadata."""
        if sticky is None or sticky.partition >= len(topic.partitions):
            partition = self._next(topic, None, now_s)
            sticky = Sticky(topic, partition, self._stick_bytes - _NEARLY_BYTES, 2 * self._stick_bytes)
            self._sticky[topic.name] = sticky
        sticky.topic = topic
        sticky.looked_s = None
        return sticky

    def _may_leave(self, sticky: Sticky, size_bytes: int) -> bool:
        """True if switching is allowed. Prefers to fill an open batch, or else linger would send partial batches only;
        but not without limit, because other callers may append to it as well."""
        if sticky.given_bytes == 0:
            return False
        if sticky.given_bytes >= sticky.most_bytes:
            return True
        current = TopicPartition(sticky.topic.name, sticky.partition)
        room_bytes = self._load.room(current)
        if size_bytes > room_bytes:
            # No record that would show that it is full will follow there.
            self._load.finish_batch(current)
            return True
        # Not asked again before it is nearly full.
        sticky.stay_bytes = min(sticky.given_bytes + room_bytes - _NEARLY_BYTES, sticky.most_bytes)
        return False

    def _next(self, topic: Topic, sticky: Sticky | None, now_s: float) -> int:
        if self._is_adaptive and sticky is not None:
            if sticky.looked_s is None or now_s - sticky.looked_s > _LOAD_IS_FRESH_S:
                sticky.looked_s = now_s
                sticky.choices, sticky.weights = self._weights(topic, now_s)
            if sticky.choices:
                place = bisect_right(sticky.weights, self._random.below(sticky.weights[-1]))
                return sticky.choices[place]
        choices = available(topic) or range(len(topic.partitions))
        return choices[self._random.below(len(choices))]

    def _weights(self, topic: Topic, now_s: float) -> tuple[Sequence[int], Sequence[int]]:
        """Returns partitions with cumulative weights: the fewer waiting batches, the larger the weight."""
        load = self._load
        choices = [
            partition.index
            for partition in topic.partitions
            if partition.leader >= 0 and not load.is_slow(partition.leader, now_s)
        ]
        depths = [load.depth(TopicPartition(topic.name, index)) for index in choices]
        most = max(depths, default=0)
        return choices, list(accumulate(most + 1 - depth for depth in depths))


class RoundRobinPartitioner:
    """Sends one record to each partition that has a leader, in turn, regardless of the key."""

    follows_load = False

    def __init__(self) -> None:
        self._topics: dict[str, tuple[Topic, Sequence[int]]] = {}
        self._turns: dict[str, Iterator[int]] = {}

    def partition(self, topic: Topic, key: bytes | None, value: bytes | None, now_s: float) -> int:
        known, choices = self._topics.get(topic.name, (None, ()))
        if known is not topic:
            choices = available(topic) or range(len(topic.partitions))
            self._topics[topic.name] = (topic, choices)
        turns = self._turns.get(topic.name)
        if turns is None:
            turns = self._turns.setdefault(topic.name, count())
        return choices[next(turns) % len(choices)]


class CallingPartitioner:
    """Calls the application's partitioner."""

    follows_load = False

    def __init__(self, call: CustomPartitioner) -> None:
        self._call = call
        self._topics: dict[str, tuple[Topic, Sequence[int], Sequence[int]]] = {}

    def partition(self, topic: Topic, key: bytes | None, value: bytes | None, now_s: float) -> int:
        known = self._topics.get(topic.name)
        if known is None or known[0] is not topic:
            known = self._topics[topic.name] = (topic, list(range(len(topic.partitions))), available(topic))
        try:
            chosen = self._call(key, known[1], known[2])
        except Exception as error:
            raise BadSetting(f"the partitioner failed for topic {topic.name}: {error!r}") from error
        if not isinstance(chosen, int) or not 0 <= chosen < len(topic.partitions):
            raise BadSetting(
                f"the partitioner chose {chosen!r} for topic {topic.name}, "
                f"which has the partitions 0 to {len(topic.partitions) - 1}"
            )
        return chosen


def available(topic: Topic) -> Sequence[int]:
    return [partition.index for partition in topic.partitions if partition.leader >= 0]
