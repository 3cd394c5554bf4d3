"""What a reader asks for next, and what it makes of an answer."""

import pytest

from cordwood.client.cluster import Broker, Cluster, Partition, Topic, TopicPartition
from cordwood.client.errors import BadAnswer, BrokerError
from cordwood.client.fetch_plan import Answer, FetchPlan
from cordwood.runtime.network import Address
from cordwood.wire.control import end_txn_marker
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import AbortedTransaction, FetchableTopicResponse, FetchResponse, PartitionData
from cordwood.wire.record import Record
from cordwood.wire.records import encode_batch

ID = bytes(range(16))
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
CLUSTER = Cluster(
    brokers={1: Broker(1, Address("h", 1))},
    topics={"t": Topic("t", ID, False, tuple(Partition(index, 1, 3, (1,), (1,), ()) for index in (0, 1)))},
)


def batch(*offsets: int, producer: int = -1) -> bytearray:
    records = [Record(offset, 1000 + offset, None, b"%d" % offset) for offset in offsets]
    if producer < 0:
        return encode_batch(records)
    return encode_batch(records, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)


def marker(offset: int, producer: int, *, commit: bool) -> bytearray:
    return end_txn_marker(offset, 0, producer, 0, commit, 0, 0)


def told(
    records: bytes | bytearray | None,
    *,
    partition: int = 0,
    end: int = 1000,
    stable: int = 1000,
    error: int = 0,
    aborted: list[tuple[int, int]] | None = None,
) -> PartitionData:
    return PartitionData(
        partition_index=partition,
        error_code=error,
        high_watermark=end,
        last_stable_offset=stable,
        records=records,
        aborted_transactions=[
            AbortedTransaction(producer_id=producer, first_offset=first) for producer, first in aborted or []
        ],
    )


def response(*partitions: PartitionData) -> FetchResponse:
    return FetchResponse(responses=[FetchableTopicResponse(topic_id=ID, partitions=list(partitions))])


def offsets(answer: Answer) -> list[int]:
    return [record.offset for fetched in answer.fetched for record in fetched.records]


def test_a_request_asks_from_where_we_stand_with_the_leaders_epoch() -> None:
    request = FetchPlan({P0: 5, P1: 9}).request([P0, P1], CLUSTER)
    (topic,) = request.topics
    assert (topic.topic, topic.topic_id) == ("t", ID)
    assert [(p.partition, p.fetch_offset, p.current_leader_epoch) for p in topic.partitions] == [(0, 5, 3), (1, 9, 3)]
    # No session: each request says all there is to say.
    assert (request.session_id, request.session_epoch) == (0, -1)


def test_an_answer_moves_us_past_its_batches() -> None:
    plan = FetchPlan({P0: 0})
    assert offsets(plan.take(response(told(batch(0, 1) + batch(2, 3))), CLUSTER)) == [0, 1, 2, 3]
    assert plan.positions[P0] == 4


def test_a_batch_that_begins_before_us_gives_only_its_later_records() -> None:
    plan = FetchPlan({P0: 2})
    assert offsets(plan.take(response(told(batch(0, 1, 2, 3))), CLUSTER)) == [2, 3]


def test_a_batch_that_is_cut_waits_for_the_next_answer() -> None:
    plan = FetchPlan({P0: 0})
    assert offsets(plan.take(response(told(batch(0, 1) + batch(2, 3)[:-1])), CLUSTER)) == [0, 1]
    assert plan.positions[P0] == 2


def test_an_error_leaves_us_where_we_are() -> None:
    plan = FetchPlan({P0: 7})
    answer = plan.take(response(told(None, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)), CLUSTER)
    assert answer.errors[P0].code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert plan.positions[P0] == 7


def test_an_error_of_the_whole_answer_is_raised() -> None:
    with pytest.raises(BrokerError, match="KAFKA_STORAGE_ERROR"):
        FetchPlan({P0: 7}).take(FetchResponse(error_code=ErrorCode.KAFKA_STORAGE_ERROR), CLUSTER)


