"""The effect of each error code of each response on a transaction."""

from collections.abc import Callable

import pytest

from cordwood.client.errors import BrokerError, FatalTransactionError, ProducerFenced, TransactionAbortable
from cordwood.client.producer.transactions.operation import Operation
from cordwood.client.producer.transactions.states import State
from cordwood.wire.errors import ErrorCode
from tests.client.scripted_transactions import GROUP, OFFSETS, P0, Scripted

Waiting = tuple[Scripted, Operation | None]


def init_producer_id() -> Waiting:
    scripted = Scripted()
    return scripted, scripted.machine.initialize()


def add_partitions() -> Waiting:
    scripted = Scripted(version=1).begun()
    scripted.machine.add_partition(P0)
    return scripted, None


def add_offsets() -> Waiting:
    scripted = Scripted(version=1).begun()
    return scripted, scripted.machine.send_offsets(OFFSETS, GROUP)


def txn_offset_commit() -> Waiting:
    scripted = Scripted(version=2).begun()
    return scripted, scripted.machine.send_offsets(OFFSETS, GROUP)


def end_txn() -> Waiting:
    scripted = Scripted(version=2).written()
    return scripted, scripted.machine.commit()


EVERY = [init_producer_id, add_partitions, add_offsets, txn_offset_commit, end_txn]
IN_TRANSACTION = EVERY[1:]


def cases(*told: tuple[list[Callable[[], Waiting]], list[ErrorCode]]) -> list[tuple[Callable[[], Waiting], ErrorCode]]:
    return [(request, error) for requests, errors in told for request in requests for error in errors]


@pytest.mark.parametrize(
    ("request_", "error"),
    cases(
        (
            EVERY,
            [
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.CONCURRENT_TRANSACTIONS,
                ErrorCode.REQUEST_TIMED_OUT,
            ],
        ),
        ([add_partitions, txn_offset_commit], [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
    ),
)
def test_retriable_errors_are_retried(request_: Callable[[], Waiting], error: ErrorCode) -> None:
    scripted, operation = request_()
    first = scripted.ask()
    scripted.answer(first, error)
    assert scripted.next_ask() is None
    scripted.pause()
    again = scripted.ask()
    assert again.request == first.request
    moved = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
    if request_ is txn_offset_commit:
        moved.add(ErrorCode.REQUEST_TIMED_OUT)
    assert again.look_up == (error in moved)
    assert operation is None or not operation.is_done


@pytest.mark.parametrize(
    ("request_", "error"),
    cases(
        (IN_TRANSACTION, [ErrorCode.TRANSACTION_ABORTABLE]),
        ([add_partitions, add_offsets, end_txn], [ErrorCode.UNKNOWN_PRODUCER_ID]),
        ([add_partitions], [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION]),
        ([add_partitions], [ErrorCode.OPERATION_NOT_ATTEMPTED]),
        # A commit of what the coordinator has aborted, since it took longer than its timeout.
        ([end_txn], [ErrorCode.INVALID_TXN_STATE]),
        ([add_offsets, txn_offset_commit], [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.INVALID_GROUP_ID]),
        (
            [txn_offset_commit],
            [
                ErrorCode.FENCED_INSTANCE_ID,
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.ILLEGAL_GENERATION,
                ErrorCode.STALE_MEMBER_EPOCH,
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                ErrorCode.OFFSET_METADATA_TOO_LARGE,
            ],
        ),
    ),
)
def test_abortable_errors_allow_an_abort(request_: Callable[[], Waiting], error: ErrorCode) -> None:
    scripted, operation = request_()
    scripted.refuse(error)
    assert scripted.machine.state is State.ABORTABLE_ERROR
    if operation is not None:
        with pytest.raises(TransactionAbortable, match=error.name):
            operation.take()
    scripted.finish(scripted.machine.abort())
    scripted.machine.begin()


@pytest.mark.parametrize(
    ("request_", "error"), cases((EVERY, [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH]))
)
def test_a_fenced_producer_raises_producer_fenced(request_: Callable[[], Waiting], error: ErrorCode) -> None:
    scripted, operation = request_()
    scripted.refuse(error)
    assert scripted.machine.state is State.FATAL_ERROR
    if operation is not None:
        with pytest.raises(ProducerFenced):
            operation.take()
    with pytest.raises(ProducerFenced):
        scripted.machine.abort()


@pytest.mark.parametrize(
    ("request_", "error"),
    cases(
        (IN_TRANSACTION, [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]),
        ([add_partitions, add_offsets], [ErrorCode.INVALID_TXN_STATE]),
        ([add_partitions, add_offsets, end_txn], [ErrorCode.INVALID_PRODUCER_ID_MAPPING]),
        ([init_producer_id], [ErrorCode.INVALID_TRANSACTION_TIMEOUT, ErrorCode.UNSUPPORTED_VERSION]),
        ([txn_offset_commit], [ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT]),
        ([init_producer_id, add_offsets, txn_offset_commit, end_txn], [ErrorCode.UNKNOWN_SERVER_ERROR]),
    ),
)
def test_fatal_errors_end_the_producer(request_: Callable[[], Waiting], error: ErrorCode) -> None:
    scripted, operation = request_()
    scripted.refuse(error)
    assert scripted.machine.state is State.FATAL_ERROR
    if operation is not None:
        with pytest.raises(FatalTransactionError, match=error.name):
            operation.take()
    with pytest.raises(FatalTransactionError) as raised:
        scripted.machine.abort()
    assert raised.value.code is error
    assert not isinstance(raised.value, ProducerFenced)


@pytest.mark.parametrize("error", [ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.UNKNOWN_PRODUCER_ID])
def test_an_abort_that_is_refused_ends_the_producer(error: ErrorCode) -> None:
    scripted = Scripted().written()
    operation = scripted.machine.abort()
    scripted.refuse(error)
    with pytest.raises(FatalTransactionError):
        operation.take()


@pytest.mark.parametrize(
    ("request_", "error", "state"),
    [
        (init_producer_id, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, State.UNINITIALIZED),
        (init_producer_id, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, State.UNINITIALIZED),
        (init_producer_id, ErrorCode.SASL_AUTHENTICATION_FAILED, State.FATAL_ERROR),
        (end_txn, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, State.FATAL_ERROR),
        (txn_offset_commit, ErrorCode.GROUP_AUTHORIZATION_FAILED, State.ABORTABLE_ERROR),
    ],
)
def test_a_failed_coordinator_look_up_counts_like_its_response(
    request_: Callable[[], Waiting], error: ErrorCode, state: State
) -> None:
    scripted, operation = request_()
    scripted.machine.failed(scripted.ask(), BrokerError(error), scripted.now_s)
    assert scripted.machine.state is state
    assert operation is not None
    with pytest.raises(BrokerError, match=error.name):
        operation.take()
