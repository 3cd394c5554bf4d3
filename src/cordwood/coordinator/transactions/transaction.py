"""A transactional id: its producer and its current transaction, and the effect of ending it."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Protocol

from cordwood.shard.decision import ProducerIdAndEpoch
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode

from .statuses import TRANSITIONS, TransactionStatus

NO_PRODUCER = -1
NO_EPOCH = -1
NEVER = -1
MAX_EPOCH = 2**15 - 1
# The last epoch assigned to a client: one more is reserved for fencing it.
LAST_EPOCH = MAX_EPOCH - 1
# The timeout of two-phase transactions, which never time out (KIP-939).
NO_TIMEOUT_MS = 2**31 - 1
# KIP-890: clients of this level have partitions added by Produce, and get a new epoch with each end.
EPOCH_BUMPS_SINCE = 2

TopicPartition = tuple[str, int]


class Transaction(NamedTuple):
    """Immutable: a decision creates the next value, the log carries it, and replay replaces this one."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: TransactionStatus
    partitions: frozenset[TopicPartition]
    started_ms: int
    updated_ms: int
    # The client's `transaction.version` that led to this state.
    client_version: int
    previous_producer_id: int
    # The client's current id and epoch if they differ from those the transaction was written with: after the last
    # epoch, and after a prepared transaction was taken over.
    next_producer_id: int = NO_PRODUCER
    next_producer_epoch: int = NO_EPOCH

    def __str__(self) -> str:
        return f"the transaction of {self.transactional_id} (producer {self.producer_id}, epoch {self.producer_epoch})"

    @property
    def client(self) -> ProducerIdAndEpoch:
        """The id and epoch of the client that may continue this transaction."""
        if self.next_producer_epoch != NO_EPOCH and self.next_producer_id != NO_PRODUCER:
            return ProducerIdAndEpoch(self.next_producer_id, self.next_producer_epoch)
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    @property
    def is_taken_over(self) -> bool:
        """True if a new incarnation owns it, which can only end it."""
        return self.status is TransactionStatus.ONGOING and self.next_producer_epoch != NO_EPOCH

    @property
    def is_exhausted(self) -> bool:
        return self.producer_epoch >= LAST_EPOCH

    @property
    def has_timeout(self) -> bool:
        return self.timeout_ms != NO_TIMEOUT_MS

    def moved(self, status: TransactionStatus, now_ms: int, **changes: object) -> Transaction:
        """Returns the transaction after a transition, which must be in the table."""
        assert status in TRANSITIONS[self.status], f"{self.transactional_id}: {self.status.label} → {status.label}"
        # As in Kafka, every record has the previous record's producer id.
        return self._replace(status=status, updated_ms=now_ms, previous_producer_id=self.producer_id, **changes)  # type: ignore[arg-type]


class WriteMarkers(NamedTuple):
    """The effect of a decision. The outcome of a transaction is committed: its markers must be written to these
    partitions, and then it can be completed."""

    transactional_id: str
    partitions: Collection[TopicPartition]
    # True: at once; False: after the responses of this turn of the event loop.
    is_urgent: bool = True


class ProducerIds(Protocol):
    """The producer ids that the controller has allocated to this broker."""

    def take(self) -> int | None:
        """Returns an unused id; None if getting one would take a request."""


def new_producer_id(producer_ids: ProducerIds) -> int:
    producer_id = producer_ids.take()
    if producer_id is None:
        raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer id is available at the moment")
    return producer_id
