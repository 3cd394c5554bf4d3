"""Columns of random schemas: what fastavro, protobuf and json read with the same two schemas is what comes out, in the
compiled decoder and in the interpreted one. Damaged bytes cost only their own rows.

CORDWOOD_FUZZ_EXAMPLES=5000 for a longer run.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import fastavro
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cordwood.registry.schemas.parsing import parse_schema
from cordwood.registry.schemas.protobuf.schema import ProtobufSchema
from cordwood.registry.schemas.schema import Schema
from cordwood.registry.serializers.codecs import message_class
from cordwood.runtime.files.byte_files import BytesIO
from tests.registry.columns_room import COMPILED, INTERPRETED, framed

MOST_DEPTH = 3
examples = settings(
    max_examples=int(os.environ.get("CORDWOOD_FUZZ_EXAMPLES", "100")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

Rows = tuple[list[Any], list[tuple[int, str]]]


def decoded(reader: Schema, writer: Schema, values: Sequence[bytes | None]) -> Rows:
    """In both rooms, which have to agree."""
    found: Rows = COMPILED.decode(reader, values, {1: writer})
    assert repr(INTERPRETED.decode(reader, values, {1: writer})) == repr(found)
    return found


def damaged(data: st.DataObject, content: bytes) -> bytes:
    """With some other bytes, some missing or some more."""
    changed = bytearray(content)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(changed)))
        match data.draw(st.integers(0, 3)):
            case 0:
                changed[place : place + 1] = bytes([data.draw(st.integers(0, 255))])
            case 1:
                del changed[place : place + data.draw(st.integers(1, 4))]
            case 2:
                changed[place:place] = data.draw(st.binary(min_size=1, max_size=4))
            case _:
                # A large number, as the size of something.
                changed[place:place] = b"\xff" * data.draw(st.integers(1, 10)) + b"\x01"
    return bytes(changed)


def as_float32(value: float) -> float:
    found: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return found


# ---- Avro

_WIDER = {"int": ("int", "long", "float", "double"), "long": ("long", "float", "double"), "float": ("float", "double")}
_AVRO_VALUES = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=6),
    "string": st.text(max_size=6),
}
_DEFAULTS = {"boolean": True, "int": 3, "long": -(2**40), "double": 0.5, "bytes": "\u00ff", "string": "ü"}


class Avro(NamedTuple):
    writer: Any
    reader: Any
    values: st.SearchStrategy[Any]


@st.composite
def avro_types(draw: st.DrawFn, name: Callable[[], str], depth: int = 0) -> Avro:
    kinds = ["plain"] * 3 + ["enum", "fixed"] + ["record", "array", "map", "optional"] * (depth < MOST_DEPTH)
    match draw(st.sampled_from(kinds)):
        case "enum":
            return _enum(draw, name())
        case "fixed":
            size = draw(st.integers(0, 9))
            fixed = {"type": "fixed", "name": name(), "size": size}
            return Avro(fixed, fixed, st.binary(min_size=size, max_size=size))
        case "record":
            made: Avro = draw(avro_records(name, depth + 1))
            return made
        case "array":
            writer, reader, values = draw(avro_types(name, depth + 1))
            array = {"type": "array", "items": writer}
            return Avro(array, {"type": "array", "items": reader}, st.lists(values, max_size=3))
        case "map":
            writer, reader, values = draw(avro_types(name, depth + 1))
            entries = st.dictionaries(st.text(max_size=4), values, max_size=3)
            return Avro({"type": "map", "values": writer}, {"type": "map", "values": reader}, entries)
        case "optional":
            writer, reader, values = draw(avro_types(name, depth + 1).filter(lambda made: not _is_union(made)))
            return Avro(
                draw(st.permutations(["null", writer])), draw(st.permutations(["null", reader])), st.none() | values
            )
    writer = draw(st.sampled_from(sorted(_AVRO_VALUES)))
    reader = draw(st.sampled_from(_WIDER.get(writer, (writer,))))
    is_optional = draw(st.integers(0, 3)) == 0
    return Avro(writer, ["null", reader] if is_optional else reader, _AVRO_VALUES[writer])


def _is_union(made: Avro) -> bool:
    return isinstance(made.writer, list) or isinstance(made.reader, list)


def _enum(draw: st.DrawFn, name: str) -> Avro:
    symbols = ["A", "B", "C"]
    kept = draw(st.lists(st.sampled_from([*symbols, "D"]), unique=True, min_size=1))
    reader = {"type": "enum", "name": name, "symbols": kept, "default": draw(st.sampled_from(kept))}
    return Avro({"type": "enum", "name": name, "symbols": symbols}, reader, st.sampled_from(symbols))


@st.composite
def avro_records(draw: st.DrawFn, name: Callable[[], str], depth: int = 0) -> Avro:
    """The reader has some of the writer's fields, in another order, and some of its own."""
    own = name()
    written = [(f"f{number}", draw(avro_types(name, depth))) for number in range(draw(st.integers(0, 4)))]
    kept = [{"name": field, "type": made.reader} for field, made in written if draw(st.integers(0, 3))]
    new = [
        {"name": f"new{number}", "type": kind, "default": _DEFAULTS[kind]}
        for number, kind in enumerate(draw(st.lists(st.sampled_from(sorted(_DEFAULTS)), max_size=2)))
    ]
    return Avro(
        {"type": "record", "name": own, "fields": [{"name": field, "type": made.writer} for field, made in written]},
        {"type": "record", "name": own, "fields": draw(st.permutations(kept + new))},
        st.fixed_dictionaries({field: made.values for field, made in written}),
    )


