# cython: language_level=3, annotation_typing=False
"""Encodes Arrow columns as rows of Avro or Protobuf, without a Python object per value.

Compiled like the modules of `wire`, and with their inputs. A tree of `Cells` mirrors the schema: each writes its part
of one row. `avro_rows.py` and `protobuf_rows.py` build the trees.
"""

from __future__ import annotations

from typing import Any

from cordwood.wire.column_input import BinaryInput, NumberInput

try:
    import cython  # type: ignore[import-untyped]
except ImportError:
    from cordwood.wire import interpreted as cython

if cython.compiled:
    from cython.cimports.cpython.bytearray import (  # type: ignore[import-untyped]
        PyByteArray_AsString,
        PyByteArray_Resize,
    )
    from cython.cimports.libc.string import memcpy, memmove  # type: ignore[import-untyped]

DECIMAL_BYTES = 16
"""Size of an Arrow decimal128, which is little-endian."""
MOST_BYTES = 2**31 - 1
"""A column of bytes has 32-bit offsets."""


class CannotEncode(ValueError):
    """A row that its schema has no place for; the text names the field."""


class Output:
    """A growing buffer."""

    data: Any

    def __init__(self) -> None:
        self.buffer = bytearray()
        if cython.compiled:
            self.position = 0
            self.capacity = 0
            self.reserve(65536)

    def reserve(self, size: int) -> None:
        """Every following write must fit into the space reserved."""
        if cython.compiled and self.position + size > self.capacity:
            self.capacity = max(self.capacity * 2, self.position + size)
            PyByteArray_Resize(self.buffer, self.capacity)
            self.data = cython.cast(cython.p_uchar, PyByteArray_AsString(self.buffer))

    def size(self) -> int:
        return self.position if cython.compiled else len(self.buffer)

    def varint(self, rest: int) -> None:
        """An unsigned number of 64 bits; a negative one is taken as its two's complement."""
        if cython.compiled:
            self.reserve(10)
            while rest > 0x7F:
                self.data[self.position] = rest & 0x7F | 0x80
                self.position += 1
                rest >>= 7
            self.data[self.position] = rest
            self.position += 1
        else:
            rest &= 2**64 - 1
            while rest > 0x7F:
                self.buffer.append(rest & 0x7F | 0x80)
                rest >>= 7
            self.buffer.append(rest)

    def zigzag(self, value: int) -> None:
        self.varint(value << 1 ^ value >> 63)

    def byte(self, value: int) -> None:
        if cython.compiled:
            self.reserve(1)
            self.data[self.position] = value
            self.position += 1
        else:
            self.buffer.append(value)

    def copy(self, source: Any, start: int, size: int) -> None:
        """Copies bytes of a buffer (a pointer, when compiled)."""
        if cython.compiled:
            self.reserve(size)
            memcpy(self.data + self.position, source + start, size)
            self.position += size
        else:
            self.buffer += source[start : start + size]

    def literal(self, contents: bytes) -> None:
        self.copy(cython.cast(cython.p_uchar, contents) if cython.compiled else contents, 0, len(contents))

    def insert_size(self, start: int) -> None:
        """Inserts at `start` the size of the bytes after it, as a varint."""
        size = self.size() - start
        if cython.compiled:
            width = 1
            rest = size
            while rest > 0x7F:
                rest >>= 7
                width += 1
            self.reserve(width)
            memmove(self.data + start + width, self.data + start, size)
            self.position = start
            self.varint(size)
            self.position += size
        else:
            contents = bytes(self.buffer[start:])
            del self.buffer[start:]
            self.varint(size)
            self.buffer += contents

    def finished(self) -> bytearray:
        """Returns the written bytes; the output must not be used afterwards."""
        if cython.compiled:
            PyByteArray_Resize(self.buffer, self.position)
        return self.buffer


