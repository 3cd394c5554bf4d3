# cython: language_level=3, annotation_typing=False
"""Reads numbers and runs of bytes out of a buffer, none of them past its end. One of the compiled modules."""

from __future__ import annotations

import struct
from typing import Any

from cordwood.wire.record import Buffer

try:
    import cython  # type: ignore[import-untyped]
except ImportError:
    from cordwood.wire import interpreted as cython

if cython.compiled:
    from cython.cimports.cpython.unicode import PyUnicode_DecodeUTF8  # type: ignore[import-untyped]
    from cython.cimports.libc.string import memcpy  # type: ignore[import-untyped]

_LONG_MASK = 0xFFFF_FFFF_FFFF_FFFF
_LAST_SHIFT = 63
_MOST_NESTED = 200
"""Limits the depth of values of infinitely recursive schemas: the stack is finite."""
_HIGH_BITS = 0x8080_8080_8080_8080


class Malformed(ValueError):
    """A value does not match its schema; the text says why."""


class Cursor:
    """`position` is the next byte to read, and `end` where the value ends. Raises `Malformed`."""

    data: Any

    def __init__(self, content: Buffer) -> None:
        if cython.compiled:
            self.owner = content
            if len(content) > 0:
                self.data = cython.address(self.owner[0])
        else:
            self.data = memoryview(content)
        self.position = 0
        self.end = len(content)
        self.depth = 0

    def varint(self) -> int:
        """64 bits without a sign."""
        if self.position < self.end and self.data[self.position] < 0x80:
            short: int = self.data[self.position]
            self.position += 1
            return short
        value = 0
        shift = 0
        while True:
            if self.position >= self.end:
                raise Malformed("it ends within a number")
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                whole: int = value & _LONG_MASK
                return whole
            shift += 7
            if shift > _LAST_SHIFT:
                raise Malformed("a number has more than 10 bytes")

    def zigzag(self) -> int:
        """Reads a zigzag varint of up to 64 bits."""
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def skip(self, size: int) -> int:
        """Returns where the bytes begin that are passed over."""
        if size < 0:
            raise Malformed(f"{size} bytes are declared")
        if size > self.end - self.position:
            raise Malformed(f"{size} bytes are declared where {self.end - self.position} are left")
        start = self.position
        self.position += size
        return start

    def float32(self) -> float:
        start = self.skip(4)
        if cython.compiled:
            value: Any = 0.0
            memcpy(cython.address(value), self.data + start, 4)
            return value  # type: ignore[no-any-return]
        return struct.unpack_from("<f", self.data, start)[0]  # type: ignore[no-any-return]

    def float64(self) -> float:
        start = self.skip(8)
        if cython.compiled:
            value: Any = 0.0
            memcpy(cython.address(value), self.data + start, 8)
            return value  # type: ignore[no-any-return]
        return struct.unpack_from("<d", self.data, start)[0]  # type: ignore[no-any-return]

    def fixed32(self) -> int:
        """Reads an unsigned number."""
        start = self.skip(4)
        if cython.compiled:
            value: Any = 0
            memcpy(cython.address(value), self.data + start, 4)
            return value  # type: ignore[no-any-return]
        return struct.unpack_from("<I", self.data, start)[0]  # type: ignore[no-any-return]

    def fixed64(self) -> int:
        """Reads an unsigned number."""
        start = self.skip(8)
        if cython.compiled:
            value: Any = 0
            memcpy(cython.address(value), self.data + start, 8)
            return value  # type: ignore[no-any-return]
        return struct.unpack_from("<Q", self.data, start)[0]  # type: ignore[no-any-return]

    def check_text(self, start: int, size: int) -> None:
        """Checks that the skipped bytes are UTF-8."""
        at = start
        end = start + size
        if cython.compiled:
            word: Any = 0
            while end - at >= 8:
                memcpy(cython.address(word), self.data + at, 8)
                if word & _HIGH_BITS:
                    break
                at += 8
        while at < end and self.data[at] < 0x80:
            at += 1
        if at < end:
            self.check_other_text(start, size)

    def check_other_text(self, start: int, size: int) -> None:
        """The check for text beyond ASCII."""
        try:
            if cython.compiled:
                PyUnicode_DecodeUTF8(cython.cast(cython.p_char, self.data + start), size, "strict")
            else:
                bytes(self.data[start : start + size]).decode()
        except UnicodeDecodeError:
            raise Malformed("a string is not UTF-8") from None

    def enter(self) -> None:
        """A value within a value, of a schema that may go on like that without end."""
        self.depth += 1
        if self.depth > _MOST_NESTED:
            raise Malformed(f"values are nested more than {_MOST_NESTED} levels deep")

    def leave(self) -> None:
        self.depth -= 1
