"""Sequence numbers of an idempotent producer: what may go when, and when another epoch is needed."""

import pytest

from cordwood.client.cluster import TopicPartition
from cordwood.client.producer.batch import Packing, ProducerBatch
from cordwood.client.producer.identity import ProducerIdentity
from cordwood.client.producer.sending.sequences import MAX_IN_FLIGHT, Sequences
from cordwood.wire.errors import ErrorCode

P0 = TopicPartition("t", 0)
P1 = TopicPartition("t", 1)
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
UNKNOWN_PRODUCER = ErrorCode.UNKNOWN_PRODUCER_ID
LAST_SEQUENCE = 2**31 - 1


def batch(records: int = 10, partition: TopicPartition = P0) -> ProducerBatch:
    made = ProducerBatch(partition, Packing(1 << 20), 0.0, (0,), 0)
    for _ in range(records):
        made.append(0, None, b"value", ())
    return made


def identified(*, transactional: bool = False, epoch: int = 0) -> Sequences:
    sequences = Sequences(transactional=transactional)
    sequences.identified(ProducerIdentity(7, epoch))
    return sequences


def sent(sequences: Sequences, *batches: ProducerBatch) -> None:
    for each in batches:
        assert sequences.may_send(each.partition)
        sequences.sent(each)


def established(sequences: Sequences) -> None:
    """The brokers know the producer: ten records are written, sequences 0 to 9."""
    first = batch()
    sent(sequences, first)
    sequences.completed(first, 0)


def test_nothing_is_sent_without_an_id() -> None:
    assert not Sequences().may_send(P0)


def test_sequences_of_a_partition_follow_each_other_without_a_gap() -> None:
    sequences = identified()
    established(sequences)
    second, third, elsewhere = batch(5), batch(1), batch(3, P1)
    sent(sequences, second, third, elsewhere)
    assert (second.base_sequence, third.base_sequence, elsewhere.base_sequence) == (10, 15, 0)
    assert second.identity == elsewhere.identity == ProducerIdentity(7, 0)


def test_the_first_batch_goes_alone() -> None:
    sequences = identified()
    first = batch()
    sent(sequences, first)
    assert not sequences.may_send(P0)
    sequences.completed(first, 0)
    assert sequences.may_send(P0)


def test_five_batches_of_a_partition_are_in_flight_at_most() -> None:
    sequences = identified()
    established(sequences)
    sent(sequences, *[batch() for _ in range(MAX_IN_FLIGHT)])
    assert not sequences.may_send(P0)
    assert sequences.may_send(P1)


def test_no_new_batch_may_push_the_oldest_out_of_the_brokers_memory() -> None:
    sequences = identified()
    established(sequences)
    oldest = batch()
    # Its answer does not come; those of others, who were sent to the next leader, do.
    sent(sequences, oldest)
    for number in range(1, MAX_IN_FLIGHT):
        following = batch()
        sent(sequences, following)
        sequences.completed(following, 10 * number)
    assert not sequences.may_send(P0)
    sequences.returned(oldest)
    sent(sequences, oldest)
    assert not sequences.may_send(P0)
    sequences.completed(oldest, 10)
    assert sequences.may_send(P0)


def test_retries_go_alone() -> None:
    sequences = identified()
    established(sequences)
    second = batch()
    sent(sequences, second)
    sequences.returned(second)
    sent(sequences, second)
    assert not sequences.may_send(P0)
    sequences.completed(second, 10)
    assert sequences.may_send(P0)


def test_retries_keep_their_sequence_and_come_first() -> None:
    sequences = identified()
    established(sequences)
    second, third = batch(), batch()
    sent(sequences, second, third)
    sequences.returned(third)
    assert not sequences.may_send(P0), "the second is still on its way"
    sequences.returned(second)
    sent(sequences, second)
    assert second.base_sequence == 10
    assert not sequences.may_send(P0), "the third comes after the second is done"
    sequences.completed(second, 10)
    sent(sequences, third)
    assert third.base_sequence == 20


def test_a_batch_refused_after_its_predecessor_is_retried() -> None:
    sequences = identified()
    established(sequences)
    second, third = batch(), batch()
    sent(sequences, second, third)
    assert sequences.may_retry(third, OUT_OF_ORDER, -1)
    sequences.returned(third)
    sequences.settle()
    assert sequences.identity == ProducerIdentity(7, 0)


def test_the_next_batch_refused_as_out_of_order_is_renumbered_in_a_new_epoch() -> None:
    sequences = identified()
    established(sequences)
    second, third = batch(), batch()
    sent(sequences, second, third)
    assert sequences.may_retry(second, OUT_OF_ORDER, -1)
    sequences.returned(second)
    sequences.settle()
    assert sequences.identity == ProducerIdentity(7, 0), "the third may yet be written under its old number"
    assert not sequences.may_send(P0)
    assert sequences.may_retry(third, OUT_OF_ORDER, -1)
    sequences.returned(third)
    sequences.settle()
    assert sequences.identity == ProducerIdentity(7, 1)
    assert (second.identity, second.base_sequence) == (ProducerIdentity(7, 1), 0)
    assert (third.identity, third.base_sequence) == (ProducerIdentity(7, 1), 10)


