# cython: language_level=3, annotation_typing=False
"""Avro's binary encoding into columns. One of the compiled modules."""

from __future__ import annotations

from .builders import BooleanColumn, BytesColumn, Column, ListColumn, NumberColumn, StructColumn
from .cursor import Cursor, Malformed
from .steps import Step

try:
    import cython  # type: ignore[import-untyped]
except ImportError:
    from cordwood.wire import interpreted as cython

_EMPTY_ITEMS = 1_000_000
"""The most items of no bytes, as nulls, that one array may declare: they cost the writer nothing."""
_HEX = b"0123456789abcdef"


class IntegerStep(Step):
    """int and long, and their logical types: days and times, multiplied by `scale` for the column's unit."""

    def __init__(self, column: NumberColumn, least: int, most: int, scale: int = 1) -> None:
        """`least` and `most` as the value is written. A scale below zero divides, and rounds down."""
        self.column = column
        self.least = least
        self.most = most
        self.scale = scale

    def run(self, cursor: Cursor) -> None:
        value = cursor.zigzag()
        if value < self.least or value > self.most:
            raise Malformed(f"{value} is out of range")
        self.column.add_long(value * self.scale if self.scale > 0 else value // -self.scale)


class IntegerToFloatStep(Step):
    def __init__(self, column: NumberColumn) -> None:
        self.column = column

    def run(self, cursor: Cursor) -> None:
        self.column.add_double(cursor.zigzag())


class FloatStep(Step):
    """Converts to float or double."""

    def __init__(self, column: NumberColumn) -> None:
        self.column = column

    def run(self, cursor: Cursor) -> None:
        self.column.add_double(cursor.float32())


class DoubleStep(Step):
    def __init__(self, column: NumberColumn) -> None:
        self.column = column

    def run(self, cursor: Cursor) -> None:
        self.column.add_double(cursor.float64())


class BooleanStep(Step):
    def __init__(self, column: BooleanColumn) -> None:
        self.column = column

    def run(self, cursor: Cursor) -> None:
        start = cursor.skip(1)
        value = cursor.data[start]
        if value > 1:
            raise Malformed(f"{value} is neither true nor false")
        self.column.add(value == 1)


class BytesStep(Step):
    """bytes and string; `fixed` is the size of values without a length prefix, or -1."""

    def __init__(self, column: BytesColumn, is_text: bool, fixed: int = -1) -> None:
        self.column = column
        self.is_text = is_text
        self.fixed = fixed

    def run(self, cursor: Cursor) -> None:
        size = self.fixed
        if size < 0:
            size = cursor.zigzag()
        start = cursor.skip(size)
        if self.is_text:
            cursor.check_text(start, size)
        self.column.add(cursor, start, size)


class UuidStep(Step):
    """16 bytes to text."""

    def __init__(self, column: BytesColumn) -> None:
        self.column = column

    def run(self, cursor: Cursor) -> None:
        start = cursor.skip(16)
        for index in range(16):
            if index in (4, 6, 8, 10):
                self.column.content.put_byte(45)
            byte = cursor.data[start + index]
            self.column.content.put_byte(_HEX[byte >> 4])
            self.column.content.put_byte(_HEX[byte & 15])
        self.column.close()


class EnumStep(Step):
    def __init__(self, column: BytesColumn, symbols: list[bytes | None]) -> None:
        """The reader's symbol for each of the writer's; None: the reader has none for it."""
        self.column = column
        self.symbols = symbols
        self.text = Cursor(b"".join(symbol or b"" for symbol in symbols))
        self.starts = [sum(len(each or b"") for each in symbols[:index]) for index in range(len(symbols))]

    def run(self, cursor: Cursor) -> None:
        index = cursor.zigzag()
        if index < 0 or index >= len(self.symbols):
            raise Malformed(f"the enum has no symbol {index}")
        symbol = self.symbols[index]
        if symbol is None:
            raise Malformed(f"symbol {index} of the writer's enum is not one of the reader's")
        start = self.starts[index]
        self.column.add(self.text, start, len(symbol))


class DecimalStep(Step):
    """The unscaled number, big-endian; of `fixed` bytes, or -1."""

    def __init__(self, column: NumberColumn, precision: int, fixed: int = -1) -> None:
        self.column = column
        self.fixed = fixed
        self.precision = precision
        limit = 10**precision
        self.limit_low = _signed(limit & 0xFFFF_FFFF_FFFF_FFFF)
        self.limit_high = limit >> 64

    def run(self, cursor: Cursor) -> None:
        size = self.fixed
        if size < 0:
            size = cursor.zigzag()
        start = cursor.skip(size)
        add_decimal(self.column, cursor, start, size, self.limit_low, self.limit_high, self.precision)


def add_decimal(
    column: NumberColumn, cursor: Cursor, start: int, size: int, limit_low: int, limit_high: int, precision: int
) -> None:
    """Decodes the last skipped bytes as a big-endian number of any size below the limit."""
    if size <= 0:
        raise Malformed("a decimal has no bytes")
    data = cursor.data
    fill = 0xFF if data[start] & 0x80 else 0
    low = 0
    high = 0
    for index in range(16):
        # From the lowest byte on.
        byte = data[start + size - 1 - index] if index < size else fill
        if index < 8:
            low |= byte << (8 * index)
        else:
            high |= byte << (8 * (index - 8))
    for index in range(size - 16):
        if data[start + index] != fill:
            raise Malformed(f"a decimal has more than {precision} digits")
    # Its magnitude, as two numbers without sign.
    size_low = low
    size_high = high
    if fill:
        size_low = (~low + 1) & 0xFFFF_FFFF_FFFF_FFFF
        size_high = ~high & 0xFFFF_FFFF_FFFF_FFFF
        if size_low == 0:
            size_high = (size_high + 1) & 0xFFFF_FFFF_FFFF_FFFF
    unsigned_low = limit_low & 0xFFFF_FFFF_FFFF_FFFF
    unsigned_high = limit_high & 0xFFFF_FFFF_FFFF_FFFF
    if size_high > unsigned_high or (size_high == unsigned_high and size_low >= unsigned_low):
        raise Malformed(f"a decimal has more than {precision} digits")
    if cython.compiled:
        column.add_wide(low, high)
    else:
        column.add_wide(_signed(low), _signed(high))


def _signed(number: int) -> int:
    """64 bits without a sign, with one."""
    return number - (1 << 64) if number >= 1 << 63 else number


class DurationStep(Step):
    """Months, days and milliseconds, each of 4 bytes without a sign."""

    def __init__(self, column: StructColumn, parts: list[NumberColumn]) -> None:
        self.column = column
        self.parts = parts

    def run(self, cursor: Cursor) -> None:
        for index in range(3):
            part = self.parts[index]
            part.add_long(cursor.fixed32())
        self.column.close()


class RecordStep(Step):
    """The writer's fields in their order, then those that only the reader has. `column` is None for a skipped
    record."""

    def __init__(self, column: StructColumn | None, steps: list[Step], names: list[str]) -> None:
        self.column = column
        self.steps = steps
        self.names = names
        self.at = 0

    def run(self, cursor: Cursor) -> None:
        for index in range(len(self.steps)):
            self.at = index
            step = self.steps[index]
            step.run(cursor)
        if self.column is not None:
            self.column.close()

    def place(self) -> str:
        if not self.steps:
            return ""
        inner = self.steps[self.at].place()
        return f"{self.names[self.at]}.{inner}" if inner else self.names[self.at]


class UnionStep(Step):
    """A step for each of the writer's branches."""

    def __init__(self, branches: list[Step]) -> None:
        self.branches = branches
        self.at = 0

    def run(self, cursor: Cursor) -> None:
        index = cursor.zigzag()
        if index < 0 or index >= len(self.branches):
            raise Malformed(f"the union has no branch {index}")
        self.at = index
        branch = self.branches[index]
        branch.run(cursor)

    def place(self) -> str:
        return self.branches[self.at].place()


class OptionalStep(Step):
    """A union of null and another type: a separate step, because it is so common."""

    def __init__(self, column: Column, step: Step, null_branch: int) -> None:
        self.column = column
        self.step = step
        self.null_branch = null_branch

    def run(self, cursor: Cursor) -> None:
        index = cursor.zigzag()
        if index == self.null_branch:
            self.column.add_null()
        elif index == 1 - self.null_branch:
            self.step.run(cursor)
        else:
            raise Malformed(f"the union has no branch {index}")

    def place(self) -> str:
        return self.step.place()


class ListStep(Step):
    """Arrays, and maps: their items are records of a key and a value. `column` is None for skipped values."""

    def __init__(self, column: ListColumn | None, item: Step | None) -> None:
        self.column = column
        self.item = item

    def run(self, cursor: Cursor) -> None:
        """Reads blocks until an empty one. A block with its size in bytes has a negative count."""
        item = self.item
        assert item is not None
        empty = 0
        cursor.enter()
        count = cursor.zigzag()
        while count != 0:
            if count < 0:
                count = -count
                cursor.zigzag()
                if count < 0:
                    raise Malformed("a block of too many items")
            if count > cursor.end - cursor.position:
                empty += 1
                if count > _EMPTY_ITEMS or empty > 10:
                    raise Malformed(f"{count} items are declared where {cursor.end - cursor.position} bytes are left")
            while count > 0:
                item.run(cursor)
                count -= 1
            count = cursor.zigzag()
        cursor.leave()
        if self.column is not None:
            self.column.close()

    def place(self) -> str:
        return self.item.place() if self.item is not None else ""


# ---- skipped values


class SkipIntegerStep(Step):
    def run(self, cursor: Cursor) -> None:
        cursor.varint()


class SkipFixedStep(Step):
    def __init__(self, size: int) -> None:
        self.size = size

    def run(self, cursor: Cursor) -> None:
        cursor.skip(self.size)


class SkipBytesStep(Step):
    def run(self, cursor: Cursor) -> None:
        cursor.skip(cursor.zigzag())


class SkipNamedStep(Step):
    """A skipped named type: it may be recursive, so its step is set later."""

    def __init__(self) -> None:
        self.step: Step | None = None

    def set(self, step: Step) -> None:
        self.step = step

    def run(self, cursor: Cursor) -> None:
        assert self.step is not None
        cursor.enter()
        self.step.run(cursor)
        cursor.leave()