@st.composite
def avro_cases(draw: st.DrawFn) -> tuple[Avro, list[Any]]:
    count = iter(range(1_000))
    made = draw(avro_records(lambda: f"N{next(count)}"))
    return made, draw(st.lists(made.values, min_size=1, max_size=4))


def avro_bytes(schema: Any, value: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def avro_row(made: Avro, payload: bytes) -> Any:
    writer, reader = fastavro.parse_schema(made.writer), fastavro.parse_schema(made.reader)
    return _as_column(made.reader, fastavro.schemaless_reader(BytesIO(payload), writer, reader))


def _as_column(schema: Any, value: Any) -> Any:
    """fastavro keeps whole numbers and further digits where the reader wants floats, and defaults are JSON."""
    if value is None:
        return None
    if isinstance(schema, list):
        return _as_column(next(branch for branch in schema if branch != "null"), value)
    match schema:
        case {"type": "record"}:
            return {each["name"]: _as_column(each["type"], value[each["name"]]) for each in schema["fields"]}
        case {"type": "array"}:
            return [_as_column(schema["items"], each) for each in value]
        case {"type": "map"}:
            return [(key, _as_column(schema["values"], each)) for key, each in value.items()]
        case "float":
            return as_float32(float(value))
        case "double":
            return float(value)
        case "bytes" if isinstance(value, str):
            return value.encode("latin-1")
    return value


def avro(schema: Any) -> Schema:
    return parse_schema("AVRO", json.dumps(schema))


@examples
@given(avro_cases())
def test_avro_of_any_two_schemas_is_read_as_fastavro_reads_it(case: tuple[Avro, list[Any]]) -> None:
    made, values = case
    payloads = [avro_bytes(made.writer, value) for value in values]
    rows, bad = decoded(avro(made.reader), avro(made.writer), [framed(payload) for payload in payloads])
    assert bad == []
    assert rows == [avro_row(made, payload) for payload in payloads]


@examples
@given(avro_cases(), st.data())
def test_damaged_avro_of_any_schema_costs_only_its_own_row(case: tuple[Avro, list[Any]], data: st.DataObject) -> None:
    made, values = case
    good = avro_bytes(made.writer, values[0])
    given_values = [framed(good), framed(damaged(data, good)), None, framed(good)]
    rows, bad = decoded(avro(made.reader), avro(made.writer), given_values)
    assert rows[0] == rows[3] == avro_row(made, good)
    assert rows[2] is None
    assert {row for row, _ in bad} <= {1}
    assert (rows[1] is None) is bool(bad)


# ---- Protobuf

_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), st.integers(-(2**31), 2**31 - 1)),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), st.integers(-(2**63), 2**63 - 1)),
    **dict.fromkeys(("uint32", "fixed32"), st.integers(0, 2**32 - 1)),
    **dict.fromkeys(("uint64", "fixed64"), st.integers(0, 2**64 - 1)),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "string": st.text(max_size=6),
    "bytes": st.binary(max_size=6),
    "Kind": st.integers(-3, 3),
}
_KEYS = sorted(_SCALARS.keys() - {"float", "double", "bytes", "Kind"})
_NUMBERS = st.sampled_from([1, 2, 3, 4, 5, 15, 16, 17, 2047, 2048, 18999, 2**29 - 1])
_LABELS = ("", "optional ", "repeated ")