def after_a_restart(sequences: Sequences) -> tuple[ProducerBatch, ProducerBatch, ProducerBatch]:
    """Three whose answers were lost; the broker refuses the first of them."""
    batches = batch(), batch(), batch()
    sent(sequences, *batches)
    for one in batches:
        sequences.returned(one)
    sequences.sent(batches[0])
    assert sequences.may_retry(batches[0], OUT_OF_ORDER, -1)
    sequences.returned(batches[0])
    sequences.settle()
    return batches


def test_a_refused_batch_that_may_be_written_is_settled_by_a_later_one() -> None:
    """A broker that was restarted remembers only the last batch that it wrote."""
    sequences = identified()
    established(sequences)
    first, second, third = after_a_restart(sequences)
    assert sequences.identity == ProducerIdentity(7, 0)
    assert sequences.to_be_tried() == [second]
    sequences.sent(second)
    assert not sequences.may_send(P0)
    assert sequences.may_retry(second, OUT_OF_ORDER, -1)
    sequences.returned(second)
    sequences.settle()
    assert sequences.to_be_tried() == [third]
    sequences.sent(third)
    sequences.completed(third, 30)
    assert sequences.to_be_tried() == []
    assert sequences.is_surely_written(first)
    assert sequences.is_surely_written(second)
    assert sequences.identity == ProducerIdentity(7, 0)


def test_nothing_is_written_if_all_batches_are_refused() -> None:
    sequences = identified()
    established(sequences)
    first, *others = after_a_restart(sequences)
    for other in others:
        assert sequences.to_be_tried() == [other]
        sequences.sent(other)
        assert sequences.may_retry(other, OUT_OF_ORDER, -1)
        sequences.returned(other)
        sequences.settle()
    assert [one.base_sequence for one in (first, *others)] == [0, 10, 20]
    assert first.identity == ProducerIdentity(7, 1)


def test_another_epoch_lets_the_other_partitions_finish_in_theirs() -> None:
    sequences = identified()
    established(sequences)
    established_elsewhere = batch(10, P1)
    sent(sequences, established_elsewhere)
    sequences.completed(established_elsewhere, 0)
    elsewhere = batch(10, P1)
    refused = batch()
    sent(sequences, elsewhere, refused)
    sequences.failed(refused, surely_not_written=True)
    sequences.settle()
    assert sequences.identity == ProducerIdentity(7, 1)
    assert not sequences.may_send(P1), "a batch of the old epoch is on its way"
    sequences.completed(elsewhere, 10)
    following = batch(10, P1)
    sent(sequences, following)
    assert (following.identity, following.base_sequence) == (ProducerIdentity(7, 1), 0)


def test_a_batch_that_is_refused_for_good_leaves_no_gap_in_the_sequences_after_it() -> None:
    sequences = identified()
    established(sequences)
    refused, following = batch(), batch()
    sent(sequences, refused, following)
    sequences.failed(refused, surely_not_written=True)
    assert sequences.may_retry(following, OUT_OF_ORDER, -1)
    sequences.returned(following)
    sequences.settle()
    assert (following.identity, following.base_sequence) == (ProducerIdentity(7, 1), 0)


def test_an_abandoned_batch_that_was_written_costs_no_epoch() -> None:
    sequences = identified()
    established(sequences)
    given_up, following = batch(), batch()
    sent(sequences, given_up, following)
    sequences.failed(given_up, surely_not_written=False)
    assert not sequences.may_send(P0), "nobody knows yet which number is next"
    sequences.completed(following, 20)
    sequences.settle()
    assert sequences.identity == ProducerIdentity(7, 0)
    assert sequences.may_send(P0)


def test_an_abandoned_possibly_unwritten_batch_costs_an_epoch() -> None:
    sequences = identified()
    established(sequences)
    given_up = batch()
    sent(sequences, given_up)
    sequences.failed(given_up, surely_not_written=False)
    sequences.settle()
    assert sequences.identity == ProducerIdentity(7, 1)


def test_an_answer_that_comes_after_its_batch_was_given_up_still_counts() -> None:
    sequences = identified()
    established(sequences)
    given_up = batch()
    sent(sequences, given_up)
    sequences.failed(given_up, surely_not_written=False, still_on_wire=True)
    sequences.settle()
    assert sequences.identity == ProducerIdentity(7, 0), "its answer may yet come"
    sequences.completed(given_up, 10)
    sequences.settle()
    assert sequences.identity == ProducerIdentity(7, 0)
    assert sequences.may_send(P0)


def test_a_refused_successor_shows_that_an_abandoned_batch_was_not_written() -> None:
    sequences = identified()
    established(sequences)
    given_up, following = batch(), batch()
    sent(sequences, given_up, following)
    sequences.failed(given_up, surely_not_written=False)
    assert sequences.may_retry(following, OUT_OF_ORDER, -1)
    sequences.returned(following)
    sequences.settle()
    assert (following.identity, following.base_sequence) == (ProducerIdentity(7, 1), 0)


