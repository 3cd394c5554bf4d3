"""Converts values of `cordwood consume` and `produce` by the registry: JSON for people, the schema's format in
topics."""

from __future__ import annotations

import asyncio
import base64
import datetime
import json
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message

from cordwood.cli.connection.access import EXIT_FAILED, EXIT_UNREACHABLE, fail
from cordwood.cli.records.line_records import BadLine, LineOptions, LineParser
from cordwood.cli.records.partition_reading import PartitionReading
from cordwood.cli.records.record_json import ParsedRecord
from cordwood.client.errors import SerializationFailed
from cordwood.registry.client import RegisteredSchema, RegistryClient, RegistryRefused
from cordwood.registry.schemas.avro.schema import AvroSchema
from cordwood.registry.schemas.json.schema import JsonSchema
from cordwood.registry.schemas.protobuf.schema import ProtobufSchema
from cordwood.registry.schemas.schema import InvalidSchema
from cordwood.registry.serializers.codecs import encode_avro, encode_json, encode_protobuf, message_class
from cordwood.registry.serializers.framing import encode_indexes, header_of, prefix
from cordwood.registry.serializers.serializer import Deserializer
from cordwood.registry.serializers.strategies import topic_subject
from cordwood.runtime.blocking_http import Unreachable
from cordwood.wire.batch_header import read_header
from cordwood.wire.record import ConsumerRecord
from cordwood.wire.record_text import RecordText
from cordwood.wire.records import BatchReader, encode_batch

_NO_END = 2**63 - 1
# Offset, timestamp, key, value, headers.
_Row = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


# ---- consume


class DecodedReading(PartitionReading):
    """Like `PartitionReading`, but prints values, and keys that have a schema, as JSON."""

    deserializer: Deserializer

    async def _render(self, text: RecordText, most: int | None, timeout_ms: int | None) -> int:
        taken = await self._consumer.getmany(timeout_ms=timeout_ms, max_records=most)
        count = 0
        for partition, records in taken.items():
            end = _NO_END if self._ends is None else self._ends[partition]
            # In a thread, since it may query the registry.
            rows = await asyncio.to_thread(self._rows, records, end)
            if rows:
                batch = encode_batch(rows)
                count += text.read(
                    BatchReader(batch, 0, read_header(batch), *partition, rows[0][0]), len(rows), _NO_END
                )
        return count

    def _rows(self, records: Sequence[ConsumerRecord], end: int) -> list[_Row]:
        return [self._row(record) for record in records if record.offset < end]

    def _row(self, record: ConsumerRecord) -> _Row:
        return (
            record.offset,
            max(record.timestamp, 0),
            self._shown(record, record.key, is_key=True),
            self._shown(record, record.value, is_key=False),
            list(record.headers),
        )

    def _shown(self, record: ConsumerRecord, data: bytes | None, *, is_key: bool) -> bytes | None:
        if data is None or (is_key and not data.startswith(b"\0") and header_of(record.headers, is_key=True) is None):
            # Many keys are plain text.
            return data
        try:
            return shown_as_json(self.deserializer.from_record(data, record.headers, is_key=is_key))
        except Exception as error:
            what = "key" if is_key else "value"
            where = f"{record.topic}-{record.partition} at offset {record.offset}"
            raise SerializationFailed(f"the {what} of {where} cannot be decoded by the registry: {error}") from error


def shown_as_json(value: Any) -> bytes:
    if isinstance(value, Message):
        value = json_format.MessageToDict(value, preserving_proto_field_name=True)
    return json.dumps(value, ensure_ascii=False, default=_plain).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, Decimal | uuid.UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON")


# ---- produce


def value_schema(client: RegistryClient, topic: str, file: str | None) -> RegisteredSchema:
    """Returns the schema of the file, which is registered, or else the subject's latest."""
    subject = topic_subject(topic)
    try:
        if file is None:
            return client.latest(subject)
        path = Path(file)
        kind = {".proto": "PROTOBUF", ".json": "JSON"}.get(path.suffix, "AVRO")
        return client.register(subject, path.read_text(encoding="utf-8"), kind)
    except Unreachable as error:
        fail(f"no registry answers at {error}", EXIT_UNREACHABLE)
    except RegistryRefused as error:
        hint = "; give its schema with --value-schema FILE" if error.code in (40401, 40402) else ""
        fail(f"subject {subject}: {error}{hint}", EXIT_FAILED)
    except (OSError, UnicodeDecodeError, InvalidSchema) as error:
        fail(f"--value-schema {file}: {getattr(error, 'strerror', None) or error}", EXIT_FAILED)


def encoding_parser(parse: LineParser, schema: RegisteredSchema) -> LineParser:
    """Parses with `parse`, then encodes the JSON values by the schema."""
    encode = _encoder(schema)

    def parse_and_encode(line: bytes) -> ParsedRecord:
        record = parse(line)
        if record.value is None:
            return record
        try:
            return record._replace(value=encode(json.loads(record.value)))
        except Exception as error:
            raise BadLine(f"the value does not fit schema {schema.id}: {error or type(error).__name__}") from error

    return parse_and_encode


def text_parser(options: LineOptions) -> LineParser:
    """Takes a line for a value, or for a key and a value."""

    def parse(line: bytes) -> ParsedRecord:
        key, value = options.key, line
        if options.key_separator is not None:
            before, separator, after = line.partition(options.key_separator)
            if not separator:
                raise BadLine(f"no separator {options.key_separator.decode()!r} between key and value")
            key, value = before, after
        shown = None if value == options.null else value
        return ParsedRecord(None if key == options.null else key, shown, options.headers, None, options.partition)

    return parse


def _encoder(registered: RegisteredSchema) -> Callable[[Any], bytes]:
    schema = registered.schema
    front = prefix(registered)
    if isinstance(schema, AvroSchema):
        return lambda value: front + encode_avro(schema, value)
    if isinstance(schema, JsonSchema):
        return lambda value: front + encode_json(schema, value)
    if isinstance(schema, ProtobufSchema):
        kind = message_class(schema, (0,))
        indexed = prefix(registered, encode_indexes([0]))
        return lambda value: indexed + encode_protobuf(json_format.ParseDict(value, kind()))
    raise AssertionError(schema)
