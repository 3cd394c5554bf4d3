# cython: language_level=3, annotation_typing=False
"""The fast path of `send`: appends a record to an open batch, as nearly every call does.

Compiled like `wire/records`, with the batch's buffer and the delivery, since it runs for every record; the same file
runs uncompiled. Leaves everything else to the general path, `intake`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from cordwood.client.producer.deliveries import Delivery
from cordwood.wire.batch_builder import BatchBuilder
from cordwood.wire.hashing import partition_for_key

try:
    import cython  # type: ignore[import-untyped]
except ImportError:
    from cordwood.wire import interpreted as cython

if TYPE_CHECKING:
    from cordwood.client.cluster import Cluster, Topic
    from cordwood.client.producer.deliveries import Outcome
    from cordwood.runtime.threads import Lock

Headers = Sequence[tuple[str, bytes | None]]

# A record's overhead besides key and value, estimated high; headers are rare.
_RECORD_OVERHEAD_BYTES = 12


class OpenBatch:
    """The builder of an open batch."""

    __slots__ = ("_builder", "_outcome")

    def __init__(self, outcome: Outcome, builder: BatchBuilder | None) -> None:
        self._outcome = outcome
        self._builder = builder

    def append(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers) -> Delivery | None:
        """None if the record does not fit, or the batch is closed."""
        builder = self._builder
        if builder is None:
            return None
        index = builder.append(timestamp_ms, key, value, headers)
        if index < 0:  # FULL
            return None
        # Compiled, this takes a third of the time that a call with five arguments takes.
        delivery: Delivery = Delivery.__new__(Delivery)
        delivery.outcome = self._outcome
        delivery.index = index
        delivery.timestamp_ms = timestamp_ms
        delivery.key_size = -1 if key is None else len(key)
        delivery.value_size = -1 if value is None else len(value)
        return delivery

    def close(self) -> None:
        """Closes the batch, for callers that still reference it."""
        self._builder = None


class Sticky:
    """The partition of a topic's records without keys; set by the partitioner."""

    __slots__ = ("choices", "given_bytes", "looked_s", "most_bytes", "partition", "stay_bytes", "topic", "weights")

    def __init__(self, topic: Topic, partition: int, stay_bytes: int, most_bytes: int) -> None:
        self.topic = topic
        self.partition = partition
        self.given_bytes = 0
        self.stay_bytes = stay_bytes
        """Below this they stay, even with batches pending."""
        self.most_bytes = most_bytes
        """Below this they stay as long as they go into an open batch."""
        self.looked_s: float | None = None
        self.choices: Sequence[int] = ()
        self.weights: Sequence[int] = ()


class OpenTopic:
    """The open batches of a topic by partition. Some may be closed by now: they accept nothing."""

    __slots__ = ("batches", "partition_count", "sticky")

    def __init__(self, partition_count: int) -> None:
        self.partition_count = partition_count
        self.sticky: Sticky | None = None
        self.batches: dict[int, OpenBatch] = {}


class KnowsCluster(Protocol):
    @property
    def cluster(self) -> Cluster: ...


class Shortcut:
    """`send` takes a record from the application, `append` a serialized one; both from any thread.

    The general path registers open batches (`opened`). A batch that is full, drained or abandoned is closed with the
    lock held: then no record can get into it, or overtake an earlier one.
    """

    def __init__(
        self,
        client: KnowsCluster,
        lock: Lock,
        now_ms: Callable[[], int],
        long_way: Callable[..., Any],
        *,
        serializes_keys: bool,
        serializes_values: bool,
        knows_keys: bool,
    ) -> None:
        """`long_way` is called with all arguments of `send`. `knows_keys`: a key alone determines the partition."""
        self._client = client
        self._lock = lock
        self._acquire = lock.acquire
        self._release = lock.release
        self._now_ms = now_ms
        self._long_way = long_way
        self._serializes_keys = serializes_keys
        self._serializes_values = serializes_values
        self._knows_keys = knows_keys
        # Based on this version of the cluster's metadata.
        self._cluster = client.cluster
        self._topics: dict[str, OpenTopic] = {}

    def send(self, topic: str, value: Any, key: Any, partition: Any, timestamp_ms: Any, headers: Any) -> Any:
        """Appends to the open batch, or falls back to `Intake`."""
        if (
            type(value) is bytes
            and not self._serializes_values
            and (key is None or (type(key) is bytes and not self._serializes_keys))
            and timestamp_ms is None
            and not headers
        ):
            delivery = self.append(topic, key, value, partition, self._now_ms(), ())
            if delivery is not None:
                return delivery
        return self._long_way(topic, value, key, partition, timestamp_ms, headers)

    def append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: Any,
        timestamp_ms: int,
        headers: Headers,
    ) -> Delivery | None:
        """None if it has no open batch, or a partitioner must be called."""
        # In this order: another thread may install newer metadata in between, and forget these topics.
        if self._cluster is not self._client.cluster:
            return None
        known = self._topics.get(topic)
        if known is None:
            return None
        if partition is None and key is not None and self._knows_keys:
            partition = partition_for_key(key, known.partition_count)
        elif partition is not None and type(partition) is not int:
            return None
        if cython.compiled:
            # Like `with`, in half the time. Nothing interrupts compiled code between the two lines.
            self._acquire()
            try:
                return self._put(known, key, value, partition, timestamp_ms, headers)
            finally:
                self._release()
        else:
            with self._lock:
                return self._put(known, key, value, partition, timestamp_ms, headers)

    def _put(
        self,
        known: OpenTopic,
        key: bytes | None,
        value: bytes | None,
        partition: int | None,
        timestamp_ms: int,
        headers: Headers,
    ) -> Delivery | None:
        """Without a partition, uses the partitioner's current one, if it need not be called."""
        if partition is not None:
            batch = known.batches.get(partition)
            return None if batch is None else batch.append(timestamp_ms, key, value, headers)
        sticky = known.sticky
        if sticky is None:
            return None
        given_bytes = sticky.given_bytes + size_to_stick(key, value)
        if given_bytes > sticky.most_bytes:
            return None
        batch = known.batches.get(sticky.partition)
        if batch is None:
            return None
        delivery = batch.append(timestamp_ms, key, value, headers)
        if delivery is not None:
            sticky.given_bytes = given_bytes
        return delivery

    def opened(
        self, cluster: Cluster, topic: Topic, sticky: Sticky | None, partition: int, batch: OpenBatch | None
    ) -> None:
        """The general path has opened this batch, so later records can be appended directly. Called with the lock
        held."""
        if self._cluster is not cluster:
            self._topics = {}
            self._cluster = cluster
        known = self._topics.get(topic.name)
        if known is None:
            known = self._topics[topic.name] = OpenTopic(len(topic.partitions))
        known.sticky = sticky
        if batch is not None:
            known.batches[partition] = batch


def size_to_stick(key: bytes | None, value: bytes | None) -> int:
    """Returns the bytes that a record without a key counts for in sticky partitioning."""
    size_bytes = _RECORD_OVERHEAD_BYTES
    if key is not None:
        size_bytes += len(key)
    if value is not None:
        size_bytes += len(value)
    return size_bytes
