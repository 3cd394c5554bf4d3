"""KIP-939: a prepared transaction outlives its producer, and its new owner ends it."""

from __future__ import annotations

import pytest

from cordwood.coordinator.transactions.housekeeping import abort_timed_out
from cordwood.coordinator.transactions.statuses import TransactionStatus
from cordwood.coordinator.transactions.transaction import LAST_EPOCH
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from tests.coordinator.transactions.txn_desk import Desk


def prepared_at(epoch: int) -> Desk:
    desk = Desk()
    desk.begin(enable2_pc=True)
    desk.at_epoch(epoch)
    desk.add(7, epoch)
    return desk


def test_two_phase_transactions_never_time_out() -> None:
    desk = Desk()
    producer = desk.begin(enable2_pc=True).producer_id
    desk.add(producer, 0)
    desk.time.passed_ms += 10**12
    desk.decide(abort_timed_out)
    desk.ring()
    assert desk.transaction.status is TransactionStatus.ONGOING


def test_one_phase_transactions_time_out() -> None:
    desk = Desk()
    producer = desk.begin().producer_id
    desk.add(producer, 0)
    desk.time.passed_ms += 60_000
    desk.decide(abort_timed_out)
    desk.ring()
    assert not desk.prepared
    desk.time.passed_ms += 1
    desk.decide(abort_timed_out)
    desk.ring()
    assert desk.transaction.status is TransactionStatus.PREPARE_ABORT


def test_a_new_owner_gets_the_open_transaction_even_after_a_failover() -> None:
    desk = prepared_at(4)
    taken = desk.begin(enable2_pc=True, keep_prepared_txn=True)
    desk.load_anew()
    again = desk.begin(enable2_pc=True, keep_prepared_txn=True)
    assert (taken.producer_epoch, again.producer_epoch) == (5, 6)
    assert (again.ongoing_txn_producer_id, again.ongoing_txn_producer_epoch) == (7, 4)


def test_keep_prepared_without_an_open_transaction_just_begins() -> None:
    desk = Desk()
    begun = desk.begin(enable2_pc=True, keep_prepared_txn=True)
    assert begun.ongoing_txn_producer_id == -1
    assert begun.ongoing_txn_producer_epoch == -1


def test_markers_after_a_takeover_have_an_epoch_after_all_assigned_ones() -> None:
    desk = prepared_at(4)
    desk.begin(enable2_pc=True, keep_prepared_txn=True)
    ended = desk.end(7, 5, commit=True)
    assert (desk.prepared[0].producer_id, desk.prepared[0].producer_epoch) == (7, 6)
    assert (ended.producer_id, ended.producer_epoch) == (7, 6)


def test_only_its_new_owner_may_end_it() -> None:
    desk = prepared_at(4)
    desk.begin(enable2_pc=True, keep_prepared_txn=True)
    with pytest.raises(Refusal) as fenced:
        desk.end(7, 4, commit=True)
    assert fenced.value.error is ErrorCode.PRODUCER_FENCED


def test_its_new_owner_may_only_end_it() -> None:
    desk = prepared_at(4)
    desk.begin(enable2_pc=True, keep_prepared_txn=True)
    with pytest.raises(Refusal) as refused:
        desk.add(7, 5, ("orders", 1))
    assert refused.value.error is ErrorCode.INVALID_TXN_STATE


def test_after_the_last_epoch_the_new_owner_gets_a_new_id_and_ends_the_old_transaction() -> None:
    desk = prepared_at(LAST_EPOCH)
    taken = desk.begin(enable2_pc=True, keep_prepared_txn=True)
    assert (taken.producer_id, taken.producer_epoch) == (101, 0)
    assert (taken.ongoing_txn_producer_id, taken.ongoing_txn_producer_epoch) == (7, LAST_EPOCH)
    ended = desk.end(101, 0, commit=True)
    assert (desk.prepared[0].producer_id, desk.prepared[0].producer_epoch) == (7, LAST_EPOCH + 1)
    with pytest.raises(Refusal) as concurrent:
        desk.end(101, 0, commit=True)
    assert concurrent.value.error is ErrorCode.CONCURRENT_TRANSACTIONS
    desk.complete()
    assert desk.transaction.client == (ended.producer_id, ended.producer_epoch) == (101, 1)
    again = desk.end(101, 0, commit=True)
    assert (again.producer_id, again.producer_epoch) == (101, 1)


def test_without_keep_prepared_the_transaction_is_aborted_with_an_unused_epoch() -> None:
    desk = prepared_at(4)
    desk.begin(enable2_pc=True, keep_prepared_txn=True)
    assert desk.begin(enable2_pc=True).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.prepared[0].producer_epoch == 6
    desk.complete()
    assert desk.begin(enable2_pc=True).producer_epoch == 7


def test_a_prepared_transaction_has_no_timeout_after_a_takeover() -> None:
    desk = Desk()
    producer = desk.begin(enable2_pc=True).producer_id
    desk.add(producer, 0)
    desk.begin(keep_prepared_txn=True)
    desk.time.passed_ms += 10**12
    desk.decide(abort_timed_out)
    desk.ring()
    assert desk.transaction.status is TransactionStatus.ONGOING