class Cells:
    """One column, or one level of a nested one: writes the value at an index. `path` names it in errors."""

    def __init__(self, path: str, validity: Any, first: int, length: int) -> None:
        """`validity` is Arrow's bitmap, None if nothing is null; `first` is where a slice of it starts."""
        self.path = path
        self.first = first
        self.length = length
        self.has_validity = validity is not None
        if validity is not None and len(validity) * 8 < first + length:
            raise ValueError(f"{len(validity)} bytes of validity for {length} values from {first} on")
        self.validity = validity if validity is not None else b""

    def is_null(self, index: int) -> bool:
        at = self.first + index
        return self.has_validity and not self.validity[at >> 3] >> (at & 7) & 1

    def write(self, out: Output, index: int) -> None:
        """Raises `CannotEncode`."""
        if self.is_null(index):
            raise self.refused_null(index)
        self.content(out, index)

    def content(self, out: Output, index: int) -> None:
        """Writes a value that is not null."""
        raise NotImplementedError

    def refused_null(self, index: int) -> CannotEncode:
        return CannotEncode(f"{self.path} is null, and its schema does not allow that")

    def check_index(self, index: int) -> None:
        if index < 0 or index >= self.length:
            raise ValueError(f"value {index} of {self.length} of {self.path}")


class Integers(Cells):
    """Varints of int64; zigzag as Avro has them, and Protobuf's sint."""

    def __init__(
        self, path: str, validity: Any, first: int, length: int, numbers: NumberInput, is_zigzag: bool
    ) -> None:
        Cells.__init__(self, path, validity, first, length)
        self.numbers = numbers
        self.is_zigzag = is_zigzag

    def content(self, out: Output, index: int) -> None:
        number = self.numbers.get(index)
        if self.is_zigzag:
            out.zigzag(number)
        else:
            out.varint(number)


class Raw(Cells):
    """Values of a fixed width as they lie in memory: floats, Avro's fixed, Protobuf's fixed32 and fixed64."""

    def __init__(self, path: str, validity: Any, first: int, length: int, contents: Any, width: int) -> None:
        Cells.__init__(self, path, validity, first, length)
        if len(contents) < (first + length) * width:
            raise ValueError(f"{len(contents)} bytes for {length} values of {width} bytes from {first} on")
        self.contents = contents
        self.width = width

    def content(self, out: Output, index: int) -> None:
        if cython.compiled:
            out.copy(cython.address(self.contents[0]), (self.first + index) * self.width, self.width)
        else:
            out.copy(self.contents, (self.first + index) * self.width, self.width)


class Bytes(Cells):
    """Bytes or text with a length prefix: a zigzag number in Avro, a plain one in Protobuf."""

    def __init__(self, path: str, length: int, values: BinaryInput, is_zigzag: bool) -> None:
        Cells.__init__(self, path, None, 0, length)
        self.values = values
        self.is_zigzag = is_zigzag

    def is_null(self, index: int) -> bool:
        return self.values.find(index) < 0

    def content(self, out: Output, index: int) -> None:
        size = self.values.find(index)
        if self.is_zigzag:
            out.zigzag(size)
        else:
            out.varint(size)
        out.copy(self.values.contents, self.values.start, size)


class Symbols(Cells):
    """The indexes of an enum's symbols, by their names."""

    def __init__(self, path: str, length: int, values: BinaryInput, numbers: dict[bytes, int], is_zigzag: bool) -> None:
        Cells.__init__(self, path, None, 0, length)
        self.values = values
        self.numbers = numbers
        self.is_zigzag = is_zigzag

    def is_null(self, index: int) -> bool:
        return self.values.find(index) < 0

    def content(self, out: Output, index: int) -> None:
        size = self.values.find(index)
        start = self.values.start
        name = bytes(self.values.contents[start : start + size])
        number = self.numbers.get(name)
        if number is None:
            raise CannotEncode(f"{self.path} is {name.decode('utf-8', 'replace')!r}, which is not a symbol of its enum")
        if self.is_zigzag:
            out.zigzag(number)
        else:
            out.varint(number)


