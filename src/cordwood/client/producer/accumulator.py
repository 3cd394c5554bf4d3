"""Records waiting to be sent: a deque of batches per partition, within bounded memory; sans-IO.

Callers hold the producer's lock: the application appends from its own thread, the sender drains from the loop's.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import Closed, RecordTooLarge
from cordwood.client.producer.batch import Headers, Packing, ProducerBatch
from cordwood.client.producer.buffer_pool import BufferPool, Reservation
from cordwood.client.producer.deliveries import Delivery, NewEvent
from cordwood.client.producer.settings import ProducerSettings
from cordwood.client.producer.shortcut import OpenBatch
from cordwood.wire.batch_builder import SealedBatch
from cordwood.wire.compression import Codec
from cordwood.wire.records import BATCH_HEADER_SIZE

LeaderOf = Callable[[TopicPartition], int | None]
MaySend = Callable[[TopicPartition], bool]

# A batch's overhead in Python objects, so that many small batches stay within bounds.
BATCH_OVERHEAD_BYTES = 2560
# A record's overhead besides key, value and headers: seven numbers of at most five bytes, ten for the timestamp. A
# header has two.
_RECORD_OVERHEAD_BYTES = 40
_HEADER_OVERHEAD_BYTES = 10


class Readiness(NamedTuple):
    """Returned to the sender before it drains."""

    leaders: frozenset[int]
    """Brokers for which a batch is due: full, lingered, flushed, closing, or because memory is short."""
    next_check_s: float
    """The time to ask again if nothing is appended (or of `expire`, if that comes first), on the clock of `now_s`;
    infinity when nothing waits."""
    leaderless: frozenset[str]
    """Topics with batches for a partition without a known leader: their metadata is needed."""


class Accumulator:
    """Batches that leave through `drain`, `expire` or `abort` are released once; requeued ones are not."""

    def __init__(
        self,
        settings: ProducerSettings,
        codec: Codec = Codec.NONE,
        *,
        wake: Callable[[], object] = lambda: None,
        new_event: NewEvent | None = None,
    ) -> None:
        """`wake` is called when the sender should call `ready`. `new_event` creates the events on which threads wait
        for deliveries; None if blocking is not allowed."""
        self.pool = BufferPool(settings.buffer_memory)
        self.new_event = new_event
        self._packing = Packing(
            # A record that fits into a batch then fits the other limits, too.
            max(0, min(settings.batch_size, settings.max_request_size, settings.buffer_memory)),
            codec,
            settings.compression_level,
            new_event,
        )
        self._max_request_size = settings.max_request_size
        self._linger_s = settings.linger_ms / 1000
        self._delivery_timeout_s = settings.delivery_timeout_ms / 1000
        self._availability_timeout_s = settings.partitioner_availability_timeout_ms / 1000
        self._wake = wake
        # Partitions with a batch, the least recently drained first.
        self._queues: dict[TopicPartition, deque[ProducerBatch]] = {}
        # By place: waiting and in-flight batches.
        self._incomplete: dict[tuple[int, ...], ProducerBatch] = {}
        self._next_place = 0
        self._next_expiry_s = inf
        self._due_since: dict[int, float] = {}
        self._is_closing = False

    def append(
        self,
        partition: TopicPartition,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        now_s: float,
        reservation: Reservation | None = None,
    ) -> Delivery | None:
        """Returns the record's delivery, or None if memory is short: then `reserve`, wait until it is granted, and call
        again with the reservation, for the same partition or another."""
        queue = self._queues.get(partition)
        if queue is not None and not self._is_closing:
            delivery = queue[-1].append(timestamp_ms, key, value, headers)
            if delivery is not None:
                if reservation is not None:
                    reservation.cancel()
                return delivery
        return self._append_to_new(partition, timestamp_ms, key, value, headers, now_s, reservation)

    def open_batch(self, partition: TopicPartition) -> OpenBatch | None:
        """Returns the batch that `append` tries first: only the last batch of a partition may be open."""
        queue = self._queues.get(partition)
        return queue[-1].open if queue is not None else None

    def reserve(
        self, key: bytes | None, value: bytes | None, headers: Headers, granted: Callable[[], object]
    ) -> Reservation:
        """Queues for the memory of a record; `granted` is called when it is available."""
        reservation = self.pool.reserve(self._hold_for(key, value, headers), granted)
        self._wake()
        return reservation

    def append_batch(
        self, partition: TopicPartition, sealed: SealedBatch, now_s: float, reservation: Reservation | None = None
    ) -> ProducerBatch | None:
        """Appends a complete batch after those of the partition; None if memory is short, as for `append`."""
        self._check_open(reservation)
        held_bytes = self._take(self._hold_for_bytes(sealed.size), reservation)
        if held_bytes is None:
            return None
        batch = ProducerBatch(partition, self._packing, now_s, self._place(), held_bytes, sealed)
        self._enqueue(batch)
        return batch

    def reserve_batch(self, sealed: SealedBatch, granted: Callable[[], object]) -> Reservation:
        reservation = self.pool.reserve(self._hold_for_bytes(sealed.size), granted)
        self._wake()
        return reservation

    # ---- the sender's interface

    def ready(self, leader_of: LeaderOf, now_s: float, may_send: MaySend | None = None) -> Readiness:
        """`may_send` as for `drain`: partitions that it excludes are not due."""
        leaders: dict[int, None] = {}
        leaderless: dict[str, None] = {}
        next_check_s = self._next_expiry_s
        is_urgent = self._is_closing or self.pool.is_short
        for partition, queue in self._queues.items():
            leader = leader_of(partition)
            if leader is None:
                leaderless[partition.topic] = None
            elif leader not in leaders:
                due_s = self._due_s(queue, is_urgent)
                if due_s > now_s:
                    next_check_s = min(next_check_s, due_s)
                elif may_send is None or may_send(partition):
                    leaders[leader] = None
        self._due_since = {leader: self._due_since.get(leader, now_s) for leader in leaders}
        return Readiness(frozenset(leaders), next_check_s, frozenset(leaderless))

    def drain(
        self, leader: int, leader_of: LeaderOf, may_send: MaySend, max_request_bytes: int, now_s: float
    ) -> list[ProducerBatch]:
        """Takes at most one batch of each partition, in the order in which they were last drained, so that none
        starves. `may_send` is called for each: an idempotent producer has at most five batches in flight per partition,
        and none after one that must be retried."""
        drained: list[ProducerBatch] = []
        total_bytes = 0
        for partition, queue in self._queues.items():
            if leader_of(partition) != leader:
                continue
            batch = queue[0]
            if batch.not_before_s > now_s or not may_send(partition):
                continue
            total_bytes += batch.size_bytes
            if drained and total_bytes > max_request_bytes:
                break
            drained.append(batch)
        for batch in drained:
            queue = self._queues.pop(batch.partition)
            queue.popleft()
            if queue:
                self._queues[batch.partition] = queue
            batch.close()
            self._shrink(batch)
        if drained:
            self._due_since.pop(leader, None)
        return drained

    def is_slow(self, leader: int, now_s: float) -> bool:
        """True if the broker has not taken due batches for longer than `partitioner_availability_timeout_ms`
        (KIP-794)."""
        since_s = self._due_since.get(leader)
        return (
            self._availability_timeout_s > 0 and since_s is not None and now_s - since_s > self._availability_timeout_s
        )

    def requeue(self, batches: Sequence[ProducerBatch], now_s: float, backoff_s: float) -> None:
        """Puts a batch back to the front of its partition, in creation order; due again after the back-off. Also for
        the parts of a split batch."""
        for batch in batches:
            batch.attempts += 1
            batch.not_before_s = now_s + backoff_s
            # The parts replace the whole.
            self._incomplete.pop(batch.place[:-1], None)
            self._incomplete[batch.place] = batch
            queue = self._queues.setdefault(batch.partition, deque())
            position = 0
            while position < len(queue) and queue[position].place < batch.place:
                position += 1
            queue.insert(position, batch)
            self._next_expiry_s = min(self._next_expiry_s, batch.created_s + self._delivery_timeout_s)

    def bring_forward(self, batch: ProducerBatch) -> None:
        """Moves a requeued batch to the front of its partition, due at once."""
        queue = self._queues[batch.partition]
        if queue[0] is not batch:
            # At most five are before it.
            queue.remove(batch)
            queue.appendleft(batch)
            batch.not_before_s = 0.0

    def expire(self, now_s: float) -> list[ProducerBatch]:
        """Takes out batches older than `delivery_timeout_ms`; the caller fails them."""
        if now_s < self._next_expiry_s:
            return []
        expired: list[ProducerBatch] = []
        self._next_expiry_s = inf
        for queue in self._queues.values():
            while queue and queue[0].created_s + self._delivery_timeout_s <= now_s:
                batch = queue.popleft()
                batch.close()
                expired.append(batch)
            if queue:
                self._next_expiry_s = min(self._next_expiry_s, queue[0].created_s + self._delivery_timeout_s)
        self._forget_empty(expired)
        return expired

    def release(self, batch: ProducerBatch) -> None:
        """Returns a batch's memory; call once for every batch that left through `drain`, `expire` or `abort`. A split
        batch is replaced by its parts: release those."""
        assert not batch.is_released, f"{batch} is released twice"
        batch.is_released = True
        self._incomplete.pop(batch.place, None)
        self.pool.give(batch.held_bytes)

    def begin_flush(self) -> Sequence[ProducerBatch]:
        """Makes everything queued due at once. Returns the batches that a flush waits for, including those in
        flight."""
        for queue in self._queues.values():
            for batch in queue:
                batch.is_flushed = True
        self._wake()
        return list(self._incomplete.values())

    def close(self) -> None:
        """Makes everything due, and rejects further records."""
        self._is_closing = True
        for queue in self._queues.values():
            queue[-1].close()
        self._wake()

    def abort(self, *, undrained_only: bool = False) -> list[ProducerBatch]:
        """Takes out all batches that are not in flight; optionally only those that were never in flight."""
        aborted: list[ProducerBatch] = []
        for queue in self._queues.values():
            taken = [batch for batch in queue if not (undrained_only and batch.attempts > 0)]
            aborted += taken
            for batch in taken:
                queue.remove(batch)
                batch.close()
        self._forget_empty(aborted)
        return aborted

    def waiting(self) -> Mapping[TopicPartition, int]:
        """Number of batches of each partition that are not in flight."""
        return {partition: len(queue) for partition, queue in self._queues.items()}

    def depth(self, partition: TopicPartition) -> int:
        """Like `waiting`, for one partition."""
        queue = self._queues.get(partition)
        return len(queue) if queue is not None else 0

    def room(self, partition: TopicPartition) -> int:
        """Approximate bytes of records that still fit into the partition's last batch."""
        queue = self._queues.get(partition)
        return queue[-1].room_bytes if queue is not None else 0

    def finish_batch(self, partition: TopicPartition) -> None:
        """Treats the partition's last batch as full, and therefore due."""
        queue = self._queues.get(partition)
        if queue is not None and not queue[-1].is_closed:
            queue[-1].close()
            self._wake()

    # ---- helpers

    def _append_to_new(
        self,
        partition: TopicPartition,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        now_s: float,
        reservation: Reservation | None,
    ) -> Delivery | None:
        self._check_open(reservation)
        held_bytes = self._take(self._hold_for(key, value, headers), reservation)
        if held_bytes is None:
            return None
        batch: ProducerBatch | None = None
        try:
            batch = ProducerBatch(partition, self._packing, now_s, self._place(), held_bytes)
            delivery = batch.append(timestamp_ms, key, value, headers)
            assert delivery is not None, "the first record always fits"
            self._enqueue(batch)
        except BaseException:
            # Ctrl-C may come between any two steps.
            queue = self._queues.get(partition)
            if queue is None or queue[-1] is not batch:
                self.pool.give(held_bytes)
            raise
        return delivery

    def _enqueue(self, batch: ProducerBatch) -> None:
        # In this order, and never an empty queue: after an interrupt a flush waits for nothing that never completes.
        queue = self._queues.get(batch.partition)
        if queue is None:
            self._queues[batch.partition] = deque((batch,))
        else:
            # A batch too full for one record might take a smaller one, which must not overtake it.
            queue[-1].close()
            queue.append(batch)
        self._incomplete[batch.place] = batch
        self._next_expiry_s = min(self._next_expiry_s, batch.created_s + self._delivery_timeout_s)
        self._wake()

    def _place(self) -> tuple[int]:
        self._next_place += 1
        return (self._next_place,)

    def _check_open(self, reservation: Reservation | None) -> None:
        if self._is_closing:
            if reservation is not None:
                reservation.cancel()
            raise Closed("the producer is closed")

    def _take(self, size_bytes: int, reservation: Reservation | None) -> int | None:
        """Takes memory from the pool, or a reservation; None if there is not enough."""
        if reservation is not None and reservation.is_granted:
            return reservation.use()
        return size_bytes if self.pool.take(size_bytes) else None

    def _hold_for(self, key: bytes | None, value: bytes | None, headers: Headers) -> int:
        size = BATCH_HEADER_SIZE + _RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
        for name, content in headers or ():
            size += _HEADER_OVERHEAD_BYTES + len(name.encode()) + len(content or b"")
        return self._hold_for_bytes(size, self._packing.limit_bytes)

    def _hold_for_bytes(self, size: int, grows_to: int = 0) -> int:
        """Returns the bytes that a batch of this size reserves in the pool; raises if it is too large for any
        request."""
        for limit, name in ((self._max_request_size, "max_request_size"), (self.pool.total_bytes, "buffer_memory")):
            if size > limit:
                raise RecordTooLarge(message=f"a record of {size} bytes is larger than {name}, which is {limit}")
        return min(max(size, grows_to) + BATCH_OVERHEAD_BYTES, self.pool.total_bytes)

    def _shrink(self, batch: ProducerBatch) -> None:
        """Returns unused memory of a batch that was sent before it was full."""
        needed = min(batch.size_bytes + BATCH_OVERHEAD_BYTES, batch.held_bytes)
        unused, batch.held_bytes = batch.held_bytes - needed, needed
        if unused:
            self.pool.give(unused)

    def _due_s(self, queue: deque[ProducerBatch], is_urgent: bool) -> float:
        """The time when the partition's first batch is due."""
        batch = queue[0]
        if is_urgent or batch.attempts > 0 or batch.is_flushed or len(queue) > 1 or batch.is_full:
            return batch.not_before_s
        return batch.created_s + self._linger_s

    def _forget_empty(self, taken_out: Sequence[ProducerBatch]) -> None:
        for batch in taken_out:
            if not self._queues.get(batch.partition, True):
                del self._queues[batch.partition]
