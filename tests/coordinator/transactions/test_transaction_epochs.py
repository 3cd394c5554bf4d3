"""Epochs: each new owner and, from transaction.version 2 on, each end has one of its own, until there are no more."""

from __future__ import annotations

import pytest

from cordwood.coordinator.transactions.statuses import TransactionStatus
from cordwood.coordinator.transactions.transaction import LAST_EPOCH, MAX_EPOCH
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from tests.coordinator.transactions.txn_desk import ORDERS, Desk


def test_after_the_last_epoch_a_producer_that_begins_gets_a_new_id() -> None:
    desk = Desk()
    desk.at_epoch(LAST_EPOCH)
    begun = desk.begin()
    assert (begun.producer_id, begun.producer_epoch) == (101, 0)
    assert desk.transaction.previous_producer_id == 7


def test_a_retry_of_the_request_that_assigned_the_new_id_gets_the_same_id() -> None:
    desk = Desk()
    desk.at_epoch(LAST_EPOCH)
    first = desk.begin((7, LAST_EPOCH))
    again = desk.begin((7, LAST_EPOCH))
    assert (again.producer_id, again.producer_epoch) == (first.producer_id, first.producer_epoch) == (101, 0)


def test_the_end_with_the_last_epoch_gives_a_new_id_when_the_markers_are_written() -> None:
    desk = Desk()
    desk.at_epoch(LAST_EPOCH)
    desk.add(7, LAST_EPOCH)
    ended = desk.end(7, LAST_EPOCH, commit=True)
    assert (ended.producer_id, ended.producer_epoch) == (101, 0)
    # The markers are those of the old one, with an epoch that is never assigned.
    [prepared] = desk.prepared
    assert (prepared.producer_id, prepared.producer_epoch) == (7, MAX_EPOCH)
    desk.complete()
    assert desk.transaction.client == (101, 0)
    assert desk.transaction.status is TransactionStatus.COMPLETE_COMMIT


def test_a_retry_of_the_end_with_the_last_epoch_gets_the_same_new_id() -> None:
    desk = Desk()
    desk.at_epoch(LAST_EPOCH)
    desk.add(7, LAST_EPOCH)
    desk.end(7, LAST_EPOCH, commit=True)
    with pytest.raises(Refusal) as concurrent:
        desk.end(7, LAST_EPOCH, commit=True)
    assert concurrent.value.error is ErrorCode.CONCURRENT_TRANSACTIONS
    desk.complete()
    again = desk.end(7, LAST_EPOCH, commit=True)
    assert (again.producer_id, again.producer_epoch) == (101, 0)
    with pytest.raises(Refusal) as other_outcome:
        desk.end(7, LAST_EPOCH, commit=False)
    assert other_outcome.value.error is ErrorCode.INVALID_TXN_STATE


def test_the_owner_of_the_new_id_waits_for_the_old_transaction() -> None:
    desk = Desk()
    desk.at_epoch(LAST_EPOCH)
    desk.add(7, LAST_EPOCH)
    ended = desk.end(7, LAST_EPOCH, commit=True)
    with pytest.raises(Refusal) as early:
        desk.add(ended.producer_id, ended.producer_epoch)
    assert early.value.error is ErrorCode.CONCURRENT_TRANSACTIONS
    desk.complete()
    desk.add(ended.producer_id, ended.producer_epoch)
    assert desk.transaction.partitions == {ORDERS}


def test_the_old_id_is_refused_once_the_new_one_is_used() -> None:
    desk = Desk()
    desk.at_epoch(LAST_EPOCH)
    desk.add(7, LAST_EPOCH)
    ended = desk.end(7, LAST_EPOCH, commit=True)
    desk.complete()
    desk.add(ended.producer_id, ended.producer_epoch)
    with pytest.raises(Refusal) as late:
        desk.end(7, LAST_EPOCH, commit=True)
    assert late.value.error is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_producer_with_the_last_epoch_can_be_fenced() -> None:
    desk = Desk()
    desk.at_epoch(LAST_EPOCH)
    desk.add(7, LAST_EPOCH)
    assert desk.begin().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.transaction.producer_epoch == MAX_EPOCH
    desk.complete()
    begun = desk.begin()
    assert (begun.producer_id, begun.producer_epoch) == (101, 0)


def test_ends_of_version_1_keep_the_epoch() -> None:
    desk = Desk(level=1)
    producer = desk.begin().producer_id
    desk.add(producer, 0, client_version=0)
    desk.end(producer, 0, commit=True, bumps_epoch=False)
    desk.complete()
    assert desk.transaction.client == (producer, 0)


def test_a_retry_with_the_epoch_before_is_refused_after_a_failover() -> None:
    desk = Desk()
    producer = desk.begin().producer_id
    assert desk.begin((producer, 0)).producer_epoch == 1
    desk.load_anew()
    with pytest.raises(Refusal) as fenced:
        desk.begin((producer, 0))
    assert fenced.value.error is ErrorCode.PRODUCER_FENCED


def test_a_retry_of_an_end_is_known_after_a_failover() -> None:
    desk = Desk()
    producer = desk.begin().producer_id
    desk.add(producer, 0)
    desk.end(producer, 0, commit=True)
    desk.load_anew()
    with pytest.raises(Refusal) as concurrent:
        desk.end(producer, 0, commit=True)
    assert concurrent.value.error is ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_fenced_producer_is_not_mistaken_for_a_retry_of_an_older_client() -> None:
    desk = Desk()
    producer = desk.begin().producer_id
    assert desk.begin().producer_epoch == 1
    desk.add(producer, 1, client_version=0)
    desk.end(producer, 1, commit=False, bumps_epoch=False)
    desk.complete()
    with pytest.raises(Refusal) as fenced:
        desk.end(producer, 0, commit=False)
    assert fenced.value.error is ErrorCode.PRODUCER_FENCED


def test_a_client_with_the_next_epoch_waits_and_is_not_fenced() -> None:
    desk = Desk()
    producer = desk.begin().producer_id
    desk.add(producer, 0)
    ended = desk.end(producer, 0, commit=True)
    with pytest.raises(Refusal) as early:
        desk.end(ended.producer_id, ended.producer_epoch, commit=False)
    assert early.value.error is ErrorCode.CONCURRENT_TRANSACTIONS
    desk.complete()
    assert desk.end(ended.producer_id, ended.producer_epoch, commit=False).producer_epoch == 2


def test_the_reserved_epoch_cannot_be_used() -> None:
    desk = Desk()
    desk.at_epoch(LAST_EPOCH)
    desk.add(7, LAST_EPOCH)
    desk.end(7, LAST_EPOCH, commit=True)
    with pytest.raises(Refusal) as while_it_ends:
        desk.end(7, MAX_EPOCH, commit=False)
    assert while_it_ends.value.error is ErrorCode.PRODUCER_FENCED


def test_the_fencing_epoch_cannot_be_used() -> None:
    desk = Desk()
    desk.at_epoch(LAST_EPOCH)
    desk.add(7, LAST_EPOCH)
    desk.begin()
    desk.complete()
    assert desk.transaction.client == (7, MAX_EPOCH)
    with pytest.raises(Refusal) as added:
        desk.add(7, MAX_EPOCH)
    assert added.value.error is ErrorCode.PRODUCER_FENCED
    with pytest.raises(Refusal) as ended:
        desk.end(7, MAX_EPOCH, commit=False)
    assert ended.value.error is ErrorCode.PRODUCER_FENCED
