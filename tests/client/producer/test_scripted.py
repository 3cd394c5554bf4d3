"""The producer and brokers that do what healthy ones rarely do."""

import asyncio

import pytest

from cordwood.client.errors import BrokerError, NetworkFailed, TimedOut
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.api_versions import ApiVersionsRequest
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from cordwood.wire.messages.metadata import MetadataRequest
from cordwood.wire.messages.produce import ProduceRequest, ProduceResponse
from tests.client.scripted_broker import TOPIC_ID, Cut
from tests.client.scripted_producing import Stage, play


def test_records_without_pauses_share_batches_and_keep_their_order() -> None:
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


def test_flush_sends_lingering_records_and_returns_after_delivery() -> None:
    async def scene(stage: Stage) -> None:
        loop = asyncio.get_running_loop()
        async with stage.producer(linger_ms=60_000) as producer:
            delivery = await producer.send("t", b"x")
            began_s = loop.time()
            await producer.flush()
            assert delivery.done()
            assert loop.time() - began_s < 1

    play(scene)


def test_a_flush_times_out_and_its_records_are_still_delivered() -> None:
    async def scene(stage: Stage) -> None:
        stage.stall()
        async with stage.producer() as producer:
            delivery = await producer.send("t", b"x")
            with pytest.raises(TimedOut):
                await producer.flush(1)
            stage.recover()
            assert (await delivery).offset == 0

    play(scene)


def test_a_broker_that_does_not_answer_is_disconnected_after_the_request_timeout_and_asked_again() -> None:
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


def test_a_broker_that_reads_nothing_is_disconnected_after_the_request_timeout_even_without_pending_responses() -> None:
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
            with pytest.raises(NetworkFailed, match="may be lost"):
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


def test_a_broker_whose_quota_is_exceeded_gets_no_requests_for_the_throttle_time() -> None:
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


def test_a_producer_without_permission_for_an_id_may_retry_later() -> None:
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


def test_brokers_before_topic_ids_get_topic_names() -> None:
    async def scene(stage: Stage) -> None:
        stage.broker.max_versions = {ProduceRequest.api_key: 9, MetadataRequest.api_key: 9}
        async with stage.producer() as producer:
            assert (await producer.send_and_wait("t", b"a")).offset == 0
        produced = [(request, version) for request, version in stage.broker.seen if isinstance(request, ProduceRequest)]
        assert [(request.topic_data[0].name, version) for request, version in produced] == [("t", 9)]

    play(scene)


def test_newer_brokers_get_topic_ids() -> None:
    async def scene(stage: Stage) -> None:
        async with stage.producer() as producer:
            await producer.send_and_wait("t", b"a")
        (request,) = stage.broker.seen_of(ProduceRequest)
        assert request.topic_data[0].topic_id == TOPIC_ID

    play(scene)
