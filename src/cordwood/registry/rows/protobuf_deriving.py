"""A Protobuf schema for columns: one message, with the messages of its nested columns within it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from google.protobuf.descriptor import Descriptor

from cordwood.registry.rows.arrays import is_bytes, is_integer, is_list, is_text
from cordwood.registry.rows.row_encoder import CannotEncode
from cordwood.registry.schemas.protobuf.schema import ProtobufSchema
from cordwood.registry.serializers.codecs import message_descriptor

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TIMESTAMP = "google.protobuf.Timestamp"
# Protobuf keeps these numbers for itself.
_KEPT_NUMBERS = range(19_000, 20_000)


def derived_protobuf(rows: pa.StructType, name: str, latest: ProtobufSchema | None) -> str:
    """Raises `CannotEncode`."""
    known = None
    if latest is not None and latest.file.messages:
        known = message_descriptor(latest, (0,))
    message = _message(rows, known.name if known is not None else name, "value", known, "")
    lines = ['syntax = "proto3";']
    if latest is not None and latest.file.package:
        lines.append(f"package {latest.file.package};")
    if any(_TIMESTAMP in line for line in message):
        lines.append('import "google/protobuf/timestamp.proto";')
    return "\n".join([*lines, *message]) + "\n"


def _message(kind: pa.StructType, name: str, path: str, latest: Descriptor | None, indent: str) -> list[str]:
    lines = [f"{indent}message {name} {{"]
    numbers = {} if latest is None else {field.name: field.number for field in latest.fields}
    following = max([*numbers.values(), *_reserved(latest), 0]) + 1
    for at in range(kind.num_fields):
        field = kind.field(at)
        if not _NAME.fullmatch(field.name):
            raise CannotEncode(f"{path}.{field.name}: Protobuf's names have letters, digits and _ only; rename it")
        number = numbers.get(field.name)
        if number is None:
            number = following if following not in _KEPT_NUMBERS else _KEPT_NUMBERS.stop
            following = number + 1
        lines += _field(field, number, f"{path}.{field.name}", latest, f"{indent}  ")
    gone = sorted({*_reserved(latest), *(number for name, number in numbers.items() if kind.get_field_index(name) < 0)})
    if gone:
        lines.append(f"{indent}  reserved {', '.join(map(str, gone))};")
    return [*lines, f"{indent}}}"]


def _reserved(latest: Descriptor | None) -> list[int]:
    if latest is None:
        return []
    from google.protobuf.descriptor_pb2 import DescriptorProto

    proto = DescriptorProto()
    latest.CopyToProto(proto)
    return [number for each in proto.reserved_range for number in range(each.start, min(each.end, each.start + 1_000))]


def _field(field: pa.Field, number: int, path: str, latest: Descriptor | None, indent: str) -> list[str]:
    import pyarrow as pa

    kind = field.type
    if is_list(kind):
        lines, of = _type(kind.value_type, field.name, f"{path}[]", latest, indent)
        return [*lines, f"{indent}repeated {of} {field.name} = {number};"]
    if pa.types.is_map(kind):
        key = "string" if is_text(kind.key_type) else _leaf(kind.key_type, f"{path}.key")
        if key in ("float", "double", "bytes", _TIMESTAMP):
            raise CannotEncode(f"{path} is a map with keys of type {kind.key_type}, which Protobuf does not have")
        lines, of = _type(kind.item_type, field.name, f"{path}{{}}", latest, indent)
        return [*lines, f"{indent}map<{key}, {of}> {field.name} = {number};"]
    lines, of = _type(kind, field.name, path, latest, indent)
    has_presence = pa.types.is_struct(kind) or of == _TIMESTAMP
    label = "optional " if field.nullable and not has_presence else ""
    return [*lines, f"{indent}{label}{of} {field.name} = {number};"]


def _type(kind: pa.DataType, name: str, path: str, latest: Descriptor | None, indent: str) -> tuple[list[str], str]:
    """The lines of a message to be declared first, if it needs one, and the type's name."""
    import pyarrow as pa

    if is_list(kind) or pa.types.is_map(kind):
        raise CannotEncode(f"{path} is of type {kind}; Protobuf's lists and maps hold none: put it into a struct")
    if not pa.types.is_struct(kind):
        return [], _leaf(kind, path)
    known = _nested_in(latest, name)
    of = known.name if known is not None else "".join(word[:1].upper() + word[1:] for word in name.split("_")) or "_"
    return _message(kind, of, path, known, indent), of


def _nested_in(latest: Descriptor | None, name: str) -> Descriptor | None:
    """The message that a field had, if it was declared within."""
    field = None if latest is None else latest.fields_by_name.get(name)
    message = None if field is None else field.message_type
    if message is not None and message.GetOptions().map_entry:
        message = message.fields_by_name["value"].message_type
    return message if message is not None and message.containing_type is latest else None


def _leaf(kind: pa.DataType, path: str) -> str:
    import pyarrow as pa

    if pa.types.is_boolean(kind):
        return "bool"
    if is_integer(kind):
        return "int32" if kind.bit_width <= 32 else "int64"
    if pa.types.is_float32(kind):
        return "float"
    if pa.types.is_float64(kind):
        return "double"
    if is_text(kind):
        return "string"
    if is_bytes(kind):
        return "bytes"
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return _TIMESTAMP
    raise CannotEncode(f"{path} is of type {kind}, which Protobuf has no type for; cast the column, to string perhaps")
