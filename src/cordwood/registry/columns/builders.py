# cython: language_level=3, annotation_typing=False
"""Columns that grow by one value at a time, in Arrow's layout, and can remove the values of a bad record. One of the
compiled modules.

Numbers are in native byte order, validity is bits from the lowest on, and text is one run of bytes with offsets into
it. `arrays` creates them for Arrow types, and converts them to arrays.
"""

from __future__ import annotations

import struct
from typing import Any

from .cursor import Cursor

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

_SMALLEST = 64
_LARGEST = 2**31 - 1

Parts = tuple[int, list[bytearray | None], list[Any]]
"""The number of values, Arrow's buffers, and the columns within."""


class ColumnTooLarge(ValueError):
    """Arrow's offsets have 32 bits."""


class Growing:
    """Bytes that are added at the end."""

    data: Any

    def __init__(self) -> None:
        self.size = 0
        self.capacity = 0
        self.renew(_SMALLEST)

    def renew(self, capacity: int) -> None:
        self.content = bytearray(capacity)
        self.capacity = capacity
        self.size = 0
        if cython.compiled:
            self.data = cython.cast(cython.p_uchar, PyByteArray_AsString(self.content))

    def reserve(self, size: int) -> None:
        if size > self.capacity - self.size:
            self.grow(size)

    def grow(self, size: int) -> None:
        if size > _LARGEST - self.size:
            raise ColumnTooLarge(f"a column of more than {_LARGEST} bytes: decode fewer records at a time")
        capacity = max(2 * self.capacity, self.size + size)
        if cython.compiled:
            PyByteArray_Resize(self.content, capacity)
            self.data = cython.cast(cython.p_uchar, PyByteArray_AsString(self.content))
        else:
            self.content.extend(bytes(capacity - self.capacity))
        self.capacity = capacity

    def put_int32(self, value: int) -> None:
        self.reserve(4)
        if cython.compiled:
            cython.cast(cython.p_int, self.data + self.size)[0] = value
        else:
            struct.pack_into("<i", self.content, self.size, value)
        self.size += 4

    def put_int64(self, value: int) -> None:
        self.reserve(8)
        if cython.compiled:
            cython.cast(cython.p_longlong, self.data + self.size)[0] = value
        else:
            struct.pack_into("<q", self.content, self.size, value)
        self.size += 8

    def put_float32(self, value: float) -> None:
        self.reserve(4)
        if cython.compiled:
            cython.cast(cython.p_float, self.data + self.size)[0] = value
        else:
            struct.pack_into("<I", self.content, self.size, _float32_bits(value))
        self.size += 4

    def put_float64(self, value: float) -> None:
        self.reserve(8)
        if cython.compiled:
            cython.cast(cython.p_double, self.data + self.size)[0] = value
        else:
            struct.pack_into("<d", self.content, self.size, value)
        self.size += 8

    def put_bytes(self, cursor: Cursor, start: int, size: int) -> None:
        """Appends the bytes that the cursor has skipped."""
        self.reserve(size)
        if cython.compiled:
            memcpy(self.data + self.size, cursor.data + start, size)
        else:
            self.content[self.size : self.size + size] = cursor.data[start : start + size]
        self.size += size

    def put_byte(self, value: int) -> None:
        self.reserve(1)
        if cython.compiled:
            self.data[self.size] = value
        else:
            self.content[self.size] = value
        self.size += 1

    def put_zeros(self, size: int) -> None:
        for _ in range(size):
            self.put_byte(0)

    def put_bit(self, index: int, bit: bool) -> None:
        """Writes the bits in order, or again from an earlier position."""
        place = index >> 3
        if place >= self.capacity:
            self.size = place
            self.grow(1)
        mask = 1 << (index & 7)
        if cython.compiled:
            self.data[place] = (self.data[place] & ~mask) | (mask if bit else 0)
        else:
            self.content[place] = (self.content[place] & ~mask & 0xFF) | (mask if bit else 0)
        self.size = place + 1

    def int32_at(self, index: int) -> int:
        if cython.compiled:
            return cython.cast(cython.p_int, self.data)[index]  # type: ignore[no-any-return]
        return struct.unpack_from("<i", self.content, 4 * index)[0]  # type: ignore[no-any-return]

    def take(self) -> bytearray:
        """Returns the contents, and starts an empty buffer of the same capacity."""
        taken = self.content
        size = self.size
        if cython.compiled:
            PyByteArray_Resize(taken, size)
        else:
            del taken[size:]
        self.renew(max(_SMALLEST, size + 8))
        return taken


def _float32_bits(value: float) -> int:
    """Narrows like a C compiler: too large a number is infinite."""
    try:
        return struct.unpack("<I", struct.pack("<f", value))[0]  # type: ignore[no-any-return]
    except OverflowError:
        return 0x7F80_0000 if value > 0 else 0xFF80_0000


