"""Kafka's primitive types: varints, strings, bytes, uuids; fixed-size integers are `struct`'s.

Readers take a buffer and a position and return the value and the next position. They raise `ValueError`, `IndexError`
or `struct.error` on missing or invalid bytes; callers convert those to `DecodeError` where a position is needed.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from struct import Struct

Buffer = bytes | bytearray | memoryview
Uuid = bytes
"""A uuid is its 16 bytes; `uuid_text` gives the 22 characters that Kafka prints."""

ZERO_UUID: Uuid = bytes(16)
MAX_STRING_BYTES = 0x7FFF

_INT16 = Struct(">h")
_INT32 = Struct(">i")


def uuid_text(uuid: Uuid) -> str:
    """URL-safe base64 without padding, as Kafka's own tools print and store it."""
    return b2a_base64(uuid, newline=False).decode().rstrip("=").replace("+", "-").replace("/", "_")


def uuid_from_text(text: str) -> Uuid:
    if len(text) != 22 or not text.isascii():
        raise ValueError(f"a uuid is 22 characters of URL-safe base64, not {text!r}")
    uuid = a2b_base64(text.replace("-", "+").replace("_", "/") + "==")
    if uuid_text(uuid) != text:
        raise ValueError(f"a uuid is 22 characters of URL-safe base64, not {text!r}")
    return uuid


def encode_uvarint(value: int) -> bytes:
    """Seven bits a byte, lowest first; at most 32 bits."""
    if not 0 <= value <= 0xFFFF_FFFF:
        raise ValueError(f"{value} is not an unsigned 32-bit integer")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode_uvarint(data: Buffer, position: int) -> tuple[int, int]:
    first = data[position]
    if first < 0x80:
        return first, position + 1
    return continue_uvarint(data, position + 1, first)


def continue_uvarint(data: Buffer, position: int, first: int) -> tuple[int, int]:
    """Reads the rest of an unsigned varint whose first byte (over 127) was already consumed."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFF_FFFF:
                break
            return value, position
    raise ValueError("an unsigned varint of more than 32 bits")


def encode_varint(value: int) -> bytes:
    """A signed 32-bit integer, zigzag."""
    if not -0x8000_0000 <= value <= 0x7FFF_FFFF:
        raise ValueError(f"{value} is not a 32-bit integer")
    return encode_uvarint((value << 1 ^ value >> 31) & 0xFFFF_FFFF)


def decode_varint(data: Buffer, position: int) -> tuple[int, int]:
    value, position = decode_uvarint(data, position)
    return value >> 1 ^ -(value & 1), position


def encode_varlong(value: int) -> bytes:
    """A signed 64-bit integer, zigzag."""
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{value} is not a 64-bit integer")
    zigzag = (value << 1 ^ value >> 63) & 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def decode_varlong(data: Buffer, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFF_FFFF_FFFF_FFFF:
                break
            return value >> 1 ^ -(value & 1), position
    raise ValueError("a varint of more than 64 bits")


def encode_string(value: str) -> bytes:
    """An int16 length, then UTF-8."""
    text = value.encode()
    if len(text) > MAX_STRING_BYTES:
        raise ValueError(f"a string of {len(text)} bytes; {MAX_STRING_BYTES} is the maximum")
    return _INT16.pack(len(text)) + text


def decode_string(data: Buffer, position: int) -> tuple[str, int]:
    length: int = _INT16.unpack_from(data, position)[0]
    text, position = take(data, position + 2, length)
    return text.decode(), position


def encode_compact_string(value: str) -> bytes:
    """An unsigned varint of the length plus one, then UTF-8."""
    text = value.encode()
    if len(text) > MAX_STRING_BYTES:
        raise ValueError(f"a string of {len(text)} bytes; {MAX_STRING_BYTES} is the maximum")
    return encode_uvarint(len(text) + 1) + text


def decode_compact_string(data: Buffer, position: int) -> tuple[str, int]:
    length, position = decode_uvarint(data, position)
    text, position = take(data, position, length - 1)
    return text.decode(), position


def encode_bytes(value: Buffer) -> bytes:
    """An int32 length, then the bytes."""
    return _INT32.pack(len(value)) + value


def decode_bytes(data: Buffer, position: int) -> tuple[bytes, int]:
    length: int = _INT32.unpack_from(data, position)[0]
    return take(data, position + 4, length)


def take(data: Buffer, position: int, length: int) -> tuple[bytes, int]:
    """Returns exactly `length` bytes; a slice alone would silently be shorter at the end of the buffer."""
    end = position + length
    if length < 0 or end > len(data):
        raise ValueError(f"a length of {length} where {len(data) - position} bytes are left")
    return bytes(data[position:end]), end
