# cython: language_level=3, annotation_typing=False
"""Renders records as text by a layout such as "offset, tab, value, newline", without an object per record.

Part of the compiled room (see `records`).

>>> text = RecordText([TextField.OFFSET, b"\\t", TextField.VALUE, b"\\n"])
>>> text.read(reader, 1000, MAX_OFFSET)  # of a BatchReader
>>> sys.stdout.buffer.write(text.take())
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import IntEnum
from json.encoder import encode_basestring
from typing import Any

from cordwood.wire.record import NO_TIMESTAMP
from cordwood.wire.record_stream import RecordCursor
from cordwood.wire.records import BatchReader

try:
    import cython  # type: ignore[import-untyped]
except ImportError:
    from cordwood.wire import interpreted as cython

if cython.compiled:
    from cython.cimports.cpython.bytearray import (  # type: ignore[import-untyped]
        PyByteArray_AsString,
        PyByteArray_Resize,
    )
    from cython.cimports.libc.string import memcpy  # type: ignore[import-untyped]

MAX_OFFSET = 2**63 - 1


class TextField(IntEnum):
    """Fields of a layout; bytes in a layout are literal."""

    TOPIC = 1
    PARTITION = 2
    OFFSET = 3
    TIMESTAMP = 4
    """Milliseconds; -1 for none."""
    TIME = 5
    """ISO 8601 in UTC; "-" for none."""
    KEY = 6
    VALUE = 7
    HEADERS = 8
    """name=value, separated by commas."""
    KEY_SIZE = 9
    VALUE_SIZE = 10
    """-1 for null, as of the key."""
    JSON_TOPIC = 11
    JSON_TIMESTAMP = 12
    """Milliseconds, or null."""
    JSON_KEY = 13
    """A member of an object: "key": "text", or "keyBase64": "…" where the bytes are not UTF-8."""
    JSON_VALUE = 14
    JSON_HEADERS = 15
    """An array of objects with a "name" and a "value"."""


# Enum values as C integers.
LITERAL = 0
(
    TOPIC,
    PARTITION,
    OFFSET,
    TIMESTAMP,
    TIME,
    KEY,
    VALUE,
    HEADERS,
    KEY_SIZE,
    VALUE_SIZE,
    JSON_TOPIC,
    JSON_TIMESTAMP,
    JSON_KEY,
    JSON_VALUE,
    JSON_HEADERS,
) = (int(field) for field in TextField)

# Escapes inside JSON strings by byte: itself (0), a backslash and this character, or \u00XX (1).
ESCAPES = bytearray(256)
for _control in range(0x20):
    ESCAPES[_control] = 1
for _byte, _letter in zip(b'"\\\n\r\t\f\b', b'"\\nrtfb', strict=True):
    ESCAPES[_byte] = _letter
HEX_DIGITS = b"0123456789abcdef"
LONGEST_ESCAPE = 6


class RecordText:
    """Accumulates the text of records. `null` is printed for a null key, value or header value."""

    data: Any
    escapes: Any

    def __init__(self, layout: Sequence[bytes | TextField], null: bytes = b"") -> None:
        self.fields = bytes(LITERAL if isinstance(piece, bytes) else int(piece) for piece in layout)
        self.literals = [piece if isinstance(piece, bytes) else b"" for piece in layout]
        self.null = null
        self.topic = b""
        self.json_topic = b""
        self.partition = 0
        self.buffer = bytearray()
        self.escape_bytes = ESCAPES
        if cython.compiled:
            self.position = 0
            self.capacity = 0
            self.escapes = cython.cast(cython.p_uchar, PyByteArray_AsString(self.escape_bytes))
            self.reserve(0)

    def read(self, reader: BatchReader, most: int, end_offset: int) -> int:
        """Appends up to `most` of the batch's next records, excluding those from `end_offset` on, and returns their
        number. `reader.left` bounds how many may follow."""
        cursor: Any = reader.cursor
        self.topic = reader.topic.encode()
        self.json_topic = encode_basestring(reader.topic).encode()
        self.partition = reader.partition
        written = 0
        while written < most and reader.left > 0:
            cursor.advance()
            reader.left -= 1
            reader.next_offset = cursor.offset + 1
            if reader.start_offset <= cursor.offset < end_offset:
                self.add(cursor)
                written += 1
        if reader.left == 0 and cursor is not None:
            cursor.finish()
            reader.cursor = None
        return written

    def take(self) -> bytearray:
        """Returns and clears the accumulated text."""
        taken = self.buffer
        if cython.compiled:
            PyByteArray_Resize(taken, self.position)
            self.position = 0
            self.capacity = 0
        self.buffer = bytearray()
        self.reserve(0)
        return taken

    def add(self, cursor: RecordCursor) -> None:
        """Appends the cursor's current record."""
        for index in range(len(self.fields)):
            field = self.fields[index]
            if field == LITERAL:
                self.put(self.literals[index])
            elif field == VALUE:
                self.put_field(cursor, cursor.value_start, cursor.value_size)
            elif field == KEY:
                self.put_field(cursor, cursor.key_start, cursor.key_size)
            elif field == OFFSET:
                self.put_number(cursor.offset)
            elif field == JSON_VALUE:
                self.put_member(b'"value', cursor, cursor.value_start, cursor.value_size)
            elif field == JSON_KEY:
                self.put_member(b'"key', cursor, cursor.key_start, cursor.key_size)
            elif field == JSON_HEADERS:
                self.put_json_headers(cursor)
            elif field == JSON_TIMESTAMP:
                if cursor.timestamp == NO_TIMESTAMP:
                    self.put(b"null")
                else:
                    self.put_number(cursor.timestamp)
            elif field == JSON_TOPIC:
                self.put(self.json_topic)
            elif field == PARTITION:
                self.put_number(self.partition)
            elif field == TIMESTAMP:
                self.put_number(cursor.timestamp)
            elif field == TOPIC:
                self.put(self.topic)
            elif field == KEY_SIZE:
                self.put_number(max(cursor.key_size, -1))
            elif field == VALUE_SIZE:
                self.put_number(max(cursor.value_size, -1))
            elif field == HEADERS:
                self.put_headers(cursor)
            else:
                self.put(_time(cursor.timestamp))

    def reserve(self, size: int) -> None:
        """Reserves space; every following write must fit into it."""
        if cython.compiled and (self.position + size > self.capacity or self.data == cython.NULL):
            self.capacity = max(2 * self.capacity, 4096, self.position + size)
            PyByteArray_Resize(self.buffer, self.capacity)
            self.data = cython.cast(cython.p_uchar, PyByteArray_AsString(self.buffer))

    def put(self, contents: bytes) -> None:
        if cython.compiled:
            size = len(contents)
            self.reserve(size)
            memcpy(self.data + self.position, cython.cast(cython.p_char, contents), size)
            self.position += size
        else:
            self.buffer += contents

    def put_field(self, cursor: RecordCursor, start: int, size: int) -> None:
        if size < 0:
            self.put(self.null)
        elif cython.compiled:
            self.reserve(size)
            memcpy(self.data + self.position, cursor.data + start, size)
            self.position += size
        else:
            self.buffer += cursor.data[start : start + size]

    def put_number(self, number: int) -> None:
        if cython.compiled:
            self.reserve(20)
            rest = cython.cast(cython.ulonglong, number)
            if number < 0:
                self.data[self.position] = ord("-")
                self.position += 1
                rest = 0 - rest
            digits = 1
            power = rest // 10
            while power > 0:
                digits += 1
                power //= 10
            at = self.position + digits
            self.position = at
            while digits > 0:
                at -= 1
                digits -= 1
                self.data[at] = ord("0") + rest % 10
                rest //= 10
        else:
            self.buffer += b"%d" % number

    def put_headers(self, cursor: RecordCursor) -> None:
        if cursor.header_count > 0:
            pieces = [
                name.encode() + b"=" + (self.null if content is None else content) for name, content in cursor.headers()
            ]
            self.put(b",".join(pieces))

    def put_json_headers(self, cursor: RecordCursor) -> None:
        self.put(b"[")
        resume = cursor.position
        cursor.position = cursor.headers_start
        for index in range(cursor.header_count):
            self.put(b'{"name": ' if index == 0 else b', {"name": ')
            size = cursor.varint(cursor.headers_end)
            start = cursor.skip(size, cursor.headers_end)
            if not self.put_json_text(cursor, start, size):
                # Java also replaces invalid UTF-8.
                name = cursor.copied(start, size)
                self.put(encode_basestring(name.decode("utf-8", "replace")).encode())  # type: ignore[union-attr]
            self.put(b", ")
            size = cursor.varint(cursor.headers_end)
            start = cursor.skip(size, cursor.headers_end)
            self.put_member(b'"value', cursor, start, size)
            self.put(b"}")
        cursor.position = resume
        self.put(b"]")

    def put_member(self, name: bytes, cursor: RecordCursor, start: int, size: int) -> None:
        """Appends a member of a JSON object; the name includes its opening quote."""
        before = self.position if cython.compiled else len(self.buffer)
        self.put(name)
        self.put(b'": ')
        if size < 0:
            self.put(b"null")
        elif not self.put_json_text(cursor, start, size):
            if cython.compiled:
                self.position = before
            else:
                del self.buffer[before:]
            self.put(name)
            self.put(b'Base64": "')
            self.put(b2a_base64(cursor.copied(start, size), newline=False))  # type: ignore[arg-type]
            self.put(b'"')

    def put_json_text(self, cursor: RecordCursor, start: int, size: int) -> bool:
        """Appends a quoted string; writes nothing and returns False if the bytes are not UTF-8."""
        if cython.compiled:
            self.reserve(LONGEST_ESCAPE * size + 2)
            written = self.escape(cursor.data + start, size, self.data + self.position)
            self.position += written
            return written > 0
        try:
            text = bytes(cursor.data[start : start + size]).decode()
        except UnicodeDecodeError:
            return False
        self.buffer += encode_basestring(text).encode()
        return True

    def escape(self, source: Any, size: int, target: Any) -> int:
        """Writes these bytes as a JSON string and returns its length; 0 if they are not UTF-8. Compiled only."""
        target[0] = ord('"')
        at = 0
        written = 1
        while at < size:
            byte = source[at]
            if byte < 0x80:
                letter = self.escapes[byte]
                if letter == 0:
                    target[written] = byte
                    written += 1
                elif letter == 1:
                    memcpy(target + written, cython.cast(cython.p_char, b"\\u00"), 4)
                    target[written + 4] = HEX_DIGITS[byte >> 4]
                    target[written + 5] = HEX_DIGITS[byte & 15]
                    written += 6
                else:
                    target[written] = ord("\\")
                    target[written + 1] = letter
                    written += 2
                at += 1
            else:
                length = character_size(source + at, size - at)
                if length == 0:
                    return 0
                memcpy(target + written, source + at, length)
                written += length
                at += length
        target[written] = ord('"')
        return written + 1


def character_size(source: Any, size: int) -> int:
    """Bytes of a valid non-ASCII UTF-8 character (no surrogates, no overlong encodings), or 0. Compiled only."""
    first = source[0]
    length = 2 if 0xC2 <= first <= 0xDF else 3 if 0xE0 <= first <= 0xEF else 4 if 0xF0 <= first <= 0xF4 else 0
    if length == 0 or length > size:
        return 0
    for index in range(1, length):
        if source[index] & 0xC0 != 0x80:
            return 0
    second = source[1]
    if first == 0xE0:
        return length if second >= 0xA0 else 0
    if first == 0xED:
        return length if second <= 0x9F else 0
    if first == 0xF0:
        return length if second >= 0x90 else 0
    if first == 0xF4:
        return length if second <= 0x8F else 0
    return length


def _time(timestamp_ms: int) -> bytes:
    if timestamp_ms == NO_TIMESTAMP:
        return b"-"
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").encode()
    except (OverflowError, ValueError, OSError):
        # A producer may write any number; one beyond the calendar is printed as a number.
        return b"%d" % timestamp_ms