class Decimals(Cells):
    """Avro's decimals: big-endian; the shortest bytes with a length prefix, or a fixed of `size` bytes."""

    def __init__(self, path: str, validity: Any, first: int, length: int, contents: Any, size: int) -> None:
        """`size` is 0 for bytes."""
        Cells.__init__(self, path, validity, first, length)
        if len(contents) < (first + length) * DECIMAL_BYTES:
            raise ValueError(f"{len(contents)} bytes for {length} decimals from {first} on")
        self.contents = contents
        self.size = size

    def content(self, out: Output, index: int) -> None:
        start = (self.first + index) * DECIMAL_BYTES
        filler = 0xFF if self.contents[start + DECIMAL_BYTES - 1] & 0x80 else 0
        width = DECIMAL_BYTES
        # A leading byte goes if it is only sign, and the next byte has the same sign.
        while (
            width > 1
            and self.contents[start + width - 1] == filler
            and (self.contents[start + width - 2] & 0x80) == (filler & 0x80)
        ):
            width -= 1
        if self.size == 0:
            out.zigzag(width)
        elif width > self.size:
            raise CannotEncode(f"{self.path} needs {width} bytes, and its schema has {self.size}")
        else:
            for _ in range(self.size - width):
                out.byte(filler)
        for at in range(width):
            out.byte(self.contents[start + width - 1 - at])


class Records(Cells):
    """Avro's records: the fields one after the other, in the schema's order."""

    def __init__(self, path: str, validity: Any, first: int, length: int, fields: list[Cells]) -> None:
        Cells.__init__(self, path, validity, first, length)
        self.fields = fields

    def content(self, out: Output, index: int) -> None:
        for field in self.fields:
            cells: Cells = field
            cells.write(out, index)


class Constants(Cells):
    """The same bytes in each row: the default of a field that the rows do not have."""

    def __init__(self, path: str, contents: bytes) -> None:
        Cells.__init__(self, path, None, 0, 0)
        self.contents = contents

    def content(self, out: Output, index: int) -> None:
        out.literal(self.contents)


class Nullable(Cells):
    """Avro's union of null and another type: the branch's index, then the value."""

    def __init__(self, values: Cells, null_branch: int, value_branch: int) -> None:
        Cells.__init__(self, values.path, None, 0, values.length)
        self.values = values
        self.null_branch = null_branch
        self.value_branch = value_branch

    def is_null(self, index: int) -> bool:
        return self.values.is_null(index)

    def write(self, out: Output, index: int) -> None:
        if self.values.is_null(index):
            if self.null_branch < 0:
                raise self.refused_null(index)
            out.zigzag(self.null_branch)
        else:
            out.zigzag(self.value_branch)
            self.values.content(out, index)


class Branches(Cells):
    """Avro's union of several types, as a struct with a member for each type, at most one of them not null."""

    def __init__(
        self, path: str, validity: Any, first: int, length: int, members: list[Cells], numbers: list[int], null: int
    ) -> None:
        """`numbers` are the indexes of the members' branches, `null` that of null, or -1."""
        Cells.__init__(self, path, validity, first, length)
        self.members = members
        self.numbers = numbers
        self.null = null

    def write(self, out: Output, index: int) -> None:
        at = 0 if not self.is_null(index) else len(self.members)
        while at < len(self.members):
            member: Cells = self.members[at]
            if not member.is_null(index):
                break
            at += 1
        if at < len(self.members):
            out.zigzag(self.numbers[at])
            member.content(out, index)
        elif self.null < 0:
            raise self.refused_null(index)
        else:
            out.zigzag(self.null)


class Lists(Cells):
    """Avro's arrays, and with keys its maps: one block, and an empty one at its end."""

    def __init__(
        self, path: str, validity: Any, first: int, length: int, starts: NumberInput, keys: Cells | None, items: Cells
    ) -> None:
        """Value i has the items from `starts[i]` to `starts[i + 1]`."""
        Cells.__init__(self, path, validity, first, length)
        self.starts = starts
        self.keys = keys
        self.items = items

    def content(self, out: Output, index: int) -> None:
        at = self.starts.get(index)
        end = self.starts.get(index + 1)
        if end > at:
            self.items.check_index(at)
            self.items.check_index(end - 1)
            out.zigzag(end - at)
            while at < end:
                if self.keys is not None:
                    self.keys.write(out, at)
                self.items.write(out, at)
                at += 1
        out.byte(0)


