"""The sender's decisions: what goes into which request, and what each answer means for each batch."""

from contextlib import nullcontext

import pytest

from cordwood.client.cluster import Broker, Cluster, PartitionInfo, Topic, TopicPartition
from cordwood.client.errors import (
    BrokerError,
    ClientError,
    NetworkFailed,
    RecordTooLarge,
    TimedOut,
    UnsupportedByBroker,
)
from cordwood.client.producer.accumulator import Accumulator
from cordwood.client.producer.deliveries import Delivery
from cordwood.client.producer.identity import ProducerIdentity
from cordwood.client.producer.metrics import ProducerMetrics
from cordwood.client.producer.sending.sender import Attempt, Sender
from cordwood.client.producer.sending.sequences import Sequences
from cordwood.client.producer.settings import ProducerSettings
from cordwood.net.peers.backoff import Backoff
from cordwood.runtime.network import Address
from cordwood.runtime.randomness import SeededRandom
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from cordwood.wire.primitives import ZERO_UUID
from cordwood.wire.records import decode_batch, read_header

TOPIC_ID = bytes(range(16))
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
DELIVERY_TIMEOUT_S = 120.0


def cluster_of(leaders: tuple[int, ...], topic_id: bytes = TOPIC_ID) -> Cluster:
    partitions = tuple(
        PartitionInfo(index, leader, 1, (leader,), (leader,), ()) for index, leader in enumerate(leaders)
    )
    brokers = {number: Broker(number, Address("b", number)) for number in (1, 2)}
    return Cluster("id", 1, brokers, {"t": Topic("t", topic_id, False, partitions)})


class Bench:
    """A sender with its accumulator, on its own clock."""

    def __init__(self, settings: ProducerSettings | None = None, leaders: tuple[int, ...] = (1, 1)) -> None:
        # Two records of one byte to a batch.
        self.settings = settings if settings is not None else ProducerSettings(batch_size=97)
        self.now_s = 100.0
        self.cluster = cluster_of(leaders)
        self.accumulator = Accumulator(self.settings)
        self.metrics = ProducerMetrics(self.now_s)
        is_idempotent = self.settings.enable_idempotence and self.settings.acks == -1
        self.sequences = Sequences() if is_idempotent else None
        self.sender = Sender(
            self.settings,
            self.accumulator,
            sequences=self.sequences,
            transactions=None,
            lock=nullcontext(),
            backoff=Backoff(self.settings.retry_backoff_ms, self.settings.retry_backoff_max_ms, SeededRandom(1)),
            metrics=self.metrics,
        )
        if is_idempotent:
            self.sender.identified(ProducerIdentity(7, 0))

    def append(self, value: bytes, partition: TopicPartition = P0) -> Delivery:
        delivery = self.accumulator.append(partition, 1_000, None, value, (), self.now_s)
        assert delivery is not None
        return delivery

    def drain(self, broker: int = 1) -> Attempt:
        attempt = self.try_drain(broker)
        assert attempt is not None
        return attempt

    def try_drain(self, broker: int = 1) -> Attempt | None:
        self.sender.tick(self.now_s)
        return self.sender.drain(broker, self.cluster, self.now_s)

    def established(self, partition: TopicPartition = P0) -> None:
        """Brokers know the producer; from now on several batches may be in flight."""
        self.append(b"first", partition)
        answer(self, self.drain())

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.sender.tick(self.now_s)


def answer(bench: Bench, attempt: Attempt, code: ErrorCode = ErrorCode.NONE, **more: object) -> None:
    bench.sender.finish(attempt, response(attempt, code, **more), bench.now_s)


def response(attempt: Attempt, code: ErrorCode = ErrorCode.NONE, **more: object) -> ProduceResponse:
    told = [
        PartitionProduceResponse(index=partition.partition, error_code=code, base_offset=50, **more)  # type: ignore[arg-type]
        for partition in attempt.batches
    ]
    return ProduceResponse(responses=[TopicProduceResponse(name="t", topic_id=TOPIC_ID, partition_responses=told)])


