"""`cordwood schema check --against-data`: the first stored record that a new schema cannot read."""

from __future__ import annotations

from typing import NamedTuple

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.consumer import Consumer
from cordwood.registry.client import RegisteredSchema, RegistryClient
from cordwood.registry.schemas.avro.schema import AvroSchema
from cordwood.registry.schemas.json.schema import JsonSchema
from cordwood.registry.schemas.protobuf.schema import ProtobufSchema
from cordwood.registry.schemas.schema import Schema
from cordwood.registry.serializers.codecs import decode_avro, decode_json, decode_protobuf
from cordwood.registry.serializers.framing import decode_indexes, header_of, split_header, split_prefix
from cordwood.wire.record import ConsumerRecord

_POLL_MS = 200


class Unreadable(NamedTuple):
    record: ConsumerRecord
    schema_id: int | None
    field: str
    reason: str

    def __str__(self) -> str:
        written = "" if self.schema_id is None or self.schema_id < 0 else f", written with schema {self.schema_id}"
        where = f", field {self.field}" if self.field else ""
        return f"{self.record.topic}-{self.record.partition} offset {self.record.offset}{written}{where}: {self.reason}"


class Findings(NamedTuple):
    read_count: int
    first: Unreadable | None


async def check_stored_records(
    consumer: Consumer, client: RegistryClient, topic: str, schema: Schema, *, is_key: bool
) -> Findings:
    """Reads each partition from its start to its current end. Returns the first bad record by partition and offset."""
    partitions = [TopicPartition(topic, number) for number in sorted(await consumer.partitions_for(topic))]
    read_count = 0
    checker = _Checker(client, schema)
    for partition in partitions:
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end = (await consumer.end_offsets([partition]))[partition]
        while await consumer.position(partition) < end:
            for records in (await consumer.poll(timeout_ms=_POLL_MS)).values():
                for record in records:
                    if record.offset >= end:
                        break
                    data = record.key if is_key else record.value
                    if data is None:
                        continue
                    read_count += 1
                    unreadable = checker.problem(record, data, is_key=is_key)
                    if unreadable is not None:
                        return Findings(read_count, unreadable)
    return Findings(read_count, None)


class _Checker:
    def __init__(self, client: RegistryClient, schema: Schema) -> None:
        self._client = client
        self._schema = schema

    def problem(self, record: ConsumerRecord, data: bytes, *, is_key: bool) -> Unreadable | None:
        writer: RegisteredSchema | None = None
        try:
            writer, indexes, payload = self._framed(record, data, is_key=is_key)
            self._decode(writer.schema, indexes, payload)
        except Exception as error:  # noqa: BLE001  # any error of a decoder means that it cannot read
            path, reason = self._why(writer, error)
            return Unreadable(record, None if writer is None else writer.id, path, reason)
        return None

    def _framed(
        self, record: ConsumerRecord, data: bytes, *, is_key: bool
    ) -> tuple[RegisteredSchema, list[int], bytes]:
        named = header_of(record.headers, is_key=is_key)
        if named is None:
            id_, rest = split_prefix(data)
            writer = self._client.by_id(id_)
            indexes, payload = decode_indexes(rest) if isinstance(writer.schema, ProtobufSchema) else ([], rest)
            return writer, indexes, payload
        guid, rest = split_header(named)
        writer = self._client.by_guid(guid)
        return writer, decode_indexes(rest)[0] if isinstance(writer.schema, ProtobufSchema) else [], data

    def _decode(self, writer: Schema, indexes: list[int], payload: bytes) -> None:
        if writer.type != self._schema.type:
            raise ValueError(f"it is {writer.type}, and the new schema is {self._schema.type}")
        match self._schema:
            case AvroSchema():
                assert isinstance(writer, AvroSchema)
                decode_avro(writer, payload, self._schema)
            case JsonSchema():
                decode_json(self._schema, payload)
            case ProtobufSchema():
                # Protobuf skips unknown fields; only the schemas themselves can conflict.
                differences = self._schema.incompatibilities(writer)
                if differences:
                    raise ValueError(differences[0].text("new", "stored"))
                decode_protobuf(self._schema, indexes, payload)

    def _why(self, writer: RegisteredSchema | None, error: Exception) -> tuple[str, str]:
        """Returns the field, if known, and the reason."""
        path = getattr(error, "instance_path", None)
        if path is not None:
            # For a JSON value.
            return "/" + "/".join(str(each) for each in path), str(getattr(error, "message", error))
        reason = f"{error}" or type(error).__name__
        if writer is None or writer.schema.type != self._schema.type:
            return "", reason
        differences = self._schema.incompatibilities(writer.schema)
        if not differences:
            return "", reason
        first = differences[0]
        shown = first.description.replace("{reader}", "new").replace("{writer}", "stored")
        return first.details or first.path, shown
