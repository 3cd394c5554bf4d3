# cython: language_level=3, annotation_typing=False
"""Splits lines into columns: text at a delimiter, and each line at its key separator, without an object per line.

One of the compiled modules (see `records`). `column_input` encodes the result as batches.
"""

from __future__ import annotations

from array import array
from typing import Any

from cordwood.wire.column_input import BinaryInput

try:
    import cython  # type: ignore[import-untyped]
except ImportError:
    from cordwood.wire import interpreted as cython

if cython.compiled:
    from cython.cimports.cpython.bytearray import (  # type: ignore[import-untyped]
        PyByteArray_AsString,
        PyByteArray_Resize,
    )
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING  # type: ignore[import-untyped]
    from cython.cimports.libc.string import memchr, memcmp  # type: ignore[import-untyped]

MAX_TEXT_BYTES = 2**31 - 1
"""The limit of 32-bit positions."""


class LineColumns:
    """The whole lines of `text`, up to the first line without the key separator, if any.

    With `is_last`, non-empty text after the last delimiter is a line, too. A key or value that equals `null` is null.
    """

    keys: BinaryInput | None
    """None without a key separator."""
    values: BinaryInput

    def __init__(
        self, text: bytes, delimiter: bytes, key_separator: bytes | None, null: bytes | None, is_last: bool
    ) -> None:
        if not delimiter or key_separator == b"":
            raise ValueError("an empty delimiter or key separator")
        if len(text) > MAX_TEXT_BYTES:
            raise ValueError(f"{len(text)} bytes of text; cut it into pieces of at most {MAX_TEXT_BYTES}")
        self.count = 0
        """Number of lines found."""
        self.end = 0
        """The position of the text after them."""
        self.lacks_separator = False
        """The line there has no key separator."""
        self.value_spans = Spans(text, null)
        self.key_spans = Spans(text, null) if key_separator is not None else None
        self.split(text, delimiter, key_separator if key_separator is not None else b"", is_last)
        self.values = self.value_spans.column()
        self.keys = self.key_spans.column() if self.key_spans is not None else None

    def split(self, text: bytes, delimiter: bytes, key_separator: bytes, is_last: bool) -> None:
        size = len(text)
        start = 0
        while start < size:
            end = find(text, start, size, delimiter)
            following = end + len(delimiter)
            if end < 0:
                if not is_last:
                    break
                end = following = size
            value_start = start
            if self.key_spans is not None:
                separator = find(text, start, end, key_separator)
                if separator < 0:
                    self.lacks_separator = True
                    break
                self.key_spans.add(start, separator)
                value_start = separator + len(key_separator)
            self.value_spans.add(value_start, end)
            self.count += 1
            self.end = start = following


class Spans:
    """Pieces of a text, in insertion order; one that equals `null` is null."""

    places: Any

    def __init__(self, text: bytes, null: bytes | None) -> None:
        self.text = text
        self.null = null
        self.count = 0
        self.capacity = 0
        self.null_indexes: list[int] = []
        self.place_bytes: Any = bytearray() if cython.compiled else array("i")

    def add(self, start: int, end: int) -> None:
        if self.null is not None and end - start == len(self.null) and self.text[start:end] == self.null:
            self.null_indexes.append(self.count)
        if cython.compiled:
            if self.count == self.capacity:
                self.capacity = max(1024, 2 * self.capacity)
                PyByteArray_Resize(self.place_bytes, 8 * self.capacity)
                self.places = cython.cast(cython.p_int, PyByteArray_AsString(self.place_bytes))
            self.places[2 * self.count] = start
            self.places[2 * self.count + 1] = end
        else:
            self.place_bytes.extend((start, end))
        self.count += 1

    def column(self) -> BinaryInput:
        validity = None
        if self.null_indexes:
            validity = bytearray(b"\xff") * ((self.count + 7) // 8)
            for index in self.null_indexes:
                validity[index >> 3] &= ~(1 << (index & 7)) & 0xFF
        return BinaryInput(self.count, 0, validity, memoryview(self.place_bytes).cast("B"), self.text, False, 2)


def find(text: bytes, start: int, end: int, needle: bytes) -> int:
    """Returns where `needle` first occurs within these bounds, or -1."""
    if cython.compiled:
        data = cython.cast(cython.p_char, PyBytes_AS_STRING(text))
        wanted = cython.cast(cython.p_char, PyBytes_AS_STRING(needle))
        size = len(needle)
        while start + size <= end:
            found = cython.cast(cython.p_char, memchr(data + start, wanted[0], end - start - size + 1))
            if found == cython.NULL:
                return -1
            if size == 1 or memcmp(found, wanted, size) == 0:
                at: int = found - data
                return at
            start = found - data + 1
        return -1
    return text.find(needle, start, end)