@st.composite
def messages_text(draw: st.DrawFn, depth: int = 0) -> str:
    """The fields of a message: two such texts share numbers, and little else."""
    numbers = iter(draw(st.lists(_NUMBERS, unique=True, max_size=6)))
    lines = []
    for index, number in enumerate(numbers):
        name = f"f{index}"
        match draw(st.sampled_from(["scalar"] * 3 + ["map", "oneof"] + ["message"] * (2 * (depth < MOST_DEPTH)))):
            case "scalar":
                lines.append(
                    f"{draw(st.sampled_from(_LABELS))}{draw(st.sampled_from(sorted(_SCALARS)))} {name} = {number};"
                )
            case "map":
                key, value = draw(st.sampled_from(_KEYS)), draw(st.sampled_from(sorted(_SCALARS)))
                lines.append(f"map<{key}, {value}> {name} = {number};")
            case "oneof":
                members = [(name, number), *([(f"{name}b", more)] if (more := next(numbers, 0)) else [])]
                kinds = st.sampled_from(sorted(_SCALARS))
                lines.append(f"oneof way{index} {{ {' '.join(f'{draw(kinds)} {n} = {i};' for n, i in members)} }}")
            case "message":
                inner = draw(messages_text(depth + 1))
                lines.append(
                    f"message M{index} {{ {inner} }} {draw(st.sampled_from(_LABELS))}M{index} {name} = {number};"
                )
    return " ".join(lines)


def protobuf(fields: str) -> ProtobufSchema:
    text = f'syntax = "proto3"; package p; message Top {{ {fields} }} enum Kind {{ ZERO = 0; ONE = 1; NEG = -1; }}'
    schema = parse_schema("PROTOBUF", text)
    assert isinstance(schema, ProtobufSchema)
    return schema


def fill(draw: st.DrawFn | Callable[[Any], Any], message: Any) -> None:
    for field in message.DESCRIPTOR.fields:
        if not draw(st.booleans()):
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, value = (_scalar(field.message_type.fields_by_number[number]) for number in (1, 2))
            getattr(message, field.name).update(draw(st.dictionaries(key, value, max_size=3)))
        elif field.message_type is not None and field.is_repeated:
            for _ in range(draw(st.integers(0, 2))):
                fill(draw, getattr(message, field.name).add())
        elif field.message_type is not None:
            getattr(message, field.name).SetInParent()
            fill(draw, getattr(message, field.name))
        elif field.is_repeated:
            getattr(message, field.name).extend(draw(st.lists(_scalar(field), max_size=3)))
        else:
            setattr(message, field.name, draw(_scalar(field)))


_NAMES_OF_TYPES = {getattr(FieldDescriptor, f"TYPE_{name.upper()}"): name for name in _SCALARS if name != "Kind"} | {
    FieldDescriptor.TYPE_ENUM: "Kind"
}


