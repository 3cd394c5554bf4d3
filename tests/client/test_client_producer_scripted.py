"""The producer's calls, against a broker that answers as the test says: waiting, closing, interceptors, connections."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from model_partition import ModelPartition, answer, records_of
from scripted_broker import TOPIC_ID, Cut, ScriptedBroker, scripted_brokers

from cordwood.client.errors import (
    BadSetting,
    BrokerError,
    BufferExhausted,
    CannotReachCluster,
    ClientError,
    Closed,
    IllegalState,
    RecordTooLarge,
    SerializationFailed,
    TimedOut,
    TopicNotFound,
)
from cordwood.client.producer.deliveries import Delivery, RecordMetadata
from cordwood.client.producer.interceptors import ProducerRecord
from cordwood.client.producer.producer import Producer
from cordwood.client.producer.settings import ProducerSettings
from cordwood.runtime.network import Address
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.connection import NetworkOdds
from cordwood.sim.world import World
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.api_versions import ApiVersionsRequest
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from cordwood.wire.messages.metadata import MetadataRequest
from cordwood.wire.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse
from cordwood.wire.records import decode_batch


class Stage:
    """One broker with a partition, and a producer."""

    def __init__(self, world: World, broker: ScriptedBroker) -> None:
        self.world = world
        self.broker = broker
        self.partition = ModelPartition()
        broker.answers[ProduceRequest.api_key] = self.produce
        broker.answers[InitProducerIdRequest.api_key] = lambda request, version: InitProducerIdResponse(producer_id=7)

    def produce(self, request: ProduceRequest, version: int) -> ProduceResponse:
        (topic,) = request.topic_data
        (data,) = topic.partition_data
        code, offset = self.partition.append(records_of(data))
        return answer(
            request, {(topic.name, 0): PartitionProduceResponse(index=0, error_code=code, base_offset=offset)}
        )

    def stall(self) -> None:
        """Produce requests are read, and never answered."""
        self.broker.answers[ProduceRequest.api_key] = lambda request, version: None

    def recover(self) -> None:
        self.broker.answers[ProduceRequest.api_key] = self.produce

    def new_producer(self, **settings: Any) -> Producer:
        return Producer(
            ProducerSettings(**settings),
            [self.broker.address],
            network=self.world.network.host("client"),
            clock=self.world.clock,
            random=SeededRandom(1),
        )

    @asynccontextmanager
    async def producer(self, **settings: Any) -> AsyncIterator[Producer]:
        producer = self.new_producer(**settings)
        await producer.start()
        try:
            yield producer
        finally:
            await producer.close(0)


def play(scene: Callable[[Stage], Awaitable[None]]) -> None:
    world = World(1, odds=NetworkOdds(slow=0.0), limit_s=10_000)

    async def main() -> None:
        async with scripted_brokers(1, world) as brokers:
            await scene(Stage(world, brokers[0]))

    world.run(main())


# ---- sending


def test_records_without_a_pause_between_go_together_and_come_in_order() -> None:
    async def scene(stage: Stage) -> None:
        async with stage.producer() as producer:
            deliveries = [await producer.send("t", b"%d" % number) for number in range(500)]
            offsets = [(await delivery).offset for delivery in deliveries]
        assert offsets == list(range(500))
        assert stage.partition.values == [b"%d" % number for number in range(500)]
        assert len(stage.broker.seen_of(ProduceRequest)) < 5

    play(scene)


def test_a_record_waits_for_others_as_long_as_linger_says() -> None:
    async def scene(stage: Stage) -> None:
        loop = asyncio.get_running_loop()
        async with stage.producer(linger_ms=2_000) as producer:
            await producer.partitions_for("t")
            began_s = loop.time()
            await producer.send_and_wait("t", b"x")
            assert 2.0 <= loop.time() - began_s < 2.1

    play(scene)


def test_flush_sends_at_once_what_lingers_and_returns_when_it_is_delivered() -> None:
    async def scene(stage: Stage) -> None:
        loop = asyncio.get_running_loop()
        async with stage.producer(linger_ms=60_000) as producer:
            delivery = await producer.send("t", b"x")
            began_s = loop.time()
            await producer.flush()
            assert delivery.done()
            assert loop.time() - began_s < 1

    play(scene)


def test_flush_gives_up_after_its_time_and_what_it_waited_for_is_still_delivered() -> None:
    async def scene(stage: Stage) -> None:
        stage.stall()
        async with stage.producer() as producer:
            delivery = await producer.send("t", b"x")
            with pytest.raises(TimedOut):
                await producer.flush(1)
            stage.recover()
            assert (await delivery).offset == 0

    play(scene)


def test_a_broker_that_does_not_answer_is_left_after_the_request_timeout_and_asked_again() -> None:
    async def scene(stage: Stage) -> None:
        loop = asyncio.get_running_loop()
        async with stage.producer(request_timeout_ms=3_000) as producer:
            await producer.send_and_wait("t", b"a")
            stage.stall()
            began_s = loop.time()
            delivery = await producer.send("t", b"b")
            await asyncio.sleep(1)
            stage.recover()
            assert (await delivery).offset == 1
            assert 3 <= loop.time() - began_s < 5
        assert stage.partition.values == [b"a", b"b"]

    play(scene)


def test_a_broker_that_takes_nothing_is_left_after_the_request_timeout_though_no_answer_is_awaited() -> None:
    async def scene(stage: Stage) -> None:
        stage.stall()
        async with stage.producer(acks=0, enable_idempotence=False, request_timeout_ms=5_000) as producer:
            await producer.send_and_wait("t", b"before")
            connected = len(stage.broker.seen_of(ApiVersionsRequest))
            stage.world.network.cut("client")
            for _ in range(40):
                await producer.send("t", b"x" * 90_000)
            await asyncio.sleep(6)
            stage.world.network.heal("client")
            await producer.flush()
            assert len(stage.broker.seen_of(ApiVersionsRequest)) > connected

    play(scene)


def test_a_batch_that_was_written_before_the_connection_was_lost_is_not_written_again() -> None:
    async def scene(stage: Stage) -> None:
        cuts = 3

        def produce(request: ProduceRequest, version: int) -> ProduceResponse:
            nonlocal cuts
            response = stage.produce(request, version)
            if cuts:
                cuts -= 1
                raise Cut
            return response

        stage.broker.answers[ProduceRequest.api_key] = produce
        async with stage.producer() as producer:
            assert (await producer.send_and_wait("t", b"a")).offset == 0
            assert (await producer.send_and_wait("t", b"b")).offset == 1
        assert stage.partition.values == [b"a", b"b"]

    play(scene)


def test_a_broker_that_is_over_its_quota_is_not_sent_to_for_as_long_as_it_says() -> None:
    async def scene(stage: Stage) -> None:
        loop = asyncio.get_running_loop()

        def produce(request: ProduceRequest, version: int) -> ProduceResponse:
            response = stage.produce(request, version)
            response.throttle_time_ms = 5_000
            return response

        stage.broker.answers[ProduceRequest.api_key] = produce
        async with stage.producer() as producer:
            await producer.send_and_wait("t", b"a")
            began_s = loop.time()
            await producer.send_and_wait("t", b"b")
            assert loop.time() - began_s >= 4.9
            assert producer.metrics()["produce-throttle-time-max"] == 5_000

    play(scene)


def test_a_record_that_is_not_delivered_in_time_fails_and_the_next_is_delivered() -> None:
    async def scene(stage: Stage) -> None:
        stage.stall()
        async with stage.producer(delivery_timeout_ms=10_000, request_timeout_ms=4_000) as producer:
            with pytest.raises(TimedOut, match="delivery_timeout_ms"):
                await producer.send_and_wait("t", b"a")
            stage.recover()
            assert (await producer.send_and_wait("t", b"b")).offset == 0
        assert stage.partition.values == [b"b"]

    play(scene)


def test_who_has_no_right_to_an_id_hears_of_it_and_may_have_it_later() -> None:
    async def scene(stage: Stage) -> None:
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        stage.broker.answers[InitProducerIdRequest.api_key] = lambda request, version: InitProducerIdResponse(
            error_code=code, producer_id=7
        )
        async with stage.producer() as producer:
            with pytest.raises(BrokerError, match="CLUSTER_AUTHORIZATION_FAILED"):
                await producer.send_and_wait("t", b"a")
            code = ErrorCode.NONE
            assert (await producer.send_and_wait("t", b"b")).offset == 0

    play(scene)


def test_brokers_before_topic_ids_are_told_topics_by_name() -> None:
    async def scene(stage: Stage) -> None:
        stage.broker.max_versions = {ProduceRequest.api_key: 9, MetadataRequest.api_key: 9}
        async with stage.producer() as producer:
            assert (await producer.send_and_wait("t", b"a")).offset == 0
        produced = [(request, version) for request, version in stage.broker.seen if isinstance(request, ProduceRequest)]
        assert [(request.topic_data[0].name, version) for request, version in produced] == [("t", 9)]

    play(scene)


def test_newer_brokers_are_told_topics_by_id() -> None:
    async def scene(stage: Stage) -> None:
        async with stage.producer() as producer:
            await producer.send_and_wait("t", b"a")
        (request,) = stage.broker.seen_of(ProduceRequest)
        assert request.topic_data[0].topic_id == TOPIC_ID

    play(scene)


# ---- waiting


def test_a_topic_that_does_not_come_is_waited_for_no_longer_than_max_block_ms() -> None:
    async def scene(stage: Stage) -> None:
        loop = asyncio.get_running_loop()
        async with stage.producer(max_block_ms=2_000) as producer:
            began_s = loop.time()
            with pytest.raises(TimedOut, match=r"topic other: there is no such topic after 2 s \(max_block_ms\)"):
                await producer.send("other", b"x")
            assert loop.time() - began_s == pytest.approx(2.0, abs=0.01)

    play(scene)


def test_a_topic_that_is_not_there_and_not_created_is_not_found_and_what_helps_is_told() -> None:
    async def scene(stage: Stage) -> None:
        async with stage.producer(max_block_ms=2_000) as producer:
            with pytest.raises(TopicNotFound) as raised:
                await producer.send("other", b"x")
            assert raised.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert raised.value.what_to_do is not None
            assert "auto.create.topics.enable" in raised.value.what_to_do

    play(scene)


def test_who_comes_later_waits_for_a_topic_as_long_as_who_came_first() -> None:
    async def scene(stage: Stage) -> None:
        async with stage.producer(max_block_ms=90_000) as producer:
            loop = asyncio.get_running_loop()
            waited_s: list[float] = []

            async def wait(after_s: float) -> None:
                await asyncio.sleep(after_s)
                began_s = loop.time()
                with pytest.raises(TimedOut, match="max_block_ms"):
                    await producer.send("other", b"x")
                waited_s.append(loop.time() - began_s)

            await asyncio.gather(wait(0), wait(50))
            assert waited_s == pytest.approx([90, 90])
            asked = len(stage.broker.seen_of(MetadataRequest))
            await asyncio.sleep(60)
            assert len(stage.broker.seen_of(MetadataRequest)) == asked, "nobody waits for it any more"

    play(scene)


def test_a_partition_that_is_not_there_is_refused() -> None:
    async def scene(stage: Stage) -> None:
        async with stage.producer() as producer:
            with pytest.raises(TopicNotFound, match="partitions 0 to 0"):
                await producer.send("t", b"x", partition=1)
            with pytest.raises(BadSetting, match="partition is -1"):
                await producer.send("t", b"x", partition=-1)

    play(scene)


def test_who_finds_no_room_waits_in_line_and_goes_on_when_there_is() -> None:
    async def scene(stage: Stage) -> None:
        stage.stall()
        async with stage.producer(buffer_memory=10_000, batch_size=2_000, request_timeout_ms=5_000) as producer:

            async def send_all() -> list[Delivery]:
                return [await producer.send("t", b"%d" % number * 500) for number in range(20)]

            sending = asyncio.get_running_loop().create_task(send_all())
            await asyncio.sleep(2)
            assert not sending.done()
            metrics = producer.metrics()
            assert metrics["waiting-threads"] == 1
            assert metrics["buffer-available-bytes"] < 3_000
            stage.recover()
            assert [(await delivery).offset for delivery in await sending] == list(range(20))
            assert producer.metrics()["buffer-available-bytes"] == 10_000

    play(scene)


def test_who_finds_no_room_within_max_block_ms_is_told_so() -> None:
    async def scene(stage: Stage) -> None:
        stage.stall()
        async with stage.producer(buffer_memory=3_000, batch_size=1_000, max_block_ms=1_500) as producer:

            async def send_on() -> None:
                while True:
                    await producer.send("t", b"x" * 900)

            with pytest.raises(BufferExhausted, match="buffer_memory"):
                await send_on()
            assert producer.metrics()["buffer-exhausted-total"] == 1

    play(scene)


def test_a_partitioner_is_asked_once_for_a_record_that_has_to_wait() -> None:
    async def scene(stage: Stage) -> None:
        asked: list[bytes | None] = []

        def choose(key: bytes | None, partitions: object, available: object) -> int:
            asked.append(key)
            return 0

        async with stage.producer(partitioner=choose, buffer_memory=10_000, batch_size=1_000) as producer:
            deliveries = [await producer.send("t", b"x" * 900, b"%d" % number) for number in range(20)]
            for delivery in deliveries:
                await delivery
        assert asked == [b"%d" % number for number in range(20)]

    play(scene)


def test_a_record_that_is_larger_than_a_request_is_refused() -> None:
    async def scene(stage: Stage) -> None:
        async with stage.producer(max_request_size=1_000) as producer:
            with pytest.raises(RecordTooLarge, match="max_request_size"):
                await producer.send("t", b"x" * 1_000)

    play(scene)


# ---- closing


def test_closing_delivers_what_waits() -> None:
    async def scene(stage: Stage) -> None:
        producer = stage.new_producer(linger_ms=60_000)
        await producer.start()
        deliveries = [await producer.send("t", b"%d" % number) for number in range(100)]
        await producer.close()
        assert [(await delivery).offset for delivery in deliveries] == list(range(100))

    play(scene)


@pytest.mark.parametrize("timeout", [0, 3])
def test_closing_in_a_hurry_gives_up_what_is_not_delivered(timeout: float) -> None:
    async def scene(stage: Stage) -> None:
        stage.stall()
        loop = asyncio.get_running_loop()
        producer = stage.new_producer(batch_size=100, linger_ms=10)
        await producer.start()
        deliveries = [await producer.send("t", b"%d" % number) for number in range(100)]
        began_s = loop.time()
        await producer.close(timeout)
        assert loop.time() - began_s == pytest.approx(timeout, abs=0.01)
        for delivery in deliveries:
            with pytest.raises(Closed):
                await delivery

    play(scene)


def test_nothing_is_sent_after_closing_or_before_starting() -> None:
    async def scene(stage: Stage) -> None:
        producer = stage.new_producer()
        with pytest.raises(IllegalState, match="not started"):
            await producer.send("t", b"x")
        await producer.start()
        await producer.close()
        await producer.close()
        with pytest.raises(Closed):
            await producer.send("t", b"x")
        with pytest.raises(Closed):
            await producer.flush()

    play(scene)


def test_who_waits_for_room_or_for_a_topic_hears_of_the_close() -> None:
    async def scene(stage: Stage) -> None:
        stage.stall()
        loop = asyncio.get_running_loop()
        producer = stage.new_producer(buffer_memory=3_000, batch_size=1_000)
        await producer.start()

        async def send_on() -> None:
            while True:
                await producer.send("t", b"x" * 900)

        rows = pa.table({"value": [b"x" * 900] * 10})
        waiting = [
            loop.create_task(send_on()),
            loop.create_task(producer.send("other", b"x")),
            loop.create_task(producer.send_arrow(rows, "t")),
        ]
        await asyncio.sleep(1)
        assert not any(task.done() for task in waiting)
        await producer.close(0)
        for error in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(error, Closed)

    play(scene)


def test_a_producer_without_a_broker_says_which_address_fails() -> None:
    async def scene(stage: Stage) -> None:
        producer = Producer(
            ProducerSettings(),
            [Address("nowhere", 9)],
            network=stage.world.network.host("client"),
            clock=stage.world.clock,
        )
        with pytest.raises(CannotReachCluster, match="nowhere:9"):
            await producer.start()

    play(scene)


# ---- serializers, interceptors, metrics


def test_serializers_are_not_asked_for_what_is_null() -> None:
    async def scene(stage: Stage) -> None:
        settings = {"value_serializer": lambda value: b"<%d>" % value, "key_serializer": str.encode}
        async with stage.producer(**settings) as producer:
            tombstone = await producer.send_and_wait("t", None, "key")
            assert (tombstone.serialized_key_size, tombstone.serialized_value_size) == (3, -1)
            keyless = await producer.send_and_wait("t", 5)
            assert (keyless.serialized_key_size, keyless.serialized_value_size) == (-1, 3)

    play(scene)


def test_headers_may_be_a_dict() -> None:
    async def scene(stage: Stage) -> None:
        seen: list[Any] = []

        def look(request: ProduceRequest, version: int) -> ProduceResponse:
            (data,) = request.topic_data[0].partition_data
            seen.extend(record.headers for record in decode_batch(records_of(data)))
            return stage.produce(request, version)

        stage.broker.answers[ProduceRequest.api_key] = look
        async with stage.producer() as producer:
            await producer.send_and_wait("t", b"x", headers={"trace": b"1", "none": None})
            await producer.send_and_wait("t", b"x", headers={})
        assert [list(headers) for headers in seen] == [[("trace", b"1"), ("none", None)], []]

    play(scene)


def test_serializers_make_bytes_and_their_failures_are_told() -> None:
    async def scene(stage: Stage) -> None:
        async with stage.producer(
            value_serializer=lambda value: b"<%d>" % value, key_serializer=str.encode
        ) as producer:
            await producer.send_and_wait("t", 5, "key")
            with pytest.raises(SerializationFailed, match="value_serializer failed"):
                await producer.send("t", "five", "key")
            with pytest.raises(SerializationFailed, match="key_serializer failed"):
                await producer.send("t", 5, 5)
        assert stage.partition.values == [b"<5>"]

    play(scene)


@pytest.mark.parametrize(
    ("record", "told"),
    [
        ({"topic": b"t"}, "topic"),
        ({"partition": "0"}, "partition"),
        ({"partition": 0.0}, "partition"),
        ({"timestamp_ms": 1.5}, "timestamp_ms"),
        ({"timestamp_ms": 1 << 63}, "timestamp_ms"),
        ({"headers": {"trace": "text"}}, "header"),
        ({"headers": 1}, "header"),
        ({"headers": [("trace", "text")]}, "header"),
        ({"headers": [(b"trace", b"1")]}, "header"),
        ({"headers": [("trace", b"1", b"2")]}, "header"),
        ({"headers": [("\ud800", b"1")]}, "header"),
    ],
)
def test_what_cannot_be_part_of_a_record_is_told_and_harms_no_other(record: dict[str, Any], told: str) -> None:
    async def scene(stage: Stage) -> None:
        async with stage.producer() as producer:
            before = await producer.send("t", b"before")
            with pytest.raises(ClientError, match=told):
                await producer.send(**{"topic": "t", "value": b"x"} | record)
            after = await producer.send("t", b"after", headers=[("trace", b"1"), ("none", None)])
            assert [(await before).offset, (await after).offset] == [0, 1]

    play(scene)


def test_a_partitioner_that_fails_is_told() -> None:
    async def scene(stage: Stage) -> None:
        async with stage.producer(partitioner=lambda key, partitions, available: 1 // 0) as producer:
            with pytest.raises(ClientError, match="partitioner"):
                await producer.send("t", b"x")

    play(scene)


@pytest.mark.parametrize("record", ["t", b"t", (), ("t", b"", b"", 0, 1, (), 7), 5])
def test_what_is_no_record_is_told(record: Any) -> None:
    async def scene(stage: Stage) -> None:
        async with stage.producer() as producer:
            with pytest.raises(BadSetting, match="record"):
                await producer.send_many([record])

    play(scene)


def test_bytes_of_another_class_are_bytes() -> None:
    class Text(bytes):
        pass

    async def scene(stage: Stage) -> None:
        async with stage.producer() as producer:
            assert (await producer.send_and_wait("t", Text(b"value"), Text(b"key"))).serialized_value_size == 5

    play(scene)


def test_without_serializers_other_types_are_refused() -> None:
    async def scene(stage: Stage) -> None:
        async with stage.producer() as producer:
            with pytest.raises(SerializationFailed, match="a value of type int"):
                await producer.send("t", 5)
            with pytest.raises(SerializationFailed, match="a key of type dict"):
                await producer.send("t", b"x", {})

    play(scene)


class Listener:
    def __init__(self) -> None:
        self.heard: list[RecordMetadata | ClientError | None] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record._replace(value=record.value + b"!")

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: ClientError | None) -> None:
        self.heard.append(metadata or error)


class Troublemaker:
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise ValueError("on purpose")

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: ClientError | None) -> None:
        raise ValueError("on purpose")


def test_interceptors_change_records_and_hear_what_became_of_them() -> None:
    async def scene(stage: Stage) -> None:
        listener = Listener()
        async with stage.producer(interceptors=[listener], max_block_ms=1_000) as producer:
            await producer.send_and_wait("t", b"a")
            with pytest.raises(TimedOut):
                await producer.send("other", b"b")
        assert stage.partition.values == [b"a!"]
        metadata, error = listener.heard
        assert isinstance(metadata, RecordMetadata)
        assert metadata.offset == 0
        assert isinstance(error, TimedOut)

    play(scene)


def test_what_interceptors_raise_reaches_nobody_who_sends(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(stage: Stage) -> None:
        async with stage.producer(interceptors=[Troublemaker(), Listener()]) as producer:
            assert (await producer.send_and_wait("t", b"a")).offset == 0
        assert stage.partition.values == [b"a!"]

    play(scene)
    assert "an interceptor failed" in caplog.text


def test_metrics_count_what_was_sent_tried_again_and_failed() -> None:
    async def scene(stage: Stage) -> None:
        codes = [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NONE, ErrorCode.INVALID_RECORD]

        def produce(request: ProduceRequest, version: int) -> ProduceResponse:
            code = codes.pop(0)
            if code == ErrorCode.NONE:
                return stage.produce(request, version)
            return answer(request, {(request.topic_data[0].name, 0): PartitionProduceResponse(error_code=code)})

        stage.broker.answers[ProduceRequest.api_key] = produce
        async with stage.producer() as producer:
            await producer.send_and_wait("t", b"a")
            with pytest.raises(BrokerError):
                await producer.send_and_wait("t", b"b")
            metrics = producer.metrics()
        assert metrics["record-send-total"] == 3
        assert metrics["record-retry-total"] == 1
        assert metrics["record-error-total"] == 1
        assert metrics["request-total"] == 3
        assert metrics["records-per-request-avg"] == 1
        assert metrics["request-latency-avg"] > 0
        assert metrics["record-send-rate"] > 0
        assert metrics["buffer-total-bytes"] == metrics["buffer-available-bytes"] == 33_554_432
        assert metrics["requests-in-flight"] == 0

    play(scene)


def test_transactions_need_a_transactional_id() -> None:
    async def scene(stage: Stage) -> None:
        async with stage.producer() as producer:
            with pytest.raises(IllegalState, match="transactional_id"):
                await producer.begin_transaction()

    play(scene)