def test_damaged_records_are_told_and_not_given() -> None:
    damaged = batch(0, 1)
    # A byte of the last value: only the checksum can tell.
    damaged[-2] ^= 1
    with pytest.raises(BadAnswer, match="t-0 at offset 0"):
        FetchPlan({P0: 0}).take(response(told(damaged)), CLUSTER)


def test_a_partition_is_done_at_its_end_and_gives_nothing_behind_it() -> None:
    plan = FetchPlan({P0: 0, P1: 0}, {P0: 3, P1: 9})
    assert offsets(plan.take(response(told(batch(0, 1, 2, 3, 4))), CLUSTER)) == [0, 1, 2]
    assert list(plan.left) == [P1]


def test_a_partition_that_begins_at_its_end_is_not_asked_for() -> None:
    assert list(FetchPlan({P0: 3, P1: 0}, {P0: 3, P1: 1}).left) == [P1]


def test_an_end_that_compaction_emptied_is_reached() -> None:
    plan = FetchPlan({P0: 5}, {P0: 8})
    plan.take(response(told(b"", end=8)), CLUSTER)
    assert not plan.left


def test_a_partition_that_got_no_room_in_an_answer_is_not_at_its_end() -> None:
    plan = FetchPlan({P0: 5, P1: 0}, {P0: 8, P1: 8})
    plan.take(response(told(b"", end=8), told(batch(0), partition=1, end=8)), CLUSTER)
    assert set(plan.left) == {P0, P1}


def test_an_end_that_is_not_committed_yet_is_waited_for() -> None:
    plan = FetchPlan({P0: 5}, {P0: 8})
    plan.take(response(told(b"", end=7)), CLUSTER)
    assert list(plan.left) == [P0]


def test_who_was_not_in_an_answer_is_asked_for_first() -> None:
    plan = FetchPlan({P0: 0, P1: 0})
    plan.take(response(told(batch(0))), CLUSTER)
    assert list(plan.left) == [P1, P0]


def test_control_records_are_passed_over() -> None:
    plan = FetchPlan({P0: 0})
    assert offsets(plan.take(response(told(batch(0, producer=5) + marker(1, 5, commit=True) + batch(2))), CLUSTER)) == [
        0,
        2,
    ]
    assert plan.positions[P0] == 3


def test_read_committed_leaves_out_what_was_aborted_and_nothing_else() -> None:
    content = (
        batch(0, producer=5)
        + batch(1, producer=6)
        + marker(2, 5, commit=False)
        + batch(3, producer=5)
        + marker(4, 5, commit=True)
        + marker(5, 6, commit=True)
        + batch(6)
    )
    plan = FetchPlan({P0: 0}, read_committed=True)
    assert offsets(plan.take(response(told(content, aborted=[(5, 0)])), CLUSTER)) == [1, 3, 6]
    assert plan.positions[P0] == 7


def test_read_uncommitted_gives_what_was_aborted() -> None:
    content = batch(0, producer=5) + marker(1, 5, commit=False)
    plan = FetchPlan({P0: 0})
    assert offsets(plan.take(response(told(content, aborted=[(5, 0)])), CLUSTER)) == [0]


def test_two_aborted_transactions_of_one_producer_are_told_apart() -> None:
    content = (
        batch(0, producer=5)
        + marker(1, 5, commit=False)
        + batch(2, producer=5)
        + marker(3, 5, commit=True)
        + batch(4, producer=5)
        + marker(5, 5, commit=False)
    )
    plan = FetchPlan({P0: 0}, read_committed=True)
    assert offsets(plan.take(response(told(content, aborted=[(5, 4), (5, 0)])), CLUSTER)) == [2]


def test_only_a_reader_of_committed_records_asks_for_them() -> None:
    levels = [
        FetchPlan({P0: 0}, read_committed=wanted).request([P0], CLUSTER).isolation_level for wanted in (False, True)
    ]
    assert levels == [0, 1]
