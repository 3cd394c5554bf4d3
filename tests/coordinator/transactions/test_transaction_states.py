"""The table of states."""

from __future__ import annotations

import pytest

from cordwood.coordinator.transactions.statuses import AT_REST, PREPARED, TRANSITIONS, TransactionStatus
from tests.coordinator.transactions.txn_desk import Desk


def test_the_states_have_kafkas_numbers_and_names() -> None:
    assert [(status.value, status.label) for status in TransactionStatus] == [
        (0, "Empty"),
        (1, "Ongoing"),
        (2, "PrepareCommit"),
        (3, "PrepareAbort"),
        (4, "CompleteCommit"),
        (5, "CompleteAbort"),
        (6, "Dead"),
        (7, "PrepareEpochFence"),
    ]


def test_every_state_can_be_reached_from_an_empty_one() -> None:
    reached = {TransactionStatus.EMPTY}
    for _ in TransactionStatus:
        reached |= {after for before in reached for after in TRANSITIONS[before]}
    assert reached == set(TransactionStatus)


def test_a_prepared_transaction_can_only_be_completed_with_the_prepared_outcome() -> None:
    assert {status: set(TRANSITIONS[status]) for status in PREPARED} == {
        TransactionStatus.PREPARE_COMMIT: {TransactionStatus.COMPLETE_COMMIT},
        TransactionStatus.PREPARE_ABORT: {TransactionStatus.COMPLETE_ABORT},
    }


def test_only_an_open_transaction_can_be_committed() -> None:
    ways = [before for before, ways in TRANSITIONS.items() if TransactionStatus.PREPARE_COMMIT in ways]
    assert ways == [TransactionStatus.ONGOING]


def test_an_id_expires_only_where_no_transaction_is_in_progress() -> None:
    assert {before for before, ways in TRANSITIONS.items() if TransactionStatus.DEAD in ways} == AT_REST


def test_transitions_missing_in_the_table_are_impossible() -> None:
    desk = Desk()
    desk.begin()
    with pytest.raises(AssertionError, match="Empty → PrepareCommit"):
        desk.transaction.moved(TransactionStatus.PREPARE_COMMIT, 0)
