"""Records that wait to be sent: a deque of batches per partition, within a bounded memory; sans-IO.

Callers hold the producer's lock: the application appends from its own thread, the sender drains from the loop's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cordwood.client.cluster import TopicPartition
from cordwood.client.producer.batch import Headers, ProducerBatch


@dataclass(frozen=True, slots=True)
class Readiness:
    """What the sender asks before it drains."""

    leaders: frozenset[int]
    """Brokers for which a batch is due: full, lingered, flushed, closing, or because memory is short."""
    next_check_s: float
    """When to ask again if nothing is appended meanwhile, for what is not due yet, and for what expires; infinity when
    nothing waits. Always later than now: who is due and could not be sent is not asked for again until something
    changed."""
    leaderless: frozenset[str]
    """Topics with batches whose partition has no known leader: their metadata is wanted."""


class Accumulator:
    due_s: float
    """When the earliest batch that was begun or filled since `ready` was last asked is due (a full one at once);
    infinity if there is none. Who appends wakes a sender that would sleep longer."""

    def append(
        self,
        partition: TopicPartition,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        now_s: float,
    ) -> Any:
        """The record's delivery, or None when memory is short: wait for `room`, and call again."""

    def ready(self, leader_of: Callable[[TopicPartition], int | None], now_s: float) -> Readiness: ...

    def drain(
        self,
        leader: int,
        leader_of: Callable[[TopicPartition], int | None],
        may_send: Callable[[TopicPartition], bool],
        max_request_bytes: int,
        now_s: float,
    ) -> list[ProducerBatch]:
        """At most one batch of each partition, from where the last drain of this leader ended, so that none starves.
        `may_send` is asked for each: an idempotent producer has at most five batches in flight per partition, and
        none that follows one which is to be sent again."""

    def requeue(self, batches: Sequence[ProducerBatch], now_s: float, backoff_s: float) -> None:
        """To the front of its partition, in the order of their sequences; due again after the back-off."""

    def expire(self, now_s: float) -> list[ProducerBatch]:
        """Takes out those older than `delivery_timeout_ms`; the caller fails them."""

    def release(self, batch: ProducerBatch) -> None:
        """Gives its memory back; every batch that left by `drain`, `expire` or `abort` is released once."""

    def begin_flush(self) -> Sequence[ProducerBatch]:
        """Everything now held is due at once. What is returned is what a flush waits for, in flight ones included."""

    def abort(self) -> list[ProducerBatch]:
        """Takes out all that is not in flight."""

    def waiting(self) -> Mapping[TopicPartition, int]:
        """Batches of each partition that are not in flight."""