class Moments(Cells):
    """Protobuf's `google.protobuf.Timestamp`, of microseconds since the epoch."""

    def __init__(self, path: str, validity: Any, first: int, length: int, micros: NumberInput) -> None:
        Cells.__init__(self, path, validity, first, length)
        self.micros = micros

    def content(self, out: Output, index: int) -> None:
        micros = self.micros.get(index)
        seconds = micros // 1_000_000
        nanos = (micros - seconds * 1_000_000) * 1_000
        start = out.size()
        if seconds != 0:
            out.byte(0x08)
            out.varint(seconds)
        if nanos != 0:
            out.byte(0x10)
            out.varint(nanos)
        out.insert_size(start)


class Fields:
    """A field of a Protobuf message: its tag and value. Null is omitted, or rejected if the field is required."""

    def __init__(self, tag: bytes, cells: Cells, is_required: bool) -> None:
        self.tag = tag
        self.cells = cells
        self.is_required = is_required

    def write(self, out: Output, index: int) -> None:
        if not self.cells.is_null(index):
            out.literal(self.tag)
            self.cells.content(out, index)
        elif self.is_required:
            raise self.cells.refused_null(index)


class RepeatedFields(Fields):
    """A repeated field: its tag before each item, or before all of them if they are packed."""

    def __init__(self, tag: bytes, lists: Cells, starts: NumberInput, items: Cells, is_packed: bool) -> None:
        """`lists` knows which lists are null; list i has the items from `starts[i]` to `starts[i + 1]`."""
        Fields.__init__(self, tag, lists, False)
        self.starts = starts
        self.items = items
        self.is_packed = is_packed

    def write(self, out: Output, index: int) -> None:
        if not self.cells.is_null(index):
            at = self.starts.get(index)
            end = self.starts.get(index + 1)
            if end > at:
                self.items.check_index(at)
                self.items.check_index(end - 1)
                self.items_from(out, at, end)

    def items_from(self, out: Output, at: int, end: int) -> None:
        if self.is_packed:
            out.literal(self.tag)
        start = out.size()
        while at < end:
            if not self.is_packed:
                out.literal(self.tag)
            self.items.write(out, at)
            at += 1
        if self.is_packed:
            out.insert_size(start)


class Messages(Cells):
    """Protobuf messages; nested ones have a size prefix."""

    def __init__(self, path: str, validity: Any, first: int, length: int, fields: list[Fields], has_size: bool) -> None:
        Cells.__init__(self, path, validity, first, length)
        self.fields = fields
        self.has_size = has_size

    def content(self, out: Output, index: int) -> None:
        start = out.size()
        for each in self.fields:
            field: Fields = each
            field.write(out, index)
        if self.has_size:
            out.insert_size(start)


class EncodedRows:
    """A column of bytes, in Arrow's layout."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.null_count = 0
        self.validity = bytearray((count + 7) // 8)
        self.offsets = bytearray(4 * (count + 1))
        self.contents = bytearray()


def encode_rows(cells: Cells, count: int, prefix: bytes) -> EncodedRows:
    """Writes each row after the same prefix; a row that is null as a whole stays null. Raises `CannotEncode`."""
    if count > 0:
        cells.check_index(count - 1)
    rows = EncodedRows(count)
    out = Output()
    if cython.compiled:
        offsets = cython.cast(cython.p_int, PyByteArray_AsString(rows.offsets))
    else:
        offsets = memoryview(rows.offsets).cast("i")
    for row in range(count):
        if cells.is_null(row):
            rows.null_count += 1
        else:
            rows.validity[row >> 3] |= 1 << (row & 7)
            out.literal(prefix)
            cells.write(out, row)
            if out.size() > MOST_BYTES:
                raise CannotEncode(f"the first {row + 1} rows have more than {MOST_BYTES} bytes; use smaller batches")
        offsets[row + 1] = out.size()
    rows.contents = out.finished()
    return rows
