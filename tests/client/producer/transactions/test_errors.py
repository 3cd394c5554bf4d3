"""A transactional producer after errors, and calls at the wrong time."""

import pytest

from cordwood.client.errors import (
    BrokerError,
    Closed,
    FatalTransactionError,
    IllegalState,
    ProducerFenced,
    TimedOut,
    TransactionAbortable,
    UnsupportedByBroker,
)
from cordwood.client.producer.identity import ProducerIdentity
from cordwood.client.producer.transactions.prepared import PreparedTxnState
from cordwood.client.producer.transactions.states import State
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest
from tests.client.scripted_transactions import GROUP, OFFSETS, P0, PRODUCER_ID, Scripted

BOTH = pytest.mark.parametrize("version", [1, 2])


@BOTH
def test_a_batch_that_fails_spoils_the_transaction_until_it_is_aborted(version: int) -> None:
    scripted = Scripted(version=version).written()
    machine = scripted.machine
    machine.batch_failed(TimedOut("too late"))
    for call in (machine.commit, machine.begin, lambda: machine.add_partition(P0)):
        with pytest.raises(TransactionAbortable, match="too late"):
            call()
    assert isinstance(machine.drop_unsent, TransactionAbortable)
    scripted.finish(machine.abort())
    machine.begin()
    assert machine.identity == ProducerIdentity(PRODUCER_ID, 1)


def test_version_1_takes_a_new_epoch_after_an_error() -> None:
    """It does not know what the brokers have of its sequences."""
    scripted = Scripted(version=1).written()
    scripted.machine.batch_failed(TimedOut("too late"))
    operation = scripted.machine.abort()
    scripted.answer(scripted.ask())
    ask = scripted.ask()
    assert isinstance(ask.request, InitProducerIdRequest)
    assert (ask.request.producer_id, ask.request.producer_epoch) == (PRODUCER_ID, 0)
    assert ask.at_least == 3
    assert not operation.is_done
    scripted.answer(ask)
    operation.take()


def test_a_batch_that_fails_while_it_is_aborted_costs_version_1_an_epoch_too() -> None:
    scripted = Scripted(version=1).written()
    operation = scripted.machine.abort()
    scripted.machine.batch_failed(TimedOut("too late"))
    scripted.finish(operation)
    assert scripted.asked == ["EndTxn", "InitProducerId"]


@BOTH
def test_a_batch_that_fails_fails_the_commit_that_waits_for_it(version: int) -> None:
    scripted = Scripted(version=version).written()
    operation = scripted.machine.commit()
    scripted.machine.batch_failed(TimedOut("too late"))
    with pytest.raises(TransactionAbortable, match="too late"):
        operation.take()
    assert scripted.next_ask() is None
    scripted.finish(scripted.machine.abort())


def test_a_fenced_batch_ends_the_producer() -> None:
    scripted = Scripted().written()
    scripted.machine.batch_failed(BrokerError(ErrorCode.PRODUCER_FENCED))
    assert isinstance(scripted.machine.fatal_error, ProducerFenced)
    for call in (scripted.machine.abort, scripted.machine.begin, scripted.machine.initialize):
        with pytest.raises(ProducerFenced):
            call()
    assert not scripted.machine.may_send(P0)
    assert scripted.next_ask() is None


def test_a_batch_with_an_old_epoch_leaves_it_to_the_abort_to_find_the_new_owner() -> None:
    scripted = Scripted().written()
    scripted.machine.batch_failed(BrokerError(ErrorCode.INVALID_PRODUCER_EPOCH))
    assert scripted.machine.state is State.ABORTABLE_ERROR
    operation = scripted.machine.abort()
    scripted.refuse(ErrorCode.PRODUCER_FENCED)
    with pytest.raises(ProducerFenced):
        operation.take()


def test_the_cause_of_an_error_is_kept() -> None:
    scripted = Scripted().written()
    cause = TimedOut("too late")
    scripted.machine.batch_failed(cause)
    with pytest.raises(TransactionAbortable) as raised:
        scripted.machine.commit()
    assert raised.value.__cause__ is cause
    assert raised.value.what_to_do is not None


