"""Serializers: what they write, Confluent's read, and the other way round."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from threading import get_ident
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

import cordwood.aio
import cordwood.testing.embedded
from cordwood import Consumer, Producer
from cordwood.client.errors import SerializationFailed
from cordwood.registry import (
    Deserializer,
    RegistryClient,
    RegistryRefused,
    Serializer,
    record_strategy,
    topic_record_strategy,
    topic_subject,
)
from cordwood.registry.schemas.parsing import parse_schema
from cordwood.registry.schemas.protobuf.schema import ProtobufSchema
from cordwood.registry.schemas.schema import Reference
from cordwood.registry.serializers.framing import BadFrame
from cordwood.runtime.clock import SystemClock
from tests.registry.registry_fixtures import Rest, record

AVRO = '{"type":"record","name":"R","fields":[{"name":"x","type":"int"},{"name":"t","type":["null","string"]}]}'
JSON = '{"title":"T","type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}'
PROTO = 'syntax = "proto3"; package p; message A {} message B { message C { int32 x = 1; } int32 y = 1; }'


@pytest.fixture(scope="module")
def ours(rest: Rest) -> RegistryClient:
    return RegistryClient(rest.url)


@pytest.fixture(scope="module")
def theirs(rest: Rest) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": rest.url}) as made:
        yield made


def _context(topic: str, headers: Any = None) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE, headers)


def _message(name: str, **values: int) -> Message:
    schema = parse_schema("PROTOBUF", PROTO)
    assert isinstance(schema, ProtobufSchema)
    assert schema.descriptor.name
    return GetMessageClass(schema.pool.FindMessageTypeByName(name))(**values)


def test_avro_both_ways(ours: RegistryClient, theirs: SchemaRegistryClient, subject: str) -> None:
    value = {"x": 5, "t": "text"}
    data = Serializer(ours, AVRO, subject=topic_subject(subject))(value)
    assert AvroDeserializer(theirs)(data, _context(subject)) == value
    written = AvroSerializer(theirs, AVRO)(value, _context(subject))
    assert written == data
    assert Deserializer(ours)(data) == value


def test_json_both_ways(ours: RegistryClient, theirs: SchemaRegistryClient, subject: str) -> None:
    data = Serializer(ours, JSON, "JSON", subject=topic_subject(subject))({"x": 5})
    assert JSONDeserializer(JSON, schema_registry_client=theirs)(data, _context(subject)) == {"x": 5}
    written = JSONSerializer(JSON, theirs)({"x": 5}, _context(subject))
    assert written is not None
    assert Deserializer(ours)(written) == {"x": 5}
    with pytest.raises(ValueError, match="x"):
        Serializer(ours, JSON, "JSON", subject=topic_subject(subject))({})


@pytest.mark.parametrize(("name", "field"), [("p.A", None), ("p.B", "y"), ("p.B.C", "x")])
def test_protobuf_both_ways(
    ours: RegistryClient, theirs: SchemaRegistryClient, subject: str, name: str, field: str | None
) -> None:
    message = _message(name, **({} if field is None else {field: 7}))
    data = Serializer(ours, PROTO, "PROTOBUF", subject=topic_subject(subject))(message)
    options = {"use.deprecated.format": False}
    read = ProtobufDeserializer(type(message), options, theirs)(data, _context(subject))
    assert read == message
    written = ProtobufSerializer(type(message), theirs, options)(message, _context(f"{subject}-t"))
    assert written is not None
    again = Deserializer(ours)(written)
    assert again.SerializeToString() == message.SerializeToString()
    assert again.DESCRIPTOR.full_name == name


def test_schema_named_by_a_header_both_ways(ours: RegistryClient, theirs: SchemaRegistryClient, subject: str) -> None:
    # Longer than a prefix, without which Confluent's Python client does not look at headers.
    value = {"x": 5, "t": "longer"}
    data, headers = Serializer(ours, AVRO, subject=topic_subject(subject)).with_header(value)
    assert AvroDeserializer(theirs)(data, _context(subject, list(headers.items()))) == value
    sent: list[tuple[str, bytes]] = []
    serializer = AvroSerializer(theirs, AVRO, conf={"schema.id.serializer": header_schema_id_serializer})
    written = serializer(value, _context(subject, sent))
    assert (written, dict(sent)) == (data, headers)
    assert Deserializer(ours).from_record(written, sent) == value


def test_older_records_are_resolved_to_the_readers_schema(ours: RegistryClient, subject: str) -> None:
    data = Serializer(ours, record("R", "x"), subject=topic_subject(subject))({"x": 5})
    assert Deserializer(ours, record("R", "x", "y=1"))(data) == {"x": 5, "y": 1}


def test_references_are_resolved(ours: RegistryClient, subject: str) -> None:
    ours.register(subject, '{"type":"record","name":"A","fields":[{"name":"n","type":"int"}]}')
    using = '{"type":"record","name":"B","fields":[{"name":"a","type":"A"}]}'
    serializer = Serializer(ours, using, subject=f"{subject}-b", references=[Reference("A", subject, 1)])
    assert Deserializer(ours)(serializer({"a": {"n": 3}})) == {"a": {"n": 3}}


def test_schemas_are_not_registered_where_that_is_off(ours: RegistryClient, subject: str) -> None:
    with pytest.raises(RegistryRefused) as refused:
        Serializer(ours, AVRO, subject=subject, auto_register=False)({"x": 1, "t": None})
    assert refused.value.code == 40401
    ours.register(subject, AVRO)
    assert Serializer(ours, subject=subject, use_latest=True)({"x": 1, "t": None})


def test_bytes_without_a_schema_are_refused(ours: RegistryClient) -> None:
    for data in (b"", b"\x00\x00", b"\x05abcdef"):
        with pytest.raises(BadFrame):
            Deserializer(ours)(data)


def test_producer_and_consumer_use_them(
    node: cordwood.testing.embedded.EmbeddedNode, ours: RegistryClient, subject: str
) -> None:
    node.topic(subject)
    serializer = Serializer(ours, AVRO, subject=topic_subject(subject))
    with Producer(bootstrap_servers=node.bootstrap, value_serializer=serializer) as producer:
        producer.send(subject, {"x": 1, "t": "one"})
    with Consumer(
        subject,
        bootstrap_servers=node.bootstrap,
        group_id=subject,
        auto_offset_reset="earliest",
        value_deserializer=Deserializer(ours),
    ) as consumer:
        assert next(iter(consumer)).value == {"x": 1, "t": "one"}


def test_strategies_follow_the_topic_and_the_type_of_each_record(
    node: cordwood.testing.embedded.EmbeddedNode, ours: RegistryClient, subject: str
) -> None:
    one, two = node.topic(f"{subject}-1"), node.topic(f"{subject}-2")
    avro = '{"type":"record","name":"a.Order","fields":[{"name":"x","type":"int"}]}'
    proto = PROTO.replace("package p", f"package p{subject.replace('-', '')}")
    messages = parse_schema("PROTOBUF", proto)
    assert isinstance(messages, ProtobufSchema)
    assert messages.descriptor.name
    package = f"p{subject.replace('-', '')}"
    kinds = [GetMessageClass(messages.pool.FindMessageTypeByName(f"{package}.{name}")) for name in ("A", "B")]
    values = Serializer(ours, avro)
    with Producer(bootstrap_servers=node.bootstrap, value_serializer=values, key_serializer=values) as producer:
        for topic in (one, two):
            producer.send(topic, {"x": 1}, key={"x": 2})
    by_type = Serializer(ours, proto, "PROTOBUF", subject=topic_record_strategy)
    with Producer(bootstrap_servers=node.bootstrap, value_serializer=by_type) as producer:
        for kind in kinds:
            producer.send(one, kind())
    by_name = Serializer(ours, JSON, "JSON", subject=record_strategy)
    with Producer(bootstrap_servers=node.bootstrap, value_serializer=by_name) as producer:
        producer.send(two, {"x": 3})
    subjects = set(ours.ask("GET", "/subjects"))
    assert {
        *(f"{topic}-{kind}" for topic in (one, two) for kind in ("key", "value")),
        *(f"{one}-{package}.{name}" for name in ("A", "B")),
        "T",
    } <= subjects


@pytest.mark.parametrize(("schema", "kind"), [(AVRO, "AVRO"), (JSON, "JSON"), (PROTO, "PROTOBUF")])
def test_producers_and_consumers_name_schemas_in_headers_by_themselves(
    node: cordwood.testing.embedded.EmbeddedNode, ours: RegistryClient, subject: str, schema: str, kind: str
) -> None:
    topic = node.topic(subject)
    value: Any = {"AVRO": {"x": 1, "t": "one"}, "JSON": {"x": 1}, "PROTOBUF": _message("p.B.C", x=7)}[kind]
    serializer = Serializer(ours, schema, kind, use_headers=True)
    with Producer(bootstrap_servers=node.bootstrap, value_serializer=serializer) as producer:
        producer.send(topic, value, headers={"own": b"1"})
    fresh = RegistryClient(node.registry_url)
    with Consumer(
        topic,
        bootstrap_servers=node.bootstrap,
        group_id=topic,
        auto_offset_reset="earliest",
        value_deserializer=Deserializer(fresh),
    ) as consumer:
        record = next(iter(consumer))
    assert [name for name, _ in record.headers] == ["own", "__value_schema_id"]
    if kind == "PROTOBUF":
        assert record.value.SerializeToString() == value.SerializeToString()
    else:
        assert record.value == value


def test_async_clients_do_not_block_the_loop_while_schemas_are_loaded(
    node: cordwood.testing.embedded.EmbeddedNode, subject: str
) -> None:
    topic = node.topic(subject)
    threads: list[int] = []

    class Watched(RegistryClient):
        def ask(self, method: str, path: str, body: Any = None) -> Any:
            threads.append(get_ident())
            return super().ask(method, path, body)

    async def main() -> Any:
        serializer = Serializer(Watched(node.registry_url), AVRO)
        async with cordwood.aio.Producer(bootstrap_servers=node.bootstrap, value_serializer=serializer) as producer:
            await (await producer.send(topic, {"x": 1, "t": "one"}))
            await (await producer.send_many([(topic, {"x": 2, "t": "two"})]))
        deserializer = Deserializer(Watched(node.registry_url))
        async with cordwood.aio.Consumer(
            topic,
            bootstrap_servers=node.bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            value_deserializer=deserializer,
        ) as consumer:
            return [(await consumer.getone()).value for _ in range(2)]

    assert asyncio.run(main()) == [{"x": 1, "t": "one"}, {"x": 2, "t": "two"}]
    assert len(threads) == 2
    assert get_ident() not in threads


def test_async_client_reports_why_a_schema_cannot_be_loaded(
    node: cordwood.testing.embedded.EmbeddedNode, subject: str
) -> None:
    topic = node.topic(subject)

    async def main() -> None:
        serializer = Serializer(RegistryClient(node.registry_url), AVRO, auto_register=False)
        async with cordwood.aio.Producer(bootstrap_servers=node.bootstrap, value_serializer=serializer) as producer:
            await producer.send(topic, {"x": 1, "t": "one"})

    with pytest.raises(SerializationFailed, match=rf"subject {topic}-value cannot be loaded: .*40401"):
        asyncio.run(main())


def test_latest_version_is_looked_up_again_once_it_is_old(ours: RegistryClient, subject: str) -> None:
    class Later(SystemClock):
        later_s = 0.0

        def monotonic(self) -> float:
            return self.later_s

    clock = Later()
    ours.register(subject, record("R", "x"))
    serializer = Serializer(ours, subject=subject, use_latest=True, latest_max_age_s=10.0, clock=clock)
    first = serializer({"x": 1})
    ours.register(subject, record("R", "x", "y=1"))
    assert serializer({"x": 1}) == first
    clock.later_s = 11.0
    assert serializer({"x": 1})[:5] != first[:5]


def test_the_cache_keeps_recently_used_entries(rest: Rest, subject: str) -> None:
    client = RegistryClient(rest.url, cached=2)
    ids = [
        client.register(f"{subject}-{number}", record("R", *(f"f{each}" for each in range(number)))).id
        for number in range(3)
    ]
    client = RegistryClient(rest.url, cached=2)
    client.by_id(ids[0])
    client.by_id(ids[1])
    client.by_id(ids[0])
    client.by_id(ids[2])
    assert [client.known_by_id(id_) is not None for id_ in ids] == [True, False, True]
