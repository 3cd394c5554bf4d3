"""**Transactions**: the machine of a transactional producer; sans-IO. Callers hold the producer's lock.

The next request follows from its state alone, so a retry is just another call.
"""

from collections.abc import Mapping
from typing import Any

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.errors import (
    BadSetting,
    BrokerError,
    ClientError,
    Closed,
    FatalTransactionError,
    ProducerFenced,
    TransactionAbortable,
    TransactionAborted,
)
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.client.producer.identity import ProducerIdentity
from cordwood.client.producer.settings import ProducerSettings
from cordwood.client.producer.transactions import requests
from cordwood.client.producer.transactions.answers import (
    Verdict,
    committed_offsets,
    judge_answer,
    judge_batch,
    judge_failure,
)
from cordwood.client.producer.transactions.calls import Calls, misuse
from cordwood.client.producer.transactions.contents import Contents, OffsetCommit
from cordwood.client.producer.transactions.flight import Flight
from cordwood.client.producer.transactions.operation import Operation
from cordwood.client.producer.transactions.prepared import LeftTransaction, PreparedTxnState
from cordwood.client.producer.transactions.requests import Ask
from cordwood.client.producer.transactions.states import OPEN, TRANSITIONS, State
from cordwood.net.peers.backoff import Backoff
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from cordwood.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from cordwood.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from cordwood.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

# The first request of a transaction is often early: the previous one is still being completed, which takes very little
# time.
_CONCURRENT_BACKOFF_S = 0.020
_VERSION_2 = 2