def _scalar(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    return _SCALARS[_NAMES_OF_TYPES[field.type]]


ANYTHING = object()


def protobuf_row(message: Any) -> dict[str, Any]:
    """A message that protobuf's own library has read, as columns have it."""
    row: dict[str, Any] = {}
    others = UnknownFieldSet(message)
    unknown = {others[index].field_number for index in range(len(others))}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, inner = (field.message_type.fields_by_number[number] for number in (1, 2))
            if field.number in unknown:
                # The library passes over an entry with a field that it does not know; Java's takes it, as we do.
                row[field.name] = ANYTHING
                continue
            row[field.name] = sorted((_shown(key, each), _shown(inner, value[each])) for each in value)
        elif field.is_repeated:
            row[field.name] = [_shown(field, each) for each in value]
        elif field.has_presence and not message.HasField(field.name):
            row[field.name] = None
        else:
            row[field.name] = _shown(field, value)
    return row


def _shown(field: FieldDescriptor, value: Any) -> Any:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    if field.message_type is not None:
        return protobuf_row(value)
    return Decimal(value) if field.type in (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64) else value


def is_like(expected: Any, found: Any) -> bool:
    """NaN is like itself. Maps have what they have on the wire: a key may come again, and the last one counts."""
    if expected is ANYTHING:
        return True
    if isinstance(expected, dict) and isinstance(found, dict):
        return expected.keys() == found.keys() and all(is_like(expected[name], found[name]) for name in expected)
    if isinstance(expected, list) and isinstance(found, list):
        if found and isinstance(found[0], tuple):
            return repr(expected) == repr(sorted(dict(found).items()))
        return len(expected) == len(found) and all(map(is_like, expected, found))
    return repr(expected) == repr(found)


def check_protobuf(reader: ProtobufSchema, writer: ProtobufSchema, payload: bytes, good: bytes) -> None:
    values = [framed(b"\0" + good), framed(b"\0" + payload), None, framed(b"\0" + good)]
    rows, bad = decoded(reader, writer, values)
    reasons = dict(bad)
    message_of: Any = message_class(reader, (0,))
    assert rows[2] is None
    for row, content in ((0, good), (1, payload), (3, good)):
        try:
            message = message_of.FromString(content)
        except DecodeError:
            assert row in reasons
        else:
            # The library overlooks it in a message that has no fields.
            if "a field has the number 0" not in reasons.get(row, ""):
                assert row not in reasons, reasons
                assert is_like(protobuf_row(message), rows[row]), (protobuf_row(message), rows[row])
        assert (rows[row] is None) is (row in reasons)


@examples
@given(messages_text(), messages_text(), st.data())
def test_protobuf_of_any_two_schemas_is_read_as_protobuf_reads_it(
    reader: str, writer: str, data: st.DataObject
) -> None:
    written: Any = message_class(protobuf(writer), (0,))()
    fill(data.draw, written)
    payload = written.SerializeToString()
    check_protobuf(protobuf(writer), protobuf(writer), payload, payload)
    check_protobuf(protobuf(reader), protobuf(writer), payload, b"")


@examples
@given(messages_text(), st.data())
def test_damaged_protobuf_of_any_schema_is_refused_as_protobuf_refuses_it(text: str, data: st.DataObject) -> None:
    schema = protobuf(text)
    written: Any = message_class(schema, (0,))()
    fill(data.draw, written)
    good = written.SerializeToString()
    check_protobuf(schema, schema, damaged(data, good), good)


# ---- JSON

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_JSON_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": _TEXTS,
    "integer": st.integers(-(2**63), 2**63 - 1),
    "number": st.floats(allow_nan=False, allow_infinity=False),
    "boolean": st.booleans(),
}


