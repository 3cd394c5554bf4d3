# cython: language_level=3, annotation_typing=False
"""Protobuf's wire format into columns: by field numbers, in any order. One of the compiled modules."""

from __future__ import annotations

from collections.abc import Callable

from .builders import BooleanColumn, BytesColumn, ListColumn, NumberColumn, StructColumn
from .cursor import Cursor, Malformed
from .protobuf_wire import (
    BYTES,
    DOUBLE,
    END_GROUP,
    FIXED32,
    FIXED64,
    FLOAT,
    INT32,
    INT64,
    SFIXED32,
    SFIXED64,
    SINT32,
    START_GROUP,
    UINT32,
    UINT64,
    VARINT,
)
from .steps import Step

try:
    import cython  # type: ignore[import-untyped]
except ImportError:
    from cordwood.wire import interpreted as cython

_LAST_TAG = 0xFFFF_FFFF
"""Field numbers have 29 bits, and their type on the wire 3."""
_MOST_DIRECT = 256
"""Field numbers up to there are looked up in a list."""


class NumberStep(Step):
    def __init__(self, column: NumberColumn, kind: int) -> None:
        self.column = column
        self.kind = kind

    def run(self, cursor: Cursor) -> None:
        kind = self.kind
        if kind == INT64:
            self.column.add_long(_signed64(cursor.varint()))
        elif kind == INT32:
            self.column.add_long(_signed32(cursor.varint()))
        elif kind == UINT32:
            self.column.add_long(cursor.varint() & 0xFFFF_FFFF)
        elif kind == UINT64:
            self.column.add_wide(_signed64(cursor.varint()), 0)
        elif kind == SINT32:
            number = cursor.varint() & 0xFFFF_FFFF
            self.column.add_long(_signed32((number >> 1) ^ -(number & 1)))
        else:
            self.column.add_long(cursor.zigzag())


class FixedStep(Step):
    def __init__(self, column: NumberColumn, kind: int) -> None:
        self.column = column
        self.kind = kind

    def run(self, cursor: Cursor) -> None:
        kind = self.kind
        if kind == DOUBLE:
            self.column.add_double(cursor.float64())
        elif kind == FLOAT:
            self.column.add_double(cursor.float32())
        elif kind == SFIXED64:
            self.column.add_long(_signed64(cursor.fixed64()))
        elif kind == SFIXED32:
            self.column.add_long(_signed32(cursor.fixed32()))
        elif kind == UINT32:
            self.column.add_long(cursor.fixed32())
        else:
            self.column.add_wide(_signed64(cursor.fixed64()), 0)


def _signed64(value: int) -> int:
    if cython.compiled:
        return value
    return value - (1 << 64) if value >= 1 << 63 else value


def _signed32(value: int) -> int:
    low = value & 0xFFFF_FFFF
    return low - 0x1_0000_0000 if low >= 0x8000_0000 else low


class BoolStep(Step):
    def __init__(self, column: BooleanColumn) -> None:
        self.column = column

    def run(self, cursor: Cursor) -> None:
        self.column.add(cursor.varint() != 0)


class EnumNameStep(Step):
    """The name, or the number of a value that the reader's schema has no name for."""

    def __init__(self, column: BytesColumn, names: dict[int, bytes]) -> None:
        self.column = column
        self.names = {number: Cursor(name) for number, name in names.items()}

    def run(self, cursor: Cursor) -> None:
        number = _signed32(cursor.varint())
        name = self.names.get(number)
        if name is None:
            name = Cursor(str(number).encode())
        self.column.add(name, 0, name.end)


class ContentStep(Step):
    """Bytes or text: all that the cursor has."""

    def __init__(self, column: BytesColumn, is_text: bool) -> None:
        self.column = column
        self.is_text = is_text

    def run(self, cursor: Cursor) -> None:
        size = cursor.end - cursor.position
        start = cursor.skip(size)
        if self.is_text:
            cursor.check_text(start, size)
        self.column.add(cursor, start, size)


