"""**ProtobufPlan**, and the steps from Protobuf's wire format to the columns of a message."""

from __future__ import annotations

from typing import Any

from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError

from cordwood.registry.schemas.protobuf.schema import ProtobufSchema
from cordwood.registry.schemas.schema import Schema
from cordwood.registry.serializers.codecs import message_class
from cordwood.registry.serializers.framing import BadFrame, decode_indexes

from .arrays import new_column
from .avro_types import Untypable
from .builders import BooleanColumn, BytesColumn, Column, ListColumn, NumberColumn, StructColumn
from .plans import Plan, other_type
from .protobuf_steps import (
    BoolStep,
    ContentStep,
    ConvertedStep,
    EnumNameStep,
    FixedStep,
    IndexedStep,
    MessageField,
    MessageStep,
    NumberStep,
    TimeStep,
)
from .protobuf_types import DURATION, TIMESTAMP, WRAPPERS, in_order, is_json, is_map, protobuf_column
from .protobuf_wire import (
    BYTES,
    DOUBLE,
    FIXED32,
    FIXED64,
    FLOAT,
    INT32,
    INT64,
    SFIXED32,
    SFIXED64,
    SINT32,
    SINT64,
    UINT32,
    UINT64,
    VARINT,
)
from .steps import ConstantStep, FailStep, NullStep, Step

_F = FieldDescriptor
_VARINTS = {
    _F.TYPE_INT32: INT32,
    _F.TYPE_INT64: INT64,
    _F.TYPE_UINT32: UINT32,
    _F.TYPE_UINT64: UINT64,
    _F.TYPE_SINT32: SINT32,
    _F.TYPE_SINT64: SINT64,
}
_FIXED = {
    _F.TYPE_FIXED32: (FIXED32, UINT32),
    _F.TYPE_FIXED64: (FIXED64, UINT64),
    _F.TYPE_SFIXED32: (FIXED32, SFIXED32),
    _F.TYPE_SFIXED64: (FIXED64, SFIXED64),
    _F.TYPE_FLOAT: (FIXED32, FLOAT),
    _F.TYPE_DOUBLE: (FIXED64, DOUBLE),
}


class ProtobufPlan(Plan):
    def __init__(self, reader: ProtobufSchema, message: str | None) -> None:
        """`message` is a full name; None: the first of the file. Raises `Untypable`."""
        if message is None and not reader.file.messages:
            raise Untypable("the schema has no message")
        self._message = self._descriptor(reader, message)
        self.type = protobuf_column(self._message)._replace(nullable=True)
        self.column = new_column(self.type.type, nullable=True)
        self._steps = protobuf_steps(self._message, self.column)

    def _descriptor(self, reader: ProtobufSchema, message: str | None) -> Descriptor:
        if message is None:
            first: Any = message_class(reader, (0,))
            return first.DESCRIPTOR  # type: ignore[no-any-return]
        assert reader.descriptor is not None
        try:
            return reader.pool.FindMessageTypeByName(message)
        except KeyError:
            raise Untypable(f"the schema has no message {message}") from None

    def steps(self, writer: Schema) -> Step:
        return IndexedStep(lambda indexes: self._of(writer, indexes))

    def bare_steps(self, writer: Schema, header: bytes) -> Step:
        return self._of(writer, tuple(decode_indexes(header)[0]))

    def _of(self, writer: Schema, indexes: tuple[int, ...]) -> Step:
        """The wire has numbers, so only the reader's message is needed; if it is that message."""
        if not isinstance(writer, ProtobufSchema):
            return other_type(writer, "PROTOBUF")
        try:
            written = message_class(writer, indexes).DESCRIPTOR
        except BadFrame as error:
            return FailStep(str(error))
        if written.full_name != self._message.full_name:
            return FailStep(f"it is a {written.full_name}, not a {self._message.full_name}")
        return self._steps


