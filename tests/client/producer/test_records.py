"""The path of records into a producer: serializers, headers, interceptors; and metrics."""

from typing import Any

import pytest

from cordwood.client.errors import (
    BadSetting,
    BrokerError,
    ClientError,
    IllegalState,
    SerializationFailed,
    TimedOut,
)
from cordwood.client.producer.deliveries import RecordMetadata
from cordwood.client.producer.input.interceptors import ProducerRecord
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse
from cordwood.wire.records import decode_batch
from tests.client.model_partition import answer, records_of
from tests.client.scripted_producing import Stage, play


def test_serializers_are_not_called_for_null() -> None:
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


def test_serializers_return_bytes_and_their_failures_are_raised() -> None:
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
def test_an_invalid_record_is_reported_and_does_not_affect_others(record: dict[str, Any], told: str) -> None:
    async def scene(stage: Stage) -> None:
        async with stage.producer() as producer:
            before = await producer.send("t", b"before")
            with pytest.raises(ClientError, match=told):
                await producer.send(**{"topic": "t", "value": b"x"} | record)
            after = await producer.send("t", b"after", headers=[("trace", b"1"), ("none", None)])
            assert [(await before).offset, (await after).offset] == [0, 1]

    play(scene)


def test_a_failing_partitioner_is_reported() -> None:
    async def scene(stage: Stage) -> None:
        async with stage.producer(partitioner=lambda key, partitions, available: 1 // 0) as producer:
            with pytest.raises(ClientError, match="partitioner"):
                await producer.send("t", b"x")

    play(scene)


@pytest.mark.parametrize("record", ["t", b"t", (), ("t", b"", b"", 0, 1, (), 7), 5])
def test_invalid_records_are_reported(record: Any) -> None:
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


def test_interceptors_change_records_and_get_their_outcome() -> None:
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


def test_exceptions_of_interceptors_do_not_reach_the_caller_of_send(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(stage: Stage) -> None:
        async with stage.producer(interceptors=[Troublemaker(), Listener()]) as producer:
            assert (await producer.send_and_wait("t", b"a")).offset == 0
        assert stage.partition.values == [b"a!"]

    play(scene)
    assert "Interceptor failed" in caplog.text


def test_metrics_count_sends_retries_and_failures() -> None:
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
