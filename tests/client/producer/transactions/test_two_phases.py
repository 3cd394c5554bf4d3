"""Transactions of two phases (KIP-939): prepared, and completed by the same producer or the next."""

import pytest

from cordwood.client.errors import (
    BadSetting,
    IllegalState,
)
from cordwood.client.producer.transactions.prepared import PreparedTxnState
from cordwood.client.producer.transactions.states import State
from cordwood.wire.messages.end_txn import EndTxnRequest
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.client.scripted_transactions import P0, PRODUCER_ID, Scripted

BOTH = pytest.mark.parametrize("version", [1, 2])


def prepared_before(scripted: Scripted, ongoing: PreparedTxnState) -> None:
    """As `ready`, after a producer that has left a transaction prepared."""
    operation = scripted.machine.initialize(keep_prepared=True)
    ask = scripted.ask()
    assert isinstance(ask.request, InitProducerIdRequest)
    assert ask.request.keep_prepared_txn
    response = InitProducerIdResponse(
        producer_id=PRODUCER_ID,
        producer_epoch=9,
        ongoing_txn_producer_id=ongoing.producer_id,
        ongoing_txn_producer_epoch=ongoing.epoch,
    )
    scripted.machine.answered(ask, response, scripted.now_s)
    operation.take()


def test_two_phases_are_requested_in_the_version_that_has_them() -> None:
    scripted = Scripted(two_phases=True)
    scripted.machine.initialize()
    ask = scripted.ask()
    assert isinstance(ask.request, InitProducerIdRequest)
    assert ask.at_least == 6
    assert ask.request.enable2_pc
    assert not ask.request.keep_prepared_txn


def test_a_prepared_transaction_is_named_by_its_producer() -> None:
    scripted = Scripted(two_phases=True).written()
    state = scripted.machine.prepare()
    assert str(state) == f"{PRODUCER_ID}:0"
    assert PreparedTxnState.parse(str(state)) == state == scripted.machine.prepared


@pytest.mark.parametrize("is_its_own", [True, False])
def test_it_is_committed_by_its_own_name_and_aborted_by_another(is_its_own: bool) -> None:
    scripted = Scripted(two_phases=True).written()
    state = scripted.machine.prepare()
    operation = scripted.machine.complete(state if is_its_own else PreparedTxnState())
    ask = scripted.ask()
    assert isinstance(ask.request, EndTxnRequest)
    assert ask.request.committed is is_its_own
    scripted.answer(ask)
    operation.take()
    assert scripted.machine.prepared is None
    assert scripted.machine.state is State.READY


@pytest.mark.parametrize("is_its_own", [True, False])
def test_the_next_producer_completes_the_prepared_transaction(is_its_own: bool) -> None:
    scripted = Scripted(two_phases=True)
    ongoing = PreparedTxnState(PRODUCER_ID, 8)
    prepared_before(scripted, ongoing)
    assert scripted.machine.prepared == ongoing
    operation = scripted.machine.complete(ongoing if is_its_own else PreparedTxnState(PRODUCER_ID, 7))
    ask = scripted.ask()
    assert isinstance(ask.request, EndTxnRequest)
    assert ask.request.committed is is_its_own
    assert ask.request.producer_epoch == 9
    scripted.answer(ask)
    operation.take()


def test_without_a_prepared_transaction_there_is_nothing_to_complete() -> None:
    scripted = Scripted(two_phases=True)
    prepared_before(scripted, PreparedTxnState())
    assert scripted.machine.state is State.READY
    scripted.machine.complete(PreparedTxnState(PRODUCER_ID, 8)).take()
    scripted.machine.begin()
    with pytest.raises(IllegalState):
        scripted.machine.complete(PreparedTxnState(PRODUCER_ID, 8))


def test_nothing_is_sent_into_a_prepared_transaction() -> None:
    scripted = Scripted(two_phases=True).written()
    scripted.machine.prepare()
    with pytest.raises(IllegalState, match="complete_transaction"):
        scripted.machine.add_partition(P0)
    assert not scripted.machine.is_open


def test_two_phases_must_be_enabled() -> None:
    with pytest.raises(BadSetting, match="transaction_two_phase_commit_enable"):
        Scripted().written().machine.prepare()
    with pytest.raises(BadSetting, match="transaction_two_phase_commit_enable"):
        Scripted().machine.initialize(keep_prepared=True)


@pytest.mark.parametrize(("version", "has_contents"), [(1, True), (1, False), (2, True), (2, False)])
def test_no_two_prepared_transactions_have_the_same_name(version: int, has_contents: bool) -> None:
    """Version 1 does not change epochs automatically, nor does a transaction without contents."""
    scripted = Scripted(version=version, two_phases=True).begun()
    names = []
    for _ in range(3):
        if has_contents:
            scripted.machine.add_partition(P0)
        scripted.settle()
        names.append(scripted.machine.prepare())
        scripted.finish(scripted.machine.complete(names[-1]))
        scripted.machine.begin()
    assert len(set(names)) == 3


@pytest.mark.parametrize("text", ["12", "a:b", "1:", ":1", "1:2:3", "-1:0"])
def test_invalid_states_of_prepared_transactions_are_refused(text: str) -> None:
    with pytest.raises(BadSetting, match="producer id:epoch"):
        PreparedTxnState.parse(text)


def test_no_state_is_empty_text() -> None:
    assert str(PreparedTxnState()) == ""
    assert PreparedTxnState.parse("") == PreparedTxnState()