def protobuf_steps(message: Descriptor, column: Column, within: tuple[str, ...] = ()) -> Step:
    """`column` is `new_column` of `protobuf_column(message)`."""
    if is_json(message, within):
        assert isinstance(column, BytesColumn)
        return ConvertedStep(column, _JsonText(message))
    if message.full_name in (TIMESTAMP, DURATION):
        assert isinstance(column, NumberColumn)
        return TimeStep(column)
    if message.full_name in WRAPPERS:
        # The default is that of the wrapped type, whether or not the column may be null.
        value = message.fields_by_number[1]
        step, wire = _single(value, column, within)
        return MessageStep(None, [MessageField("value", wire, step, _default(value, step))], [1])
    assert isinstance(column, StructColumn)
    inner = (*within, message.full_name)
    fields = {
        field.number: _field(field, part, inner) for field, part in zip(in_order(message), column.fields, strict=True)
    }
    for oneof in message.oneofs:
        members = [fields[field.number] for field in oneof.fields]
        for member in members:
            member.set_rivals([other for other in members if other is not member])
    return MessageStep(column, list(fields.values()), list(fields))


def _field(field: FieldDescriptor, column: Column, within: tuple[str, ...]) -> MessageField:
    if is_map(field):
        assert isinstance(column, ListColumn)
        entries = column.items
        assert isinstance(entries, StructColumn)
        assert field.message_type is not None
        step: Step = _entry(field.message_type, entries, within)
        return MessageField(field.name, BYTES, step, None, column)
    if field.is_repeated:
        assert isinstance(column, ListColumn)
        step, wire = _single(field, column.items, within)
        return MessageField(field.name, wire, step, None, column, is_packable=wire != BYTES)
    step, wire = _single(field, column, within)
    missing: Step = NullStep(column) if field.has_presence else _default(field, step)
    if field.is_required:
        missing = FailStep("a required field is missing")
    return MessageField(field.name, wire, step, missing, is_message=field.type == _F.TYPE_MESSAGE)


def _entry(entry: Descriptor, column: StructColumn, within: tuple[str, ...]) -> MessageStep:
    """The item of a map: a missing key or value has its default."""
    fields = []
    for number, part in zip((1, 2), column.fields, strict=True):
        field = entry.fields_by_number[number]
        step, wire = _single(field, part, within)
        is_message = field.type == _F.TYPE_MESSAGE
        missing = ConstantStep(step, b"") if is_message else _default(field, step)
        fields.append(MessageField(field.name, wire, step, missing, is_message=is_message))
    return MessageStep(column, fields, [1, 2])


def _single(field: FieldDescriptor, column: Column, within: tuple[str, ...]) -> tuple[Step, int]:
    """The step for one value, and its type on the wire."""
    kind = field.type
    if kind in _VARINTS:
        assert isinstance(column, NumberColumn)
        return NumberStep(column, _VARINTS[kind]), VARINT
    if kind in _FIXED:
        assert isinstance(column, NumberColumn)
        wire, meaning = _FIXED[kind]
        return FixedStep(column, meaning), wire
    if kind == _F.TYPE_BOOL:
        assert isinstance(column, BooleanColumn)
        return BoolStep(column), VARINT
    if field.message_type is not None:
        return protobuf_steps(field.message_type, column, within), BYTES
    assert isinstance(column, BytesColumn)
    if field.enum_type is not None:
        # The first of several aliases wins.
        names = {value.number: value.name.encode() for value in reversed(field.enum_type.values)}
        return EnumNameStep(column, names), VARINT
    return ContentStep(column, kind == _F.TYPE_STRING), BYTES


def _default(field: FieldDescriptor, step: Step) -> Step:
    """Without presence a field is zero, or empty, where it is missing."""
    if field.type in _FIXED:
        return ConstantStep(step, bytes(4 if _FIXED[field.type][0] == FIXED32 else 8))
    return ConstantStep(step, b"" if field.type in (_F.TYPE_STRING, _F.TYPE_BYTES) else b"\0")


class _JsonText:
    """A message as Protobuf's JSON."""

    def __init__(self, message: Descriptor) -> None:
        self._class: Any = message_factory.GetMessageClass(message)

    def __call__(self, content: bytes) -> bytes:
        try:
            found = self._class.FromString(content)
            text: str = json_format.MessageToJson(found, preserving_proto_field_name=True, indent=None)
        except (DecodeError, json_format.Error) as error:
            raise ValueError(str(error)) from None
        return text.encode()
