"""**Transactions**: the machine of a transactional producer; sans-IO. Callers hold the producer's lock."""

from collections.abc import Mapping
from typing import Any

from cordwood.client.backoff import Backoff
from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.membership.events import GroupMetadata
from cordwood.client.errors import ClientError
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.client.producer.identity import ProducerIdentity
from cordwood.client.producer.settings import ProducerSettings
from cordwood.client.producer.transactions.operation import Operation
from cordwood.client.producer.transactions.prepared import PreparedTxnState
from cordwood.client.producer.transactions.requests import Ask
from cordwood.client.producer.transactions.states import State


class Transactions:
    """Misuse raises `InvalidState`, which says what to call instead; an error that spoiled the transaction raises
    `AbortableError`, one that ended the producer `ProducerFenced` or `FatalTransactionError`, from every call."""

    state: State
    identity: ProducerIdentity | None
    """For new batches; a new one begins all sequences at 0."""
    is_version_2: bool
    """Of the transaction that was begun last (KIP-890)."""

    def __init__(self, settings: ProducerSettings, backoff: Backoff) -> None: ...

    # ---- the application's calls

    def initialize(self, transaction_version: int, *, keep_prepared: bool = False) -> Operation:
        """`transaction_version` is the cluster's finalized feature `transaction.version`, 0 where it has none."""

    def begin(self, transaction_version: int) -> None: ...

    def add_partition(self, partition: TopicPartition) -> bool:
        """Before each record that is sent. True when the driver has to be woken: the partition is new to it."""

    def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata) -> Operation: ...

    def commit(self) -> Operation: ...

    def abort(self) -> Operation: ...

    def prepare(self) -> PreparedTxnState:
        """Everything is flushed: what was sent is acknowledged."""

    def complete(self, prepared: PreparedTxnState) -> Operation:
        """Commits if it is this one that is prepared, else aborts."""

    @property
    def prepared(self) -> PreparedTxnState | None: ...

    def close(self) -> None:
        """Whoever still waits is told that the producer was closed."""

    # ---- the sender's

    def may_send(self, partition: TopicPartition) -> bool:
        """Asked in the drain: version 1 sends to a partition only after it was added."""

    @property
    def produce_at_most(self) -> int | None:
        """The newest version of Produce that does not mean version 2, in a transaction of version 1."""

    def batch_failed(self, error: ClientError) -> None:
        """For good: its records are not in the transaction, so it cannot be committed."""

    @property
    def drop_unsent(self) -> ClientError | None:
        """Batches that were never sent are to fail with this: the transaction is aborted, or can only be."""

    @property
    def fatal_error(self) -> ClientError | None:
        """All batches are to fail with this, and nothing is sent any more."""

    # ---- the driver's

    def next_ask(self, now_s: float, *, has_incomplete: bool) -> Ask | None:
        """`has_incomplete`: batches are unsent or unacknowledged; a transaction is ended after them."""

    def next_check_s(self) -> float:
        """When `next_ask` may have something without anything else happening; infinity when it will not."""

    def answered(self, ask: Ask, response: Any, now_s: float) -> None: ...

    def failed(self, ask: Ask, error: ClientError, now_s: float) -> None:
        """No answer came, or the coordinator was not found."""