def values(attempt: Attempt) -> list[bytes | None]:
    return [
        record.value
        for topic in attempt.request.topic_data
        for data in topic.partition_data
        for record in decode_batch(data.records)  # type: ignore[arg-type]
    ]


def numbers(attempt: Attempt) -> list[tuple[int, int]]:
    """Epoch and first sequence of each batch."""
    headers = [
        read_header(data.records)  # type: ignore[arg-type]
        for topic in attempt.request.topic_data
        for data in topic.partition_data
    ]
    return [(header.producer_epoch, header.base_sequence) for header in headers]


def outcome(delivery: Delivery) -> int | ClientError:
    return delivery.exception(0) or delivery.result(0).offset


# ---- requests


def test_a_request_has_one_batch_of_each_partition_that_its_broker_leads() -> None:
    bench = Bench(leaders=(1, 1, 2))
    for value, partition in ((b"a", 0), (b"b", 1), (b"c", 2)):
        bench.append(value, TopicPartition("t", partition))
    assert values(bench.drain(1)) == [b"a", b"b"]
    assert values(bench.drain(2)) == [b"c"]


def test_a_request_stays_within_its_size_and_the_rest_goes_next() -> None:
    bench = Bench(ProducerSettings(batch_size=1_000, max_request_size=1_000))
    bench.append(b"x" * 600, P0)
    bench.append(b"y" * 600, P1)
    assert list(bench.drain().batches) == [P0]
    assert list(bench.drain().batches) == [P1]


def test_a_topic_is_named_by_its_id_where_that_is_known_else_by_its_name() -> None:
    bench = Bench()
    bench.append(b"a")
    attempt = bench.drain()
    assert attempt.at_most is None
    assert attempt.request.topic_data[0].topic_id == TOPIC_ID
    bench.cluster = cluster_of((1, 1), ZERO_UUID)
    bench.append(b"b", P1)
    assert bench.drain().at_most == 12


# ---- answers


def test_every_record_of_a_batch_gets_its_offset() -> None:
    bench = Bench()
    deliveries = [bench.append(b"a"), bench.append(b"b")]
    answer(bench, bench.drain())
    assert [outcome(delivery) for delivery in deliveries] == [50, 51]
    assert bench.accumulator.pool.free_bytes == bench.accumulator.pool.total_bytes


def test_the_time_at_which_a_broker_wrote_a_record_is_its_timestamp() -> None:
    bench = Bench()
    delivery = bench.append(b"a")
    answer(bench, bench.drain(), log_append_time_ms=2_000)
    assert delivery.result(0).timestamp == 2_000