def test_a_broker_without_a_version_that_is_needed_ends_the_producer() -> None:
    scripted = Scripted().written()
    operation = scripted.machine.commit()
    scripted.machine.failed(scripted.ask(), UnsupportedByBroker("no EndTxn"), scripted.now_s)
    with pytest.raises(FatalTransactionError, match="no EndTxn"):
        operation.take()


def test_an_initialization_that_is_not_allowed_may_be_tried_again() -> None:
    scripted = Scripted()
    operation = scripted.machine.initialize()
    scripted.refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    with pytest.raises(BrokerError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        operation.take()
    scripted.ready()


def test_an_epoch_that_is_refused_may_be_requested_by_another_abort() -> None:
    scripted = Scripted(version=1).written()
    scripted.machine.batch_failed(TimedOut("too late"))
    operation = scripted.machine.abort()
    scripted.answer(scripted.ask())
    scripted.refuse(ErrorCode.TRANSACTION_ABORTABLE)
    with pytest.raises(TransactionAbortable):
        operation.take()
    scripted.asked.clear()
    scripted.finish(scripted.machine.abort())
    assert scripted.asked == ["InitProducerId"]


def test_waiters_get_an_error_when_the_producer_is_closed() -> None:
    scripted = Scripted().written()
    offsets = scripted.machine.send_offsets(OFFSETS, GROUP)
    commit = scripted.machine.commit()
    scripted.machine.close()
    for operation in (offsets, commit):
        with pytest.raises(Closed):
            operation.take()


# ---- misuse


def states_and_calls() -> list[tuple[State, str, str]]:
    return [
        (State.UNINITIALIZED, "begin", "call init_transactions"),
        (State.UNINITIALIZED, "commit", "call init_transactions"),
        (State.READY, "commit", "call begin_transaction"),
        (State.READY, "abort", "call begin_transaction"),
        (State.READY, "add_partition", "call begin_transaction"),
        (State.READY, "send_offsets", "call begin_transaction"),
        (State.READY, "initialize", "it was already called"),
        (State.IN_TRANSACTION, "begin", "end it by commit_transaction"),
        (State.IN_TRANSACTION, "initialize", "end it by commit_transaction"),
        (State.IN_TRANSACTION, "complete", "end it by commit_transaction"),
    ]


@pytest.mark.parametrize(("state", "call", "advice"), states_and_calls())
def test_a_call_in_the_wrong_state_gives_advice(state: State, call: str, advice: str) -> None:
    scripted = Scripted(two_phases=True)
    if state is not State.UNINITIALIZED:
        scripted.ready()
    if state is State.IN_TRANSACTION:
        scripted.machine.begin()
    arguments = {"add_partition": (P0,), "send_offsets": (OFFSETS, GROUP), "complete": (PreparedTxnState(1, 1),)}
    with pytest.raises(IllegalState, match=advice):
        getattr(scripted.machine, call)(*arguments.get(call, ()))
    assert scripted.machine.state is state


def test_a_timed_out_call_resumes_when_it_is_repeated() -> None:
    scripted = Scripted().written()
    operation = scripted.machine.commit()
    assert scripted.machine.commit() is operation
    scripted.settle()
    assert scripted.machine.commit() is operation
    operation.take()
    with pytest.raises(IllegalState):
        scripted.machine.commit()


def test_no_other_call_is_made_while_the_outcome_of_one_is_unknown() -> None:
    scripted = Scripted().written()
    scripted.machine.commit()
    scripted.settle()
    with pytest.raises(IllegalState, match=r"commit_transaction\(\) is not known yet"):
        scripted.machine.begin()


def test_an_unseen_failure_does_not_block_an_abort() -> None:
    scripted = Scripted().written()
    scripted.machine.commit()
    scripted.machine.batch_failed(TimedOut("too late"))
    scripted.finish(scripted.machine.abort())