class Transactions:
    """Misuse raises `IllegalState`, which names the right call; after an error that spoiled the transaction every call
    raises `TransactionAbortable`, after a fatal one `FatalTransactionError` (`ProducerFenced`)."""

    def __init__(self, settings: ProducerSettings, backoff: Backoff) -> None:
        assert settings.transactional_id is not None
        self.state = State.UNINITIALIZED
        self.identity: ProducerIdentity | None = None
        """The identity of new batches; a new one resets all sequences to 0."""
        self.is_version_2 = False
        """The version of the open transaction, else of the next one (KIP-890). Chosen when the previous one has
        ended."""
        self.prepared: PreparedTxnState | None = None
        """The prepared transaction, if any."""
        self.transactional_id = settings.transactional_id
        self._timeout_ms = settings.transaction_timeout_ms
        self._has_two_phases = settings.transaction_two_phase_commit_enable
        self._flight = Flight(backoff)
        self._contents = Contents()
        self._error: ClientError | None = None
        self._calls = Calls()
        # Options of the initialization for a predecessor's prepared transaction, and its result.
        self._keep_prepared = False
        self._found_none_prepared = False
        # The identity that named the last prepared transaction.
        self._prepared_as: ProducerIdentity | None = None
        # True if the next transaction must begin with another epoch.
        self._needs_epoch = False
        self._cluster_version = 0
        self._cluster_version_epoch = -1

    # ---- the application's calls

    def initialize(self, *, keep_prepared: bool = False) -> Operation:
        pending = self._calls.taken_up("init_transactions")
        if pending is not None:
            return pending
        if self.state is State.READY:
            raise misuse("init_transactions", self.state, "it was already called")
        self._check("init_transactions", State.UNINITIALIZED)
        if keep_prepared and not self._has_two_phases:
            raise BadSetting("init_transactions(keep_prepared=True) needs transaction_two_phase_commit_enable=True")
        self._keep_prepared = keep_prepared
        self._move(State.INITIALIZING)
        return self._calls.start("init_transactions")

    def begin(self) -> None:
        self._check("begin_transaction", State.READY)
        self._contents = Contents()
        self._found_none_prepared = False
        self._move(State.IN_TRANSACTION)

    def check_send(self) -> None:
        """Called before each record."""
        if self.state is not State.IN_TRANSACTION:
            self._check("send", State.IN_TRANSACTION)

    def add_partition(self, partition: TopicPartition) -> bool:
        """Called right after each record was appended: one that was not leaves a transaction without contents, which
        brokers refuse to end. Returns True if the driver must be woken: the partition is new to it."""
        self.check_send()
        contents = self._contents
        if partition in contents.added:
            return False
        if self.is_version_2:
            # The first Produce adds it. Whether that succeeds or not, the transaction must be ended.
            contents.added[partition] = None
            contents.is_started = True
            return False
        if contents.has(partition):
            return False
        contents.new[partition] = None
        return True

    def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata) -> Operation:
        self._check("send_offsets_to_transaction", State.IN_TRANSACTION)
        if group.generation_id > 0 and not group.member_id:
            raise BadSetting("the metadata of the group has a generation and no member: use consumer.group_metadata()")
        operation = Operation("send_offsets_to_transaction")
        if offsets:
            self._contents.commits.append(OffsetCommit(group, dict(offsets), operation))
        else:
            operation.succeed()
        return operation

    def commit(self) -> Operation:
        return self._end("commit_transaction", commit=True)

    def abort(self) -> Operation:
        return self._end("abort_transaction", commit=False)

    def prepare(self) -> PreparedTxnState:
        """Call after a flush: everything sent is acknowledged."""
        self._check("prepare_transaction", State.IN_TRANSACTION)
        if not self._has_two_phases:
            raise BadSetting("prepare_transaction() needs transaction_two_phase_commit_enable=True")
        self._prepare("prepare_transaction")
        assert self.prepared is not None
        return self.prepared

    def leave(self) -> LeftTransaction | None:
        """Call after a flush. None: nothing was sent, so there is nothing to end."""
        self._check("leave_transaction", State.IN_TRANSACTION)
        self._prepare("leave_transaction")
        assert self.identity is not None
        if not self._contents.is_started:
            return None
        return LeftTransaction(self.transactional_id, *self.identity, self.is_version_2)

    def take_id(self, transactional_id: str) -> None:
        """Becomes the producer of another id, which must be initialized."""
        if self.state is not State.UNINITIALIZED:
            self._check("take_transactional_id", State.READY, State.PREPARED)
            self._move(State.UNINITIALIZED)
        self.transactional_id = transactional_id
        self._contents = Contents()
        self.identity = self.prepared = self._prepared_as = None
        self._needs_epoch = self._found_none_prepared = False

    def _prepare(self, call: str) -> None:
        if self._contents.commits:
            raise misuse(call, self.state, "wait for send_offsets_to_transaction()")
        assert self.identity is not None
        # Partitions not added by now have no records.
        self._contents.new = {}
        self._move(State.PREPARED)
        self._prepared_as = self.identity
        self.prepared = PreparedTxnState.of(self.identity)

    def complete(self, prepared: PreparedTxnState) -> Operation:
        """Commits if this is the prepared transaction, else aborts. Does nothing if `initialize` has looked for a
        prepared one and found none: it was completed before."""
        pending = self._calls.taken_up("complete_transaction")
        if pending is not None:
            return pending
        if self._found_none_prepared and self.state is State.READY:
            operation = Operation("complete_transaction")
            operation.succeed()
            return operation
        self._check("complete_transaction", State.PREPARED)
        return self._end("complete_transaction", commit=prepared == self.prepared)

    @property
    def is_open(self) -> bool:
        """True if a closing producer should abort a transaction. A prepared one outlives it."""
        return self.state in OPEN or self.state is State.ABORTABLE_ERROR

    @property
    def ending(self) -> Operation | None:
        """The commit or abort in progress; a closing producer waits for it."""
        return self._calls.waiting if self.identity is not None else None

    @property
    def abandoned(self) -> Operation | None:
        """The operation whose caller was cancelled; its outcome must be known before the next call."""
        return self._calls.abandoned

    def close(self) -> None:
        """Fails waiting callers: the producer was closed."""
        closed = Closed("the producer was closed")
        self._contents.drop_unasked(closed)
        self._calls.fail(closed)

    def _end(self, call: str, *, commit: bool) -> Operation:
        pending = self._calls.taken_up(call)
        if pending is not None:
            return pending
        if commit:
            self._check(call, State.IN_TRANSACTION, State.PREPARED)
            self._move(State.COMMITTING)
        else:
            if self.state is not State.ABORTABLE_ERROR:
                self._check(call, State.IN_TRANSACTION, State.PREPARED)
            self._move(State.ABORTING)
            self._error = None
            self._contents.drop_unasked(TransactionAborted("not committed: the transaction is being aborted"))
        self.prepared = None
        return self._calls.start(call)

    def _check(self, call: str, *allowed: State) -> None:
        self._calls.check(call, self.state, allowed, self._error)

    # ---- the sender's interface

    def may_send(self, partition: TopicPartition) -> bool:
        """Version 1 sends to a partition only after it was added."""
        return self.state is not State.FATAL_ERROR and partition in self._contents.added

    @property
    def produce_at_most(self) -> int | None:
        """The newest version of Produce for a transaction of version 1."""
        return None if self.is_version_2 else requests.PRODUCE_V2 - 1

    def batch_failed(self, error: ClientError) -> None:
        """A batch failed for good: its records are missing in the transaction, so it cannot be committed. Not called
        for those dropped by `drop_unsent`."""
        verdict = judge_batch(error.code)
        if verdict is Verdict.ABORT and (self.state in OPEN or self.state is State.ABORTABLE_ERROR):
            self._spoil(error)
        elif verdict > Verdict.ABORT and self.state is not State.FATAL_ERROR:
            self._break(verdict, error)

    @property
    def drop_unsent(self) -> ClientError | None:
        """The error for batches that were never sent: the transaction is being aborted, or must be."""
        if self.state is State.ABORTING:
            return TransactionAborted("not sent: the transaction was aborted")
        return self._error if self.state is State.ABORTABLE_ERROR else None

    @property
    def fatal_error(self) -> ClientError | None:
        """The error for all batches; nothing is sent any more."""
        return self._error if self.state is State.FATAL_ERROR else None

    # ---- the driver's interface

    def learn_version(self, transaction_version: int, features_epoch: int) -> None:
        """Records the finalized feature `transaction.version` of a broker; 0 if it has none."""
        if features_epoch >= self._cluster_version_epoch:
            self._cluster_version, self._cluster_version_epoch = transaction_version, features_epoch

    def next_ask(self, now_s: float, *, has_incomplete: bool) -> Ask | None:
        """`has_incomplete`: batches are unsent or unacknowledged; a transaction is ended after them."""
        ask = self._wanted(has_incomplete) if self._flight.may_go(now_s) else None
        return None if ask is None else self._flight.went(ask)

    def next_check_s(self, now_s: float) -> float:
        """The time when `next_ask` may return a request without further events; infinity if never."""
        return self._flight.next_check_s(now_s)

    def answered(self, ask: Ask, response: Any, now_s: float) -> None:
        self._flight.landed(ask)
        verdict, code = judge_answer(ask.request, response, self._contents)
        if isinstance(ask.request, TxnOffsetCommitRequest):
            self._contents.offsets_are_committed(committed_offsets(response))
        if verdict is Verdict.DONE:
            self._flight.succeeded()
            self._done(ask, response)
        else:
            self._not_done(ask, verdict, BrokerError(code, subject=f"{ask.to.value} {ask.key}"), now_s)

    def failed(self, ask: Ask, error: ClientError, now_s: float) -> None:
        """No response came, or the coordinator was not found."""
        self._flight.landed(ask)
        self._not_done(ask, judge_failure(ask.request, error), error, now_s)

    # ---- next requests

    def _wanted(self, has_incomplete: bool) -> Ask | None:
        if self.state is State.INITIALIZING:
            return requests.init_producer_id(
                self.transactional_id,
                self._timeout_ms,
                self.identity,
                two_phases=self._has_two_phases,
                keep_prepared=self._keep_prepared,
            )
        if self.state not in OPEN:
            return None
        ask = self._addition() or self._offset_commit()
        if ask is not None or self.state is State.IN_TRANSACTION or has_incomplete:
            return ask
        if self._contents.is_started:
            assert self.identity is not None
            is_commit = self.state is State.COMMITTING
            return requests.end_txn(self.transactional_id, self.identity, commit=is_commit, version_2=self.is_version_2)
        self._ended()
        return self._wanted(has_incomplete)

    def _addition(self) -> Ask | None:
        contents = self._contents
        assert self.identity is not None
        if contents.new:
            contents.adding |= contents.new
            contents.new = {}
        if contents.adding:
            return requests.add_partitions(self.transactional_id, self.identity, contents.adding)
        if contents.commits and not self.is_version_2:
            group_id = contents.commits[0].group.group_id
            contents.adding_group = group_id if group_id not in contents.groups else None
        if contents.adding_group is not None:
            return requests.add_offsets(self.transactional_id, self.identity, contents.adding_group)
        return None

    def _offset_commit(self) -> Ask | None:
        contents = self._contents
        if not contents.commits:
            return None
        assert self.identity is not None
        contents.is_started = True
        commit = contents.commits[0]
        return requests.txn_offset_commit(
            self.transactional_id, self.identity, commit.group, commit.offsets, version_2=self.is_version_2
        )

    # ---- responses

    def _done(self, ask: Ask, response: Any) -> None:
        match ask.request:
            case InitProducerIdRequest():
                self._initialized(response)
            case AddPartitionsToTxnRequest():
                self._contents.partitions_are_added()
            case AddOffsetsToTxnRequest():
                self._contents.group_is_added()
            case EndTxnRequest():
                self._take_next_identity(response)
                self._ended()

    def _initialized(self, response: InitProducerIdResponse) -> None:
        self.identity = ProducerIdentity(response.producer_id, response.producer_epoch)
        self.is_version_2 = self._cluster_version >= _VERSION_2
        self._needs_epoch = False
        if self._keep_prepared and response.ongoing_txn_producer_id >= 0:
            self.prepared = PreparedTxnState(response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch)
            self._contents = Contents(is_started=True)
            self._move(State.PREPARED)
        else:
            self._found_none_prepared = self._keep_prepared
            self._move(State.READY)
        self._keep_prepared = False
        self._calls.succeed()

    def _take_next_identity(self, response: EndTxnResponse) -> None:
        if self.is_version_2 and response.producer_id >= 0:
            self.identity = ProducerIdentity(response.producer_id, response.producer_epoch)
            self._needs_epoch = False

    def _ended(self) -> None:
        self._contents = Contents()
        if not self.is_version_2 and self._cluster_version >= _VERSION_2:
            # The first transaction of version 2 begins with an epoch that nothing before it used.
            self._needs_epoch = True
        if self.identity == self._prepared_as:
            # A response for this transaction must not be mistaken for the next one's. Neither version 1 nor a
            # transaction without contents changes epochs.
            self._needs_epoch = True
        self.is_version_2 = self._cluster_version >= _VERSION_2
        if self._needs_epoch:
            self._move(State.INITIALIZING)
        else:
            self._move(State.READY)
            self._calls.succeed()

    def _not_done(self, ask: Ask, verdict: Verdict, error: ClientError, now_s: float) -> None:
        if verdict is Verdict.ELSEWHERE:
            self._flight.lose_coordinator(ask)
        if verdict <= Verdict.ELSEWHERE:
            is_first = isinstance(ask.request, AddPartitionsToTxnRequest) and not self._contents.added
            is_early = is_first and error.code == ErrorCode.CONCURRENT_TRANSACTIONS
            self._flight.pause(now_s, _CONCURRENT_BACKOFF_S if is_early else None)
        elif self.state is State.FATAL_ERROR:
            return
        elif verdict > Verdict.ABORT:
            self._break(verdict, error)
        elif self.state is State.INITIALIZING and self.identity is None:
            self._move(State.UNINITIALIZED)
            self._calls.fail(error)
        elif verdict is Verdict.REFUSED or (self.state is State.ABORTING and isinstance(ask.request, EndTxnRequest)):
            self._break(Verdict.FATAL, error)
        else:
            self._contents.drop_unanswered()
            self._spoil(error)

    def _spoil(self, cause: ClientError) -> None:
        """The transaction can only be aborted. Version 1 continues with a new epoch, since it cannot know what the
        brokers have of it."""
        self._needs_epoch = self._needs_epoch or not self.is_version_2
        if self.state not in (State.IN_TRANSACTION, State.COMMITTING, State.INITIALIZING):
            return
        error = TransactionAbortable(None, f"the transaction cannot be committed: {cause}")
        error.__cause__ = cause
        self._move(State.ABORTABLE_ERROR)
        self._error = error
        self._contents.drop_unasked(error)
        self._calls.fail(error)

    def _break(self, verdict: Verdict, cause: ClientError) -> None:
        """The producer cannot continue."""
        error: FatalTransactionError
        if verdict is Verdict.FENCED:
            error = ProducerFenced(None, f"a newer producer has {self.transactional_id}, or its transaction timed out")
        else:
            code = ErrorCode.UNKNOWN_SERVER_ERROR if cause.code is None else cause.code
            reason = str(cause).removesuffix(f" ({code.name})")
            error = FatalTransactionError(code, f"the producer of {self.transactional_id} has failed: {reason}")
            if cause.what_to_do is not None:
                error.advise(f"{cause.what_to_do}; then create a new producer")
        error.__cause__ = cause
        self._move(State.FATAL_ERROR)
        self._error = error
        self._contents.drop_unasked(error)
        self._calls.fail(error)

    def _move(self, after: State) -> None:
        assert after in TRANSITIONS[self.state], f"invalid transition from {self.state} to {after}"
        self.state = after
