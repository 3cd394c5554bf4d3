"""A transactional producer's states are those of its table, and the table is as Kafka's."""

from collections.abc import Callable

import pytest

from cordwood.client.errors import BrokerError, TimedOut
from cordwood.client.producer.transactions.prepared import PreparedTxnState
from cordwood.client.producer.transactions.states import TRANSITIONS, WHAT_NOW, State
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.init_producer_id import InitProducerIdResponse
from tests.client.scripted_transactions import PRODUCER_ID, Scripted

FENCED = ErrorCode.PRODUCER_FENCED


def initializing() -> Scripted:
    scripted = Scripted(two_phases=True)
    scripted.machine.initialize(keep_prepared=True)
    return scripted


def take_new_epoch() -> Scripted:
    """Version 1 after an error: the transaction is aborted, and the next epoch asked for."""
    scripted = aborting_after_error()
    end(scripted)
    return scripted


def find_prepared(scripted: Scripted) -> None:
    response = InitProducerIdResponse(
        producer_id=PRODUCER_ID, producer_epoch=1, ongoing_txn_producer_id=PRODUCER_ID, ongoing_txn_producer_epoch=0
    )
    scripted.machine.answered(scripted.ask(), response, scripted.now_s)


def written() -> Scripted:
    return Scripted(two_phases=True).written()


def prepared() -> Scripted:
    scripted = written()
    scripted.machine.prepare()
    return scripted


def committing() -> Scripted:
    scripted = written()
    scripted.machine.commit()
    return scripted


def aborting() -> Scripted:
    scripted = written()
    scripted.machine.abort()
    return scripted


def spoiled() -> Scripted:
    scripted = written()
    scripted.machine.batch_failed(TimedOut("late"))
    return scripted


def fence_by_batch(scripted: Scripted) -> None:
    scripted.machine.batch_failed(BrokerError(FENCED))


def last_of_version_1() -> Scripted:
    """The brokers were upgraded while it was open."""
    scripted = Scripted(version=1).written()
    scripted.machine.learn_version(2, 2)
    scripted.machine.commit()
    return scripted


def aborting_after_error() -> Scripted:
    scripted = Scripted(version=1).written()
    scripted.machine.batch_failed(TimedOut("late"))
    scripted.machine.abort()
    return scripted


def end(scripted: Scripted) -> None:
    scripted.answer(scripted.ask())


# For each way of the table, one that takes it: a producer in the first state, and what happens to it.
WAYS: dict[tuple[State, State], tuple[Callable[[], Scripted], Callable[[Scripted], object]]] = {
    (State.UNINITIALIZED, State.INITIALIZING): (Scripted, lambda one: one.machine.initialize()),
    (State.INITIALIZING, State.READY): (initializing, lambda one: one.settle()),
    (State.INITIALIZING, State.PREPARED): (initializing, find_prepared),
    (State.INITIALIZING, State.UNINITIALIZED): (
        initializing,
        lambda one: one.refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ),
    (State.INITIALIZING, State.ABORTABLE_ERROR): (
        take_new_epoch,
        lambda one: one.refuse(ErrorCode.TRANSACTION_ABORTABLE),
    ),
    (State.INITIALIZING, State.FATAL_ERROR): (initializing, lambda one: one.refuse(FENCED)),
    (State.READY, State.IN_TRANSACTION): (lambda: Scripted().ready(), lambda one: one.machine.begin()),
    (State.READY, State.UNINITIALIZED): (lambda: Scripted().ready(), lambda one: one.machine.take_id("another")),
    (State.READY, State.FATAL_ERROR): (lambda: Scripted().ready(), fence_by_batch),
    (State.IN_TRANSACTION, State.COMMITTING): (written, lambda one: one.machine.commit()),
    (State.IN_TRANSACTION, State.ABORTING): (written, lambda one: one.machine.abort()),
    (State.IN_TRANSACTION, State.PREPARED): (written, lambda one: one.machine.prepare()),
    (State.IN_TRANSACTION, State.ABORTABLE_ERROR): (written, lambda one: one.machine.batch_failed(TimedOut("late"))),
    (State.IN_TRANSACTION, State.FATAL_ERROR): (written, fence_by_batch),
    (State.PREPARED, State.COMMITTING): (prepared, lambda one: one.machine.complete(PreparedTxnState(PRODUCER_ID, 0))),
    (State.PREPARED, State.ABORTING): (prepared, lambda one: one.machine.complete(PreparedTxnState())),
    (State.PREPARED, State.UNINITIALIZED): (prepared, lambda one: one.machine.take_id("another")),
    (State.PREPARED, State.FATAL_ERROR): (prepared, fence_by_batch),
    (State.COMMITTING, State.READY): (committing, lambda one: one.settle()),
    (State.COMMITTING, State.INITIALIZING): (last_of_version_1, end),
    (State.COMMITTING, State.ABORTABLE_ERROR): (committing, lambda one: one.refuse(ErrorCode.TRANSACTION_ABORTABLE)),
    (State.COMMITTING, State.FATAL_ERROR): (committing, lambda one: one.refuse(FENCED)),
    (State.ABORTING, State.READY): (aborting, lambda one: one.settle()),
    (State.ABORTING, State.INITIALIZING): (aborting_after_error, end),
    (State.ABORTING, State.FATAL_ERROR): (aborting, lambda one: one.refuse(FENCED)),
    (State.ABORTABLE_ERROR, State.ABORTING): (spoiled, lambda one: one.machine.abort()),
    (State.ABORTABLE_ERROR, State.FATAL_ERROR): (spoiled, fence_by_batch),
}


def ways() -> list[tuple[State, State]]:
    return [(before, after) for before, ways in TRANSITIONS.items() for after in ways]


@pytest.mark.parametrize(("before", "after"), ways(), ids=lambda state: state.value)
def test_every_transition_of_the_table_is_taken(before: State, after: State) -> None:
    producer, what_happens = WAYS[before, after]
    scripted = producer()
    assert scripted.machine.state is before
    what_happens(scripted)
    assert scripted.machine.state is after


def test_a_producer_that_is_broken_stays_so() -> None:
    assert TRANSITIONS[State.FATAL_ERROR] == {}


def test_every_state_is_in_the_tables() -> None:
    assert set(TRANSITIONS) == set(WHAT_NOW) == set(State)


@pytest.mark.parametrize(
    ("after", "before"),
    [
        (State.INITIALIZING, {State.UNINITIALIZED, State.COMMITTING, State.ABORTING}),
        (State.READY, {State.INITIALIZING, State.COMMITTING, State.ABORTING}),
        (State.IN_TRANSACTION, {State.READY}),
        (State.PREPARED, {State.IN_TRANSACTION, State.INITIALIZING}),
        (State.COMMITTING, {State.IN_TRANSACTION, State.PREPARED}),
        (State.ABORTING, {State.IN_TRANSACTION, State.PREPARED, State.ABORTABLE_ERROR}),
        (State.ABORTABLE_ERROR, {State.IN_TRANSACTION, State.COMMITTING, State.INITIALIZING}),
    ],
    ids=lambda value: value.value if isinstance(value, State) else "",
)
def test_a_state_is_reached_from_where_kafkas_clients_reach_it(after: State, before: set[State]) -> None:
    assert {state for state, ways in TRANSITIONS.items() if after in ways} == before
