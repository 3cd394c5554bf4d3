"""The reference from a record to its schema: a prefix of 5 bytes with the id, or a header with the guid."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable, Mapping, Sequence

from cordwood.registry.client import RegisteredSchema

_PREFIX = struct.Struct(">bi")
_MAGIC_ID, _MAGIC_GUID = 0, 1
KEY_HEADER, VALUE_HEADER = "__key_schema_id", "__value_schema_id"

Headers = Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]]


class BadFrame(ValueError):
    """The bytes do not name a schema."""


def prefix(schema: RegisteredSchema, indexes: bytes = b"") -> bytes:
    return _PREFIX.pack(_MAGIC_ID, schema.id) + indexes


def header(schema: RegisteredSchema, indexes: bytes = b"") -> bytes:
    return bytes([_MAGIC_GUID]) + uuid.UUID(schema.guid).bytes + indexes


def split_prefix(data: bytes) -> tuple[int, bytes]:
    """Returns the id and the rest. Raises `BadFrame`."""
    if len(data) < _PREFIX.size or data[0] != _MAGIC_ID:
        raise BadFrame(f"the record does not begin with a schema id: {data[:8]!r}")
    return _PREFIX.unpack_from(data)[1], data[_PREFIX.size :]


def split_header(value: bytes) -> tuple[str, bytes]:
    """Returns the guid and the rest. Raises `BadFrame`."""
    if len(value) < 17 or value[0] != _MAGIC_GUID:
        raise BadFrame(f"the header does not have a schema guid: {value[:20]!r}")
    return str(uuid.UUID(bytes=value[1:17])), value[17:]


def header_of(headers: Headers, *, is_key: bool) -> bytes | None:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    wanted = KEY_HEADER if is_key else VALUE_HEADER
    return next((value for name, value in pairs if name == wanted), None)


# ---- which message of a Protobuf file: the way to it, as varints with zigzag


def encode_indexes(indexes: Sequence[int]) -> bytes:
    if list(indexes) == [0]:
        return b"\x00"
    return b"".join(_varint(number) for number in (len(indexes), *indexes))


def _varint(number: int) -> bytes:
    value = number << 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode_indexes(data: bytes) -> tuple[list[int], bytes]:
    """Returns the indexes and the rest. Raises `BadFrame`."""
    count, at = _read_varint(data, 0)
    if count == 0:
        return [0], data[at:]
    indexes = []
    for _ in range(min(count, len(data))):
        index, at = _read_varint(data, at)
        indexes.append(index)
    return indexes, data[at:]


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 35:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value >> 1, at
        shift += 7
    raise BadFrame("the message indexes are cut off")