class ConvertedStep(Step):
    """Reads all remaining bytes and converts them to text with a function: for rare types."""

    def __init__(self, column: BytesColumn, convert: Callable[[bytes], bytes]) -> None:
        """`convert` raises `ValueError`."""
        self.column = column
        self.convert = convert

    def run(self, cursor: Cursor) -> None:
        size = cursor.end - cursor.position
        start = cursor.skip(size)
        content = bytes(cursor.data[start : start + size])
        try:
            text = self.convert(content)
        except ValueError as error:
            raise Malformed(str(error)) from None
        self.column.add(Cursor(text), 0, len(text))


class TimeStep(Step):
    """A Timestamp or a Duration: seconds, and nanoseconds that are not many; in microseconds."""

    def __init__(self, column: NumberColumn) -> None:
        self.column = column

    def run(self, cursor: Cursor) -> None:
        seconds = 0
        nanos = 0
        while cursor.position < cursor.end:
            tag = cursor.varint()
            if tag == 8:
                seconds = _signed64(cursor.varint())
            elif tag == 16:
                nanos = _signed32(cursor.varint())
            else:
                skip_value(cursor, tag)
        if seconds > 9_000_000_000_000 or seconds < -9_000_000_000_000:
            raise Malformed(f"{seconds} seconds are out of range")
        self.column.add_long(seconds * 1_000_000 + nanos // 1_000)


def skip_value(cursor: Cursor, tag: int) -> None:
    """The value after a tag."""
    wire = tag & 7
    if tag >> 3 == 0:
        raise Malformed("a field has the number 0")
    if tag > _LAST_TAG:
        raise Malformed(f"a field has the number {tag >> 3}")
    if wire == VARINT:
        cursor.varint()
    elif wire == BYTES:
        cursor.skip(_size(cursor))
    elif wire == FIXED64:
        cursor.skip(8)
    elif wire == FIXED32:
        cursor.skip(4)
    elif wire == START_GROUP:
        cursor.enter()
        inner = cursor.varint()
        while inner & 7 != END_GROUP:
            skip_value(cursor, inner)
            inner = cursor.varint()
        if inner >> 3 != tag >> 3:
            raise Malformed("a group ends that did not begin")
        cursor.leave()
    else:
        raise Malformed(f"a field has the wire type {wire}")


def _size(cursor: Cursor) -> int:
    size = cursor.varint()
    if size > cursor.end - cursor.position:
        raise Malformed(f"{size} bytes are declared where {cursor.end - cursor.position} are left")
    return size


class MessageField:
    """A field of a message, and where the last value of it was found."""

    def __init__(
        self,
        name: str,
        wire: int,
        step: Step,
        missing: Step | None,
        repeated: ListColumn | None = None,
        *,
        is_packable: bool = False,
        is_message: bool = False,
    ) -> None:
        """`missing` adds null or a default, or fails; a field that is repeated has none."""
        self.name = name
        self.wire = wire
        self.step = step
        self.missing = missing
        self.is_repeated = repeated is not None
        self.repeated = repeated
        self.is_packable = is_packable
        self.is_message = is_message
        self.rivals: list[MessageField] = []
        self.seen = False
        self.start = 0
        self.end = 0
        # The values of a message that comes in several parts, which are one.
        self.parts: bytes | None = None

    def set_rivals(self, rivals: list[MessageField]) -> None:
        """The other members of its oneof."""
        self.rivals = rivals


class MessageStep(Step):
    """Reads all remaining bytes. `column` is None for a wrapper, which is replaced by its only field."""

    def __init__(self, column: StructColumn | None, fields: list[MessageField], numbers: list[int]) -> None:
        self.column = column
        self.fields = fields
        direct: list[MessageField | None] = [None] * min(max(numbers, default=0) + 1, _MOST_DIRECT)
        for number, field in zip(numbers, fields, strict=True):
            if number < len(direct):
                direct[number] = field
        self.direct = direct
        self.others = {number: field for number, field in zip(numbers, fields, strict=True) if number >= len(direct)}
        self.at = ""

    def run(self, cursor: Cursor) -> None:
        fields = self.fields
        end = cursor.end
        self.at = ""
        for field in fields:
            field.seen = False
        while cursor.position < end:
            tag = cursor.varint()
            number = tag >> 3
            wire = tag & 7
            found = self.field_of(number)
            if found is None:
                skip_value(cursor, tag)
                continue
            self.at = found.name
            if wire == found.wire:
                if found.is_repeated:
                    self.read_value(cursor, found, end)
                else:
                    self.note_value(cursor, found, tag)
            elif wire == BYTES and found.is_packable:
                size = _size(cursor)
                cursor.end = cursor.position + size
                while cursor.position < cursor.end:
                    found.step.run(cursor)
                cursor.end = end
            else:
                # Another wire type than the reader's: treated as an unknown field.
                skip_value(cursor, tag)
        for field in fields:
            self.at = field.name
            if field.repeated is not None:
                field.repeated.close()
            elif field.seen:
                self.read_noted(cursor, field)
            else:
                assert field.missing is not None
                field.missing.run(cursor)
        cursor.position = cursor.end = end
        if self.column is not None:
            self.column.close()

    def field_of(self, number: int) -> MessageField | None:
        if number < len(self.direct):
            return self.direct[number]
        return self.others.get(number) if self.others else None

    def read_value(self, cursor: Cursor, field: MessageField, end: int) -> None:
        """One of a repeated field."""
        if field.wire == BYTES:
            size = _size(cursor)
            cursor.end = cursor.position + size
            field.step.run(cursor)
            cursor.end = end
        else:
            field.step.run(cursor)

    def note_value(self, cursor: Cursor, field: MessageField, tag: int) -> None:
        """The last value of a non-repeated field wins; values of a message are merged."""
        if field.wire == BYTES:
            size = _size(cursor)
            start = cursor.skip(size)
        else:
            start = cursor.position
            skip_value(cursor, tag)
        if field.is_message and field.seen:
            before = field.parts
            if before is None:
                before = bytes(cursor.data[field.start : field.end])
            field.parts = before + bytes(cursor.data[start : cursor.position])
        else:
            field.parts = None
        field.start = start
        field.end = cursor.position
        field.seen = True
        for rival in field.rivals:
            rival.seen = False

    def read_noted(self, cursor: Cursor, field: MessageField) -> None:
        if field.parts is not None:
            merged = Cursor(field.parts)
            merged.depth = cursor.depth
            field.step.run(merged)
        else:
            cursor.position = field.start
            cursor.end = field.end
            field.step.run(cursor)

    def place(self) -> str:
        for field in self.fields:
            if field.name == self.at:
                inner = field.step.place()
                return f"{self.at}.{inner}" if inner else self.at
        return ""


class IndexedStep(Step):
    """Reads the message index in front of a value."""

    def __init__(self, choose: Callable[[tuple[int, ...]], Step]) -> None:
        self.choose = choose
        self.first = choose((0,))
        self.known: dict[tuple[int, ...], Step] = {}
        self.chosen = self.first

    def run(self, cursor: Cursor) -> None:
        count = cursor.zigzag()
        self.chosen = self.first if count == 0 else self.at_path(cursor, count)
        self.chosen.run(cursor)

    def at_path(self, cursor: Cursor, count: int) -> Step:
        if count < 0 or count > cursor.end - cursor.position:
            raise Malformed(f"{count} message indexes are declared")
        path = tuple([cursor.zigzag() for _ in range(count)])
        if path not in self.known:
            self.known[path] = self.choose(path)
        return self.known[path]

    def place(self) -> str:
        return self.chosen.place()