class Column:
    """`length` values. One that is not nullable may still be put as null, within a struct that is null itself."""

    def __init__(self, nullable: bool) -> None:
        self.length = 0
        self.nullable = nullable
        self.validity = Growing()

    def mark(self, valid: bool) -> None:
        """Called once for each value, after the value itself."""
        if self.nullable:
            self.validity.put_bit(self.length, valid)
        self.length += 1

    def add_null(self) -> None:
        raise NotImplementedError

    def truncate(self, length: int) -> None:
        """Removes the values from there on."""
        raise NotImplementedError

    def take(self) -> Parts:
        """Returns all values, and empties the column."""
        raise NotImplementedError

    def taken(self, buffers: list[bytearray | None], children: list[Any]) -> Parts:
        length = self.length
        self.length = 0
        validity = self.validity.take() if self.nullable else None
        return length, [validity, *buffers], children


class NullColumn(Column):
    """A column of nulls, for which Arrow has no buffers."""

    def add_null(self) -> None:
        self.length += 1

    def truncate(self, length: int) -> None:
        self.length = length

    def take(self) -> Parts:
        length = self.length
        self.length = 0
        return length, [None], []


class NumberColumn(Column):
    def __init__(self, width: int, nullable: bool) -> None:
        """`width` in bytes: 4 or 8, or 16 for a decimal."""
        Column.__init__(self, nullable)
        self.width = width
        self.values = Growing()

    def add_long(self, value: int) -> None:
        """For integer columns; the caller has checked the range."""
        if self.width == 8:
            self.values.put_int64(value)
        else:
            self.values.put_int32(value)
        self.mark(True)

    def add_double(self, value: float) -> None:
        """For floating-point columns."""
        if self.width == 8:
            self.values.put_float64(value)
        else:
            self.values.put_float32(value)
        self.mark(True)

    def add_wide(self, low: int, high: int) -> None:
        """128 bits, the halves as signed numbers."""
        self.values.put_int64(low)
        self.values.put_int64(high)
        self.mark(True)

    def add_null(self) -> None:
        if self.width == 8:
            self.values.put_int64(0)
        elif self.width == 4:
            self.values.put_int32(0)
        else:
            self.values.put_zeros(self.width)
        self.mark(False)

    def truncate(self, length: int) -> None:
        self.length = length
        self.values.size = length * self.width

    def take(self) -> Parts:
        return self.taken([self.values.take()], [])


class BooleanColumn(Column):
    def __init__(self, nullable: bool) -> None:
        Column.__init__(self, nullable)
        self.values = Growing()

    def add(self, value: bool) -> None:
        self.values.put_bit(self.length, value)
        self.mark(True)

    def add_null(self) -> None:
        self.values.put_bit(self.length, False)
        self.mark(False)

    def truncate(self, length: int) -> None:
        self.length = length

    def take(self) -> Parts:
        return self.taken([self.values.take()], [])


class BytesColumn(Column):
    """Bytes or text."""

    def __init__(self, nullable: bool) -> None:
        Column.__init__(self, nullable)
        self.offsets = Growing()
        self.offsets.put_int32(0)
        self.content = Growing()

    def add(self, cursor: Cursor, start: int, size: int) -> None:
        """Appends the bytes that the cursor has skipped."""
        self.content.put_bytes(cursor, start, size)
        self.close()

    def close(self) -> None:
        """Ends a value: the bytes appended to `content` since the last one."""
        self.offsets.put_int32(self.content.size)
        self.mark(True)

    def add_null(self) -> None:
        self.offsets.put_int32(self.content.size)
        self.mark(False)

    def truncate(self, length: int) -> None:
        self.length = length
        self.offsets.size = 4 * (length + 1)
        self.content.size = self.offsets.int32_at(length)

    def take(self) -> Parts:
        offsets = self.offsets.take()
        self.offsets.put_int32(0)
        return self.taken([offsets, self.content.take()], [])


class ListColumn(Column):
    """Lists, and maps, whose items are structs of a key and a value."""

    def __init__(self, items: Column, nullable: bool) -> None:
        Column.__init__(self, nullable)
        self.items = items
        self.offsets = Growing()
        self.offsets.put_int32(0)

    def close(self) -> None:
        """The items that have been added since the last list are one."""
        if self.items.length > _LARGEST:
            raise ColumnTooLarge(f"a column of more than {_LARGEST} items: decode fewer records at a time")
        self.offsets.put_int32(self.items.length)
        self.mark(True)

    def add_null(self) -> None:
        self.offsets.put_int32(self.items.length)
        self.mark(False)

    def truncate(self, length: int) -> None:
        self.length = length
        self.offsets.size = 4 * (length + 1)
        self.items.truncate(self.offsets.int32_at(length))

    def take(self) -> Parts:
        offsets = self.offsets.take()
        self.offsets.put_int32(0)
        return self.taken([offsets], [self.items.take()])


class StructColumn(Column):
    def __init__(self, fields: list[Column], nullable: bool) -> None:
        Column.__init__(self, nullable)
        self.fields = fields

    def close(self) -> None:
        """Every field has got its value."""
        self.mark(True)

    def add_null(self) -> None:
        for field in self.fields:
            field.add_null()
        self.mark(False)

    def truncate(self, length: int) -> None:
        self.length = length
        for field in self.fields:
            field.truncate(length)

    def take(self) -> Parts:
        return self.taken([], [field.take() for field in self.fields])
