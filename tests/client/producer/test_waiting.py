"""Waits, timeouts and shutdown of a producer."""

import asyncio

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from cordwood.client.errors import (
    BadSetting,
    BufferExhausted,
    CannotReachCluster,
    ClientError,
    Closed,
    IllegalState,
    NetworkFailed,
    RecordTooLarge,
    TimedOut,
    TopicNotFound,
)
from cordwood.client.producer.deliveries import Delivery
from cordwood.client.producer.producer import Producer
from cordwood.client.producer.sending.sender import Sender
from cordwood.client.producer.settings import ProducerSettings
from cordwood.runtime.network import Address
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.api_versions import ApiVersionsRequest
from cordwood.wire.messages.metadata import MetadataRequest
from cordwood.wire.messages.produce import ProduceRequest
from tests.client.scripted_broker import Cut
from tests.client.scripted_producing import Stage, play

# ---- waiting


def test_waiting_for_a_missing_topic_ends_after_max_block_ms() -> None:
    async def scene(stage: Stage) -> None:
        loop = asyncio.get_running_loop()
        async with stage.producer(max_block_ms=2_000) as producer:
            began_s = loop.time()
            with pytest.raises(TimedOut, match=r"topic other: there is no such topic after 2 s \(max_block_ms\)"):
                await producer.send("other", b"x")
            assert loop.time() - began_s == pytest.approx(2.0, abs=0.01)

    play(scene)


def test_a_partition_that_is_no_number_is_refused_before_the_topic_is_known() -> None:
    async def scene(stage: Stage) -> None:
        async with stage.producer() as producer:
            with pytest.raises(BadSetting, match="partition is '0'; expected an int"):
                await producer.send("t", b"x", partition="0")  # type: ignore[arg-type]

    play(scene)


def test_a_missing_topic_is_reported_with_advice() -> None:
    async def scene(stage: Stage) -> None:
        async with stage.producer(max_block_ms=2_000) as producer:
            with pytest.raises(TopicNotFound) as raised:
                await producer.send("other", b"x")
            assert raised.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert raised.value.what_to_do is not None
            assert "auto.create.topics.enable" in raised.value.what_to_do

    play(scene)


def test_every_caller_waits_for_a_topic_for_its_full_timeout() -> None:
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


def test_waiting_for_a_missing_partition_ends_after_max_block_ms() -> None:
    async def scene(stage: Stage) -> None:
        loop = asyncio.get_running_loop()
        async with stage.producer(max_block_ms=2_000) as producer:
            began_s = loop.time()
            with pytest.raises(TopicNotFound, match=r"t-1: it has the partitions 0 to 0 after 2 s") as raised:
                await producer.send("t", b"x", partition=1)
            assert isinstance(raised.value, TimedOut)
            assert loop.time() - began_s == pytest.approx(2.0, abs=0.01)
            with pytest.raises(BadSetting, match="partition is -1"):
                await producer.send("t", b"x", partition=-1)

    play(scene)


def test_the_producer_waits_for_a_partition_unknown_to_the_broker() -> None:
    async def scene(stage: Stage) -> None:
        async with stage.producer() as producer:
            await producer.send("t", b"the topic is known")
            sending = asyncio.ensure_future(producer.send("t", b"x", partition=1))
            await asyncio.sleep(1)
            assert not sending.done()
            stage.broker.leaders.append(1)
            delivery = await sending
            await producer.flush()
            assert delivery.done()

    play(scene)


def test_callers_without_room_queue_and_continue_when_there_is_room() -> None:
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


def test_no_room_within_max_block_ms_raises_buffer_exhausted() -> None:
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


def test_a_partitioner_is_asked_once_for_a_record_that_must_wait() -> None:
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


def test_closing_delivers_queued_records() -> None:
    async def scene(stage: Stage) -> None:
        producer = stage.new_producer(linger_ms=60_000)
        await producer.start()
        deliveries = [await producer.send("t", b"%d" % number) for number in range(100)]
        await producer.close()
        assert [(await delivery).offset for delivery in deliveries] == list(range(100))

    play(scene)


@pytest.mark.parametrize("timeout", [0, 3])
def test_closing_with_a_short_timeout_fails_undelivered_records(timeout: float) -> None:
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


def test_callers_waiting_for_room_or_a_topic_are_woken_by_close() -> None:
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


# ---- acks=0


def test_without_acknowledgements_flush_returns_once_the_broker_has_read_all() -> None:
    async def scene(stage: Stage) -> None:
        async with stage.producer(acks=0, enable_idempotence=False) as producer:
            # It does not answer these.
            stage.stall()
            await producer.send("t", b"a")
            await producer.flush()
            assert [type(request) for request, _ in stage.broker.seen][-2:] == [ProduceRequest, ApiVersionsRequest]

    play(scene)


def test_without_acknowledgements_a_lost_broker_is_reported_once() -> None:
    async def scene(stage: Stage) -> None:
        def cut(request: ProduceRequest, version: int) -> None:
            raise Cut

        async with stage.producer(acks=0, enable_idempotence=False) as producer:
            stage.broker.answers[ProduceRequest.api_key] = cut
            await producer.send("t", b"a")
            with pytest.raises(NetworkFailed):
                await producer.flush()
            stage.stall()
            await producer.send("t", b"b")
            await producer.flush()

    play(scene)


# ---- mistakes of ours


def test_a_mistake_while_an_answer_is_read_ends_the_producer_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    async def scene(stage: Stage) -> None:
        async with stage.producer() as producer:
            monkeypatch.setattr(Sender, "finish", fail)
            delivery = await producer.send("t", b"a")
            with pytest.raises(ClientError, match=r"has failed: ZeroDivisionError\('a bug'\)"):
                await delivery
            with pytest.raises(ClientError, match="has failed"):
                await producer.flush()

    play(scene)
    assert "the producer has failed" in caplog.text