class Text:
    """The column is the text of this value."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and json.loads(other) == self.value

    def __hash__(self) -> int:
        return 0


class Json(NamedTuple):
    schema: Any
    values: st.SearchStrategy[Any]
    row: Callable[[Any], Any]
    """A value as the column has it."""


def _nothing_else(value: Any) -> Any:
    return value


@st.composite
def json_types(draw: st.DrawFn, depth: int = 0) -> Json:
    kinds = ["plain"] * 3 + ["text"] + ["object", "array", "map", "nullable"] * (depth < MOST_DEPTH)
    match draw(st.sampled_from(kinds)):
        case "text":
            # No column has a type for these.
            schema = draw(st.sampled_from([True, {}, {"type": ["string", "integer"]}, {"type": "array"}]))
            plain: st.SearchStrategy[Any] = st.one_of(*_JSON_VALUES.values())
            return Json(schema, plain | st.lists(plain, max_size=2) | st.dictionaries(_TEXTS, plain, max_size=2), Text)
        case "object":
            made: Json = draw(json_objects(depth + 1))
            return made
        case "array":
            inner = draw(json_types(depth + 1))
            rows = _rows(inner)
            array = {"type": "array", "items": inner.schema}
            return Json(array, st.lists(_or_null(inner), max_size=3), lambda value: [rows(each) for each in value])
        case "map":
            inner = draw(json_types(depth + 1))
            rows = _rows(inner)
            return Json(
                {"type": "object", "additionalProperties": inner.schema},
                st.dictionaries(_TEXTS, _or_null(inner), max_size=3),
                # What may have any properties by default is not a map.
                Text if inner.schema is True else lambda value: [(key, rows(each)) for key, each in value.items()],
            )
        case "nullable":
            inner = draw(json_types(depth + 1))
            schema = draw(st.sampled_from([{"anyOf": [{"type": "null"}, inner.schema]}, inner.schema]))
            return Json(schema, _or_null(inner), _rows(inner))
    kind = draw(st.sampled_from(sorted(_JSON_VALUES)))
    return Json({"type": kind}, _JSON_VALUES[kind], _nothing_else)


def _or_null(inner: Json) -> st.SearchStrategy[Any]:
    return st.none() | inner.values


def _rows(inner: Json) -> Callable[[Any], Any]:
    return lambda value: None if value is None else inner.row(value)


@st.composite
def json_objects(draw: st.DrawFn, depth: int = 0) -> Json:
    """Values may lack properties, and have others than the schema."""
    names = draw(st.lists(_TEXTS.filter(lambda name: name != "also"), unique=True, min_size=1, max_size=4))
    fields = {name: draw(json_types(depth)) for name in names}
    values = st.fixed_dictionaries(
        {}, optional={name: _or_null(made) for name, made in fields.items()} | {"also": _JSON_VALUES["string"]}
    )

    def row(value: Any) -> Any:
        return {name: _rows(made)(value.get(name)) for name, made in fields.items()}

    return Json({"type": "object", "properties": {name: made.schema for name, made in fields.items()}}, values, row)


@st.composite
def json_cases(draw: st.DrawFn) -> tuple[Json, list[Any]]:
    made = draw(json_objects())
    return made, draw(st.lists(made.values, min_size=1, max_size=3))


@examples
@given(json_cases(), st.booleans())
def test_json_of_any_schema_is_read_as_python_reads_it(case: tuple[Json, list[Any]], is_ascii: bool) -> None:
    made, values = case
    schema = parse_schema("JSON", json.dumps(made.schema))
    texts = [json.dumps(value, ensure_ascii=is_ascii).encode() for value in values]
    rows, bad = decoded(schema, schema, [framed(text) for text in texts])
    assert bad == []
    assert [made.row(value) for value in values] == rows


@examples
@given(json_cases(), st.data())
def test_damaged_json_of_any_schema_costs_only_its_own_row(case: tuple[Json, list[Any]], data: st.DataObject) -> None:
    made, values = case
    schema = parse_schema("JSON", json.dumps(made.schema))
    good = json.dumps(values[0], ensure_ascii=False).encode()
    broken = damaged(data, good)
    rows, bad = decoded(schema, schema, [framed(good), framed(broken), None, framed(good)])
    assert [made.row(values[0])] * 2 == [rows[0], rows[3]]
    assert rows[2] is None
    assert {row for row, _ in bad} <= {1}
    if not bad:
        # Accepted texts are JSON for Python, too.
        assert isinstance(json.loads(broken.decode()), dict | None)
