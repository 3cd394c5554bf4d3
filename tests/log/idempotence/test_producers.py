"""Idempotent and transactional producers, as one partition sees them."""

from pathlib import Path

import pytest

from cordwood.log.idempotence.producers import MAX_SEQUENCE, AppendOrigin
from cordwood.log.log import Appended, Log
from cordwood.shard.refusal import Refusal
from cordwood.wire.control import end_txn_marker
from cordwood.wire.errors import ErrorCode
from tests.log.support import NOW, batch, open_at, values


def send(
    log: Log, sequence: int, *texts: str, producer_id: int = 1, epoch: int = 0, transactional: bool = False
) -> Appended:
    data = batch(
        *(texts or ("x",)), producer_id=producer_id, epoch=epoch, sequence=sequence, transactional=transactional
    )
    return log.append_as_leader(data, 0, NOW)


def refused(log: Log, sequence: int, epoch: int = 0, **kind: bool) -> ErrorCode:
    before = log.end_offset
    with pytest.raises(Refusal) as refusal:
        send(log, sequence, epoch=epoch, **kind)
    assert log.end_offset == before
    return refusal.value.error


def mark(log: Log, *, commit: bool, producer_id: int = 1, epoch: int = 0, coordinator_epoch: int = 0) -> Appended:
    data = end_txn_marker(0, NOW, producer_id, epoch, commit, coordinator_epoch, 0)
    return log.append_as_leader(data, 0, NOW, AppendOrigin.COORDINATOR)


def test_a_retry_of_any_of_the_last_five_batches_is_answered_with_its_offsets(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    for sequence in range(0, 14, 2):
        send(log, sequence, "a", "b")
    for sequence in range(4, 14, 2):
        again = send(log, sequence, "a", "b")
        assert (again.first_offset, again.last_offset, again.is_duplicate) == (sequence, sequence + 1, True)
    assert log.end_offset == 14


def test_an_older_retry_is_out_of_order(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    for sequence in range(7):
        send(log, sequence)
    assert refused(log, 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_is_out_of_order(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    send(log, 0)
    assert refused(log, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_producer_that_the_partition_does_not_know_may_begin_anywhere(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    assert send(log, 17).first_offset == 0


def test_a_sequence_goes_round_after_its_largest_number(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    send(log, MAX_SEQUENCE - 1, "a", "b", "c")
    assert send(log, 1, "d").first_offset == 3
    assert send(log, MAX_SEQUENCE - 1, "a", "b", "c").is_duplicate


def test_a_new_epoch_begins_with_sequence_zero(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    send(log, 0)
    assert refused(log, 1, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 0, epoch=1).first_offset == 1


def test_an_older_epoch_is_fenced(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    send(log, 0, epoch=2)
    assert refused(log, 1, epoch=1) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_an_idle_producer_is_forgotten_and_one_with_an_open_transaction_is_not(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    send(log, 0, producer_id=1)
    send(log, 0, producer_id=2, transactional=True)
    assert log.producers.expire(NOW + log.producers.expiration_ms - 1) == 0
    assert log.producers.expire(NOW + log.producers.expiration_ms) == 1
    assert list(log.producers.by_id) == [2]


def test_state_survives_a_clean_restart_and_a_crash(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    for sequence in range(3):
        send(log, sequence)
    crashed = open_at(tmp_path)
    assert send(crashed, 2).is_duplicate
    crashed.close(NOW)
    restarted = open_at(tmp_path, clean=True)
    assert send(restarted, 2).is_duplicate
    assert send(restarted, 3).first_offset == 3


def test_an_open_transaction_holds_back_the_last_stable_offset_until_its_marker_is_replicated(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    send(log, 0, "before")
    log.append_as_leader(batch("in"), 0, NOW)
    send(log, 0, producer_id=2, transactional=True)
    log.append_as_leader(batch("after"), 0, NOW)
    log.advance_high_watermark(4)
    assert log.last_stable_offset == 2
    mark(log, commit=True, producer_id=2)
    assert log.last_stable_offset == 2
    log.advance_high_watermark(5)
    assert log.last_stable_offset == 5


def test_two_transactions_end_in_another_order_than_they_began(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    send(log, 0, producer_id=1, transactional=True)
    send(log, 0, producer_id=2, transactional=True)
    mark(log, commit=False, producer_id=2)
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 0
    mark(log, commit=False, producer_id=1)
    log.advance_high_watermark(4)
    assert log.last_stable_offset == 4
    aborted = log.aborted_txns_between(0, 4)
    assert [(txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset) for txn in aborted] == [
        (1, 0, 3, 4),
        (2, 1, 2, 0),
    ]


def test_a_write_outside_of_an_open_transaction_is_refused(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    send(log, 0, transactional=True)
    assert refused(log, 1, transactional=False) is ErrorCode.INVALID_TXN_STATE


def test_a_marker_of_an_older_coordinator_is_fenced(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    send(log, 0, transactional=True)
    mark(log, commit=True, coordinator_epoch=5)
    with pytest.raises(Refusal) as refusal:
        mark(log, commit=True, coordinator_epoch=4)
    assert refusal.value.error is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_marker_without_a_transaction_ends_nothing(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    mark(log, commit=False)
    assert log.aborted_txns_between(0, 10) == []
    assert log.producers.first_unstable_offset is None


def test_sequences_continue_after_a_transaction(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    send(log, 0, "a", transactional=True)
    mark(log, commit=True)
    send(log, 1, "b", transactional=True)
    assert values(log)[0] == "a"
    assert log.producers.first_open_txn_offset == 2


def test_an_open_transaction_is_still_open_after_a_restart(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    send(log, 0)
    send(log, 1, transactional=True)
    log.close(NOW)
    again = open_at(tmp_path, clean=True)
    again.advance_high_watermark(again.end_offset)
    assert again.last_stable_offset == 1
    mark(again, commit=False)
    assert [txn.first_offset for txn in again.aborted_txns_between(0, 10)] == [1]


def test_truncation_forgets_the_batches_it_takes(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    for sequence in range(4):
        send(log, sequence)
    log.truncate_to(2, NOW)
    assert not send(log, 2).is_duplicate
    assert log.end_offset == 3
