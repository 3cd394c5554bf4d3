"""A field's default, which is JSON, in Avro's binary encoding: as if the writer had written it."""

from __future__ import annotations

import struct
from typing import Any

from cordwood.registry.schemas.avro.types import Array, Enum, Fixed, Map, Record, Type, Union


def encoded_default(kind: Type, value: Any) -> bytes:
    """Raises `ValueError` for a value that is not of the type. A union's default is of its first branch; that of any
    other branch is taken, too, as Avro 1.12 has it."""
    match kind:
        case Record() if isinstance(value, dict):
            return b"".join(_field(field, value) for field in kind.fields)
        case Array() if isinstance(value, list):
            items = b"".join(encoded_default(kind.items, item) for item in value)
            return (_long(len(value)) + items if value else b"") + b"\0"
        case Map() if isinstance(value, dict):
            entries = b"".join(_bytes(key.encode()) + encoded_default(kind.values, each) for key, each in value.items())
            return (_long(len(value)) + entries if value else b"") + b"\0"
        case Union():
            return _branch(kind, value)
        case Enum() if value in kind.symbols:
            return _long(kind.symbols.index(value))
        case Fixed() if isinstance(value, str) and len(value) == kind.size:
            return value.encode("latin-1")
    return _primitive(kind, value)


def _field(field: Any, value: dict[str, Any]) -> bytes:
    if field.name not in value and not field.has_default:
        raise ValueError(f"the default {value} has no field {field.name}")
    return encoded_default(field.type, value.get(field.name, field.default))


def _branch(kind: Union, value: Any) -> bytes:
    failure = ValueError("a union without branches has no default")
    for index, branch in enumerate(kind.branches):
        try:
            return _long(index) + encoded_default(branch, value)
        except ValueError as error:
            failure = error
    raise failure


def _primitive(kind: Type, value: Any) -> bytes:
    match kind.kind, value:
        case "null", None:
            return b""
        case "boolean", bool():
            return bytes([value])
        case (("int" | "long"), int()) if not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63:
            return _long(value)
        case (("float" | "double"), (int() | float())) if not isinstance(value, bool):
            return struct.pack("<f" if kind.kind == "float" else "<d", value)
        case "bytes", str():
            return _bytes(value.encode("latin-1"))
        case "string", str():
            return _bytes(value.encode())
    raise ValueError(f"{value!r} is not a valid {kind.kind}")


def _bytes(content: bytes) -> bytes:
    return _long(len(content)) + content


def _long(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)