def test_a_broker_that_has_a_batch_already_has_delivered_it() -> None:
    bench = Bench()
    delivery = bench.append(b"a")
    answer(bench, bench.drain(), ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert outcome(delivery) == -1


def test_a_batch_refused_as_out_of_order_after_later_acknowledgements_is_written() -> None:
    bench = Bench()
    bench.established()
    unsure = bench.append(b"a")
    bench.append(b"b")
    bench.append(b"c")
    attempts = [bench.drain(), bench.drain()]
    answer(bench, attempts[0], ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    answer(bench, attempts[1])
    bench.wait(1)
    answer(bench, bench.drain(), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert outcome(unsure) == -1
    assert bench.sequences is not None
    bench.sender.tick(bench.now_s)
    assert bench.sequences.identity == ProducerIdentity(7, 0)


def test_with_acks_0_a_record_is_delivered_once_sent_without_an_offset() -> None:
    bench = Bench(ProducerSettings(acks=0))
    delivery = bench.append(b"a")
    bench.sender.finish(bench.drain(), None, bench.now_s)
    assert outcome(delivery) == -1


def test_retriable_errors_are_retried_with_a_growing_back_off() -> None:
    bench = Bench()
    delivery = bench.append(b"a")
    answer(bench, bench.drain(), ErrorCode.NOT_ENOUGH_REPLICAS)
    assert bench.try_drain() is None
    bench.wait(0.12)
    answer(bench, bench.drain(), ErrorCode.NOT_ENOUGH_REPLICAS)
    bench.wait(0.12)
    assert bench.try_drain() is None
    bench.wait(0.12)
    answer(bench, bench.drain())
    assert outcome(delivery) == 50


def test_a_batch_whose_answer_was_lost_is_sent_again_as_it_was() -> None:
    bench = Bench()
    bench.established()
    delivery = bench.append(b"a")
    first = bench.drain()
    bench.sender.finish(first, NetworkFailed("lost"), bench.now_s)
    bench.append(b"later")
    bench.wait(1)
    again = bench.drain()
    assert numbers(again) == numbers(first)
    assert values(again) == [b"a"]
    answer(bench, again)
    assert outcome(delivery) == 50


def test_a_leader_that_moved_is_requested_and_one_that_is_named_is_sent_to_at_once() -> None:
    bench = Bench()
    bench.append(b"a")
    attempt = bench.drain()
    told = response(
        attempt, ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=5)
    )
    told.node_endpoints = [NodeEndpoint(node_id=2, host="c", port=9)]
    news = bench.sender.finish(attempt, told, bench.now_s)
    assert bench.sender.wants_metadata
    assert news is not None
    bench.cluster = bench.cluster.led_by(news.leaders, news.brokers)
    assert bench.cluster.brokers[2].address == Address("c", 9)
    assert values(bench.drain(2)) == [b"a"]


def test_a_leader_hint_without_news_does_not_end_the_back_off() -> None:
    bench = Bench()
    bench.append(b"a")
    attempt = bench.drain()
    hint = LeaderIdAndEpoch(leader_id=1, leader_epoch=1)
    answer(bench, attempt, ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=hint)
    assert bench.try_drain() is None
    bench.wait(0.12)
    assert values(bench.drain()) == [b"a"]


def test_an_old_hint_does_not_lead_back_to_an_old_leader() -> None:
    cluster = cluster_of((1, 1))
    assert cluster.led_by({P0: (2, 1)}, []).leader(P0) == 1
    assert cluster.led_by({P0: (2, 2)}, []).leader(P0) == 2


def test_after_the_last_retry_the_error_is_raised() -> None:
    bench = Bench(ProducerSettings(retries=1))
    delivery = bench.append(b"a")
    answer(bench, bench.drain(), ErrorCode.NOT_ENOUGH_REPLICAS)
    bench.wait(1)
    answer(bench, bench.drain(), ErrorCode.NOT_ENOUGH_REPLICAS)
    error = outcome(delivery)
    assert isinstance(error, BrokerError)
    assert error.code == ErrorCode.NOT_ENOUGH_REPLICAS


def test_final_errors_fail_at_once_and_later_batches_use_a_new_epoch() -> None:
    bench = Bench()
    bench.established()
    refused = [bench.append(b"a"), bench.append(b"b")]
    following = bench.append(b"c")
    attempts = [bench.drain(), bench.drain()]
    answer(bench, attempts[0], ErrorCode.INVALID_TIMESTAMP, error_message="too old")
    answer(bench, attempts[1], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    for delivery in refused:
        assert "too old" in str(outcome(delivery))
    bench.wait(1)
    again = bench.drain()
    assert (values(again), numbers(again)) == ([b"c"], [(1, 0)])
    answer(bench, again)
    assert outcome(following) == 50


def test_batches_after_a_refused_possibly_written_one_are_not_duplicated() -> None:
    bench = Bench()
    bench.established()
    refused = [bench.append(b"a"), bench.append(b"b")]
    following = bench.append(b"c")
    for attempt in [bench.drain(), bench.drain()]:
        bench.sender.finish(attempt, NetworkFailed("lost"), bench.now_s)
    bench.wait(1)
    # The first time both may have been written, and only their answers been lost.
    answer(bench, bench.drain(), ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert isinstance(outcome(refused[0]), BrokerError)
    bench.wait(1)
    again = bench.drain()
    assert (values(again), numbers(again)) == ([b"c"], [(0, 3)])
    answer(bench, again, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert outcome(following) == -1


def test_refused_records_are_distinguished_from_others_in_their_batch() -> None:
    bench = Bench(ProducerSettings())
    deliveries = [bench.append(value) for value in (b"a", b"b", b"c")]
    refused = [BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="it has no key")]
    answer(bench, bench.drain(), ErrorCode.INVALID_RECORD, record_errors=refused)
    first, second, third = (str(outcome(delivery)) for delivery in deliveries)
    assert "it has no key" in second
    assert "another record" in first
    assert "another record" in third


def test_a_batch_that_is_too_large_is_sent_in_two_and_a_record_that_is_fails() -> None:
    bench = Bench()
    first, second = bench.append(b"a"), bench.append(b"b")
    whole = bench.drain()
    answer(bench, whole, ErrorCode.MESSAGE_TOO_LARGE)
    part = bench.drain()
    assert (values(part), numbers(part)) == ([b"a"], [(0, 0)])
    answer(bench, part)
    part = bench.drain()
    assert (values(part), numbers(part)) == ([b"b"], [(0, 1)])
    answer(bench, part, ErrorCode.MESSAGE_TOO_LARGE)
    assert outcome(first) == 50
    assert isinstance(outcome(second), RecordTooLarge)
    assert bench.accumulator.pool.free_bytes == bench.accumulator.pool.total_bytes


def test_a_response_without_a_requested_partition_is_not_an_answer() -> None:
    bench = Bench()
    delivery = bench.append(b"a")
    bench.sender.finish(bench.drain(), ProduceResponse(), bench.now_s)
    bench.wait(1)
    answer(bench, bench.drain())
    assert outcome(delivery) == 50


def test_a_broker_that_cannot_be_notified_is_not_notified_again() -> None:
    bench = Bench()
    delivery = bench.append(b"a")
    bench.sender.finish(bench.drain(), UnsupportedByBroker("too old"), bench.now_s)
    assert isinstance(outcome(delivery), UnsupportedByBroker)


# ---- order


def test_five_are_in_flight_and_one_that_fails_in_the_middle_is_written_in_its_place() -> None:
    bench = Bench()
    bench.established()
    for number in range(12):
        bench.append(b"%d" % number)
    attempts = [bench.drain() for _ in range(5)]
    assert bench.try_drain() is None, "a sixth could push out what the broker remembers of the first"
    written = [values(attempts[0])]
    answer(bench, attempts[0])
    answer(bench, attempts[1], ErrorCode.NOT_ENOUGH_REPLICAS)
    for refused in attempts[2:]:
        answer(bench, refused, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    bench.wait(1)
    for attempt in attempts[1:]:
        again = bench.drain()
        assert numbers(again) == numbers(attempt)
        assert bench.try_drain() is None, "what is sent again goes alone"
        written.append(values(again))
        answer(bench, again)
    written.append(values(bench.drain()))
    assert [value for batch in written for value in batch] == [b"%d" % number for number in range(12)]


def test_without_idempotence_order_is_kept_with_one_in_flight() -> None:
    bench = Bench(ProducerSettings(batch_size=97, enable_idempotence=False, max_in_flight_requests_per_connection=1))
    for value in (b"a", b"b", b"c"):
        bench.append(value)
    first = bench.drain()
    assert bench.try_drain() is None
    answer(bench, first, ErrorCode.NOT_ENOUGH_REPLICAS)
    bench.wait(1)
    assert values(bench.drain()) == [b"a", b"b"]


def test_without_idempotence_several_may_be_in_flight_and_have_no_numbers() -> None:
    bench = Bench(ProducerSettings(batch_size=97, acks=1))
    for value in (b"a", b"b", b"c"):
        bench.append(value)
    attempts = [bench.drain(), bench.drain()]
    assert [numbers(attempt) for attempt in attempts] == [[(-1, -1)], [(-1, -1)]]


# ---- time


def test_a_batch_that_is_refused_for_an_earlier_one_when_its_time_is_over_has_timed_out() -> None:
    bench = Bench()
    bench.established()
    given_up = bench.append(b"a")
    bench.append(b"b")
    attempts = [bench.drain()]
    bench.now_s += 1.0
    delivery = bench.append(b"c")
    attempts.append(bench.drain())
    for attempt in attempts:
        answer(bench, attempt, ErrorCode.KAFKA_STORAGE_ERROR)
    bench.now_s += DELIVERY_TIMEOUT_S - 1.0
    attempt = bench.drain()
    assert isinstance(outcome(given_up), TimedOut)
    assert values(attempt) == [b"c"]
    bench.now_s += 1.0
    answer(bench, attempt, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    error = outcome(delivery)
    assert isinstance(error, TimedOut)
    assert isinstance(error.__cause__, BrokerError)
    assert error.__cause__.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    bench.append(b"d")
    assert numbers(bench.drain()) == [(1, 0)]


def test_batches_waiting_past_the_delivery_timeout_fail() -> None:
    bench = Bench(leaders=(-1, 1))
    delivery = bench.append(b"a")
    bench.wait(DELIVERY_TIMEOUT_S)
    error = outcome(delivery)
    assert isinstance(error, TimedOut)
    assert "never sent" in str(error)


def test_batches_in_flight_time_out_and_keep_their_memory_until_the_request_ends() -> None:
    bench = Bench()
    delivery = bench.append(b"a")
    attempt = bench.drain()
    assert bench.sender.next_tick_s() == bench.now_s + bench.settings.request_timeout_ms / 1000
    bench.wait(DELIVERY_TIMEOUT_S)
    assert isinstance(outcome(delivery), TimedOut)
    assert bench.accumulator.pool.free_bytes < bench.accumulator.pool.total_bytes
    answer(bench, attempt)
    assert isinstance(outcome(delivery), TimedOut), "it is told once"
    assert bench.accumulator.pool.free_bytes == bench.accumulator.pool.total_bytes


def test_no_batch_follows_an_abandoned_unresolved_one_in_the_same_epoch() -> None:
    bench = Bench()
    bench.established()
    bench.append(b"a")
    attempt = bench.drain()
    bench.wait(DELIVERY_TIMEOUT_S)
    bench.append(b"b")
    assert bench.try_drain() is None, "it may yet be written"
    bench.sender.finish(attempt, NetworkFailed("lost"), bench.now_s)
    following = bench.drain()
    assert (values(following), numbers(following)) == ([b"b"], [(1, 0)])


def test_a_retry_that_comes_too_late_is_not_made() -> None:
    bench = Bench()
    delivery = bench.append(b"a")
    attempt = bench.drain()
    bench.now_s += DELIVERY_TIMEOUT_S
    answer(bench, attempt, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert isinstance(outcome(delivery), BrokerError)


def test_an_answer_is_overdue_after_the_request_timeout() -> None:
    bench = Bench()
    bench.append(b"a")
    attempt = bench.drain()
    bench.now_s += bench.settings.request_timeout_ms / 1000 - 1
    assert bench.sender.overdue(bench.now_s) == []
    bench.now_s += 1
    assert bench.sender.overdue(bench.now_s) == [attempt]


@pytest.mark.parametrize("in_flight", [True, False])
def test_a_producer_that_is_closed_early_reports_every_record_once(in_flight: bool) -> None:
    bench = Bench()
    delivery = bench.append(b"a")
    attempt = bench.drain() if in_flight else None
    bench.sender.abandon_all(ClientError("closed"), bench.now_s)
    assert str(outcome(delivery)) == "closed"
    if attempt is not None:
        answer(bench, attempt)
    assert bench.accumulator.pool.free_bytes == bench.accumulator.pool.total_bytes