def test_the_producer_bumps_its_epoch_for_a_broker_that_has_lost_its_state() -> None:
    sequences = identified()
    established(sequences)
    second = batch()
    sent(sequences, second)
    assert sequences.may_retry(second, UNKNOWN_PRODUCER, 10)
    sequences.returned(second)
    sequences.settle()
    assert (second.identity, second.base_sequence) == (ProducerIdentity(7, 1), 0)


def test_a_broker_that_does_not_know_where_its_log_begins_is_asked_again() -> None:
    sequences = identified()
    established(sequences)
    second = batch()
    sent(sequences, second)
    assert sequences.may_retry(second, UNKNOWN_PRODUCER, -1)
    sequences.returned(second)
    sequences.settle()
    assert second.base_sequence == 10


def test_after_the_last_epoch_another_id_is_requested() -> None:
    sequences = identified(epoch=2**15 - 1)
    established(sequences)
    refused, following = batch(), batch()
    sent(sequences, refused, following)
    sequences.failed(refused, surely_not_written=True)
    sequences.returned(following)
    sequences.settle()
    assert sequences.identity is None
    assert not sequences.may_send(P1)
    sequences.identified(ProducerIdentity(8, 0))
    assert (following.identity, following.base_sequence) == (ProducerIdentity(8, 0), 0)
    assert sequences.may_send(P0)


def test_the_parts_of_a_batch_share_its_numbers_and_take_its_place() -> None:
    sequences = identified()
    established(sequences)
    large, following = batch(10), batch()
    sent(sequences, large, following)
    parts = large.split()
    sequences.split(large, parts)
    sequences.returned(following)
    first, second = parts
    assert first.base_sequence == 10
    assert second.base_sequence == 10 + first.record_count
    for each in (first, second, following):
        sent(sequences, each)
        sequences.completed(each, each.base_sequence)
    sequences.settle()
    assert sequences.identity == ProducerIdentity(7, 0)


def test_a_retriable_code_is_retried_and_another_is_not() -> None:
    sequences = identified()
    established(sequences)
    second = batch()
    sent(sequences, second)
    assert sequences.may_retry(second, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert not sequences.may_retry(second, ErrorCode.INVALID_RECORD, -1)
    assert not sequences.may_retry(second, ErrorCode.INVALID_PRODUCER_EPOCH, -1)


# ---- in a transaction


def test_a_transaction_does_not_outlive_a_gap() -> None:
    sequences = identified(transactional=True)
    established(sequences)
    second = batch()
    sent(sequences, second)
    assert not sequences.may_retry(second, OUT_OF_ORDER, -1)
    sequences.failed(second, surely_not_written=True)
    sequences.settle()
    assert sequences.identity == ProducerIdentity(7, 0), "its epochs are the coordinator's to give"
    assert not sequences.may_send(P0)
    sequences.identified(ProducerIdentity(7, 1))
    following = batch()
    sent(sequences, following)
    assert (following.identity, following.base_sequence) == (ProducerIdentity(7, 1), 0)


def test_a_transaction_continues_from_0_after_retention_deleted_its_records() -> None:
    sequences = identified(transactional=True)
    established(sequences)
    second = batch()
    sent(sequences, second)
    assert sequences.may_retry(second, UNKNOWN_PRODUCER, 10), "offsets 0 to 9 were deleted"
    sequences.returned(second)
    sequences.settle()
    assert (second.identity, second.base_sequence) == (ProducerIdentity(7, 0), 0)
    assert sequences.may_send(P0)


def test_a_transaction_whose_own_records_are_lost_is_not_continued() -> None:
    sequences = identified(transactional=True)
    established(sequences)
    second = batch()
    sent(sequences, second)
    assert not sequences.may_retry(second, UNKNOWN_PRODUCER, 5)


def test_sequences_restart_under_a_new_identity_and_continue_under_the_same() -> None:
    sequences = identified(transactional=True)
    established(sequences)
    second = batch()
    sent(sequences, second)
    assert second.base_sequence == 10
    sequences.completed(second, 10)
    sequences.identified(ProducerIdentity(7, 1))
    third = batch()
    sent(sequences, third)
    assert third.base_sequence == 0


@pytest.mark.parametrize("records", [1, 10])
def test_numbers_after_the_last_begin_at_0(records: int) -> None:
    sequences = identified()
    # Too many records to send in a test.
    first = batch(records)
    sent(sequences, first)
    sequences.completed(first, 0)
    sequences._partitions[P0].next_sequence = sequences._partitions[P0].acknowledged = LAST_SEQUENCE - records + 1
    last, following = batch(records), batch(3)
    sent(sequences, last, following)
    assert following.base_sequence == 0
    sequences.completed(last, 0)
    sequences.completed(following, 0)
    sequences.settle()
    assert sequences._partitions[P0].acknowledged == 3
