# cython: language_level=3, annotation_typing=False
"""JSON texts into columns: fields by name, in any order. One of the compiled modules."""

from __future__ import annotations

import json
from typing import Any

from .builders import BooleanColumn, BytesColumn, Column, ListColumn, NumberColumn, StructColumn
from .cursor import Cursor, Malformed
from .steps import Step

try:
    import cython  # type: ignore[import-untyped]
except ImportError:
    from cordwood.wire import interpreted as cython

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING  # type: ignore[import-untyped]
    from cython.cimports.libc.string import memcmp  # type: ignore[import-untyped]

_QUOTE, _BACKSLASH, _COMMA, _COLON = 34, 92, 44, 58
_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_LIST, _CLOSE_LIST = 123, 125, 91, 93
_ZERO, _NINE, _MINUS, _PLUS, _POINT = 48, 57, 45, 43, 46
_EXACT_DIGITS = 15
_POWERS = [float(10**power) for power in range(23)]
_LONGEST_LONG = 18
"""So many digits always fit 64 bits."""
_KINDS = {34: "a string", 123: "an object", 91: "an array", 116: "a boolean", 102: "a boolean", 110: "null"}


class JsonStep(Step):
    """A nullable value."""

    def __init__(self, target: Column) -> None:
        self.target = target

    def run(self, cursor: Cursor) -> None:
        if peek(cursor) == 110:
            take_word(cursor, b"null")
            self.target.add_null()
        else:
            self.read(cursor)

    def read(self, cursor: Cursor) -> None:
        raise NotImplementedError


class JsonRootStep(Step):
    """One value, and nothing but white space after it."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.is_within = False

    def run(self, cursor: Cursor) -> None:
        self.is_within = False
        cursor.check_text(cursor.position, cursor.end - cursor.position)
        self.is_within = True
        self.step.run(cursor)
        self.is_within = False
        skip_space(cursor)
        if cursor.position != cursor.end:
            raise Malformed("something follows the JSON value")

    def place(self) -> str:
        return self.step.place() if self.is_within else ""


class JsonTextStep(JsonStep):
    """Any value, as its text; null is null."""

    def __init__(self, column: BytesColumn) -> None:
        JsonStep.__init__(self, column)
        self.column = column

    def read(self, cursor: Cursor) -> None:
        start = cursor.position
        skip_json(cursor)
        self.column.add(cursor, start, cursor.position - start)


class JsonStringStep(JsonStep):
    def __init__(self, column: BytesColumn) -> None:
        JsonStep.__init__(self, column)
        self.column = column

    def read(self, cursor: Cursor) -> None:
        add_string(cursor, self.column)


class JsonBooleanStep(JsonStep):
    def __init__(self, column: BooleanColumn) -> None:
        JsonStep.__init__(self, column)
        self.column = column

    def read(self, cursor: Cursor) -> None:
        first = peek(cursor)
        if first == 116:
            take_word(cursor, b"true")
            self.column.add(True)
        elif first == 102:
            take_word(cursor, b"false")
            self.column.add(False)
        else:
            raise other_kind(first, "a boolean")


class JsonIntegerStep(JsonStep):
    def __init__(self, column: NumberColumn) -> None:
        JsonStep.__init__(self, column)
        self.column = column

    def read(self, cursor: Cursor) -> None:
        first = peek(cursor)
        start = cursor.position
        end = number_end(cursor, first)
        data = cursor.data
        at = start + 1 if first == _MINUS else start
        is_plain = end - at <= _LONGEST_LONG
        value = 0
        while is_plain and at < end:
            digit = data[at] - _ZERO
            is_plain = 0 <= digit <= 9
            value = value * 10 + digit
            at += 1
        if is_plain:
            self.column.add_long(-value if first == _MINUS else value)
        else:
            self.add_other(cursor, start, end)

    def add_other(self, cursor: Cursor, start: int, end: int) -> None:
        """A whole number that is long, or is written as 1.0 or 1e3."""
        text = bytes(cursor.data[start:end])
        try:
            value: Any = int(text)
        except ValueError:
            number = float(text)
            if number != number // 1:
                raise Malformed(f"{text.decode()} is not a whole number") from None
            value = int(number)
        if value < -(1 << 63) or value >= 1 << 63:
            raise Malformed(f"{text.decode()} is out of range")
        self.column.add_long(value)


class JsonNumberStep(JsonStep):
    def __init__(self, column: NumberColumn) -> None:
        JsonStep.__init__(self, column)
        self.column = column
        self.powers = list(_POWERS)

    def read(self, cursor: Cursor) -> None:
        """With few digits the quotient of two numbers that a double has exactly is the nearest double."""
        first = peek(cursor)
        start = cursor.position
        end = number_end(cursor, first)
        data = cursor.data
        at = start + 1 if first == _MINUS else start
        mantissa = 0
        digits = 0
        after_point = 0
        has_point = False
        while at < end:
            byte = data[at]
            if byte == _POINT:
                has_point = True
            elif byte < _ZERO or byte > _NINE:
                break
            else:
                mantissa = mantissa * 10 + (byte - _ZERO)
                digits += 1
                if has_point:
                    after_point += 1
                if digits > _EXACT_DIGITS:
                    break
            at += 1
        if at < end or mantissa == 0:
            value = float(bytes(data[start:end]))
        else:
            value = mantissa
            if after_point > 0:
                value = value / self.powers[after_point]
            if first == _MINUS:
                value = -value
        self.column.add_double(value)


class JsonListStep(JsonStep):
    def __init__(self, column: ListColumn, item: Step) -> None:
        JsonStep.__init__(self, column)
        self.column = column
        self.item = item

    def read(self, cursor: Cursor) -> None:
        expect(cursor, _OPEN_LIST, "an array")
        if peek(cursor) == _CLOSE_LIST:
            cursor.skip(1)
        else:
            self.item.run(cursor)
            while has_more(cursor, _CLOSE_LIST):
                self.item.run(cursor)
        self.column.close()

    def place(self) -> str:
        return self.item.place()


class JsonMapStep(JsonStep):
    def __init__(self, column: ListColumn, entries: StructColumn, keys: BytesColumn, value: Step) -> None:
        JsonStep.__init__(self, column)
        self.column = column
        self.entries = entries
        self.keys = keys
        self.value = value

    def read(self, cursor: Cursor) -> None:
        expect(cursor, _OPEN_OBJECT, "an object")
        if peek(cursor) == _CLOSE_OBJECT:
            cursor.skip(1)
        else:
            self.add_entry(cursor)
            while has_more(cursor, _CLOSE_OBJECT):
                self.add_entry(cursor)
        self.column.close()

    def add_entry(self, cursor: Cursor) -> None:
        add_string(cursor, self.keys)
        expect(cursor, _COLON, "a colon")
        self.value.run(cursor)
        self.entries.close()

    def place(self) -> str:
        return self.value.place()


class JsonObjectStep(JsonStep):
    """A field that is missing is null; one that the schema does not name is passed over."""

    def __init__(self, column: StructColumn, names: list[str], steps: list[Step]) -> None:
        JsonStep.__init__(self, column)
        self.column = column
        self.texts = names
        self.names = [name.encode() for name in names]
        self.places = {name: index for index, name in enumerate(self.names)}
        self.steps = steps
        self.seen = bytearray(len(names))
        self.at = -1

    def read(self, cursor: Cursor) -> None:
        self.at = -1
        expect(cursor, _OPEN_OBJECT, "an object")
        count = len(self.steps)
        seen = self.seen
        for index in range(count):
            seen[index] = 0
        following = 0
        if peek(cursor) == _CLOSE_OBJECT:
            cursor.skip(1)
        else:
            while True:
                index = self.field(cursor, following)
                expect(cursor, _COLON, "a colon")
                if index < 0:
                    skip_json(cursor)
                else:
                    self.at = index
                    if seen[index]:
                        raise Malformed("a field comes twice")
                    seen[index] = 1
                    step = self.steps[index]
                    step.run(cursor)
                    following = index + 1
                if not has_more(cursor, _CLOSE_OBJECT):
                    break
        for index in range(count):
            if not seen[index]:
                missing = self.column.fields[index]
                missing.add_null()
        self.column.close()

    def field(self, cursor: Cursor, following: int) -> int:
        """Returns the index of the field with the next name, often the successor of the last one; -1 for an unknown
        name."""
        expect(cursor, _QUOTE, "a field's name")
        start = cursor.position
        has_escapes = string_end(cursor)
        size = cursor.position - start - 1
        if not has_escapes and following < len(self.names):
            name = self.names[following]
            if size == len(name):
                if cython.compiled:
                    if memcmp(cursor.data + start, PyBytes_AS_STRING(name), size) == 0:
                        return following
                elif bytes(cursor.data[start : start + size]) == name:
                    return following
        content = bytes(cursor.data[start : start + size])
        if has_escapes:
            content = unescaped(content)
        return self.places.get(content, -1)

    def place(self) -> str:
        if self.at < 0:
            return ""
        inner = self.steps[self.at].place()
        return f"{self.texts[self.at]}.{inner}" if inner else self.texts[self.at]


# ---- tokens


def skip_space(cursor: Cursor) -> None:
    while cursor.position < cursor.end:
        byte = cursor.data[cursor.position]
        if byte > 32 or (byte != 32 and byte != 10 and byte != 13 and byte != 9):
            break
        cursor.position += 1


def peek(cursor: Cursor) -> int:
    """The first byte of the next token."""
    skip_space(cursor)
    if cursor.position >= cursor.end:
        raise Malformed("the JSON text ends too early")
    byte: int = cursor.data[cursor.position]
    return byte


def take_word(cursor: Cursor, word: bytes) -> None:
    start = cursor.position
    for index in range(len(word)):
        if start + index >= cursor.end or cursor.data[start + index] != word[index]:
            raise Malformed("a word is not of JSON")
    cursor.position = start + len(word)


def expect(cursor: Cursor, wanted: int, name: str) -> None:
    first = peek(cursor)
    if first != wanted:
        raise other_kind(first, name)
    cursor.position += 1


def has_more(cursor: Cursor, closing: int) -> bool:
    """Reads a comma, or the end, after a member."""
    first = peek(cursor)
    cursor.position += 1
    if first == _COMMA:
        return True
    if first != closing:
        raise Malformed("a comma is missing")
    return False


def other_kind(first: int, wanted: str) -> Malformed:
    found = _KINDS.get(first) or ("a number" if first == _MINUS or _ZERO <= first <= _NINE else repr(chr(first)))
    return Malformed(f"{found} where {wanted} is expected")


def number_end(cursor: Cursor, first: int) -> int:
    """Passes over a number, as JSON's grammar has it; returns where it ends."""
    data = cursor.data
    at = cursor.position
    end = cursor.end
    if first == _MINUS:
        at += 1
    start = at
    while at < end and _ZERO <= data[at] <= _NINE:
        at += 1
    if at == start:
        raise other_kind(first, "a number")
    if data[start] == _ZERO and at - start > 1:
        raise Malformed("a number begins with 0")
    if at < end and data[at] == _POINT:
        at += 1
        start = at
        while at < end and _ZERO <= data[at] <= _NINE:
            at += 1
        if at == start:
            raise Malformed("a number ends with a point")
    if at < end and (data[at] == 101 or data[at] == 69):
        at += 1
        if at < end and (data[at] == _PLUS or data[at] == _MINUS):
            at += 1
        start = at
        while at < end and _ZERO <= data[at] <= _NINE:
            at += 1
        if at == start:
            raise Malformed("a number has no exponent")
    cursor.position = at
    return at


def string_end(cursor: Cursor) -> bool:
    """Passes over the rest of a string, with its closing quote; whether it has escapes."""
    data = cursor.data
    at = cursor.position
    end = cursor.end
    has_escapes = False
    while at < end:
        byte = data[at]
        if byte == _QUOTE:
            cursor.position = at + 1
            return has_escapes
        if byte < 32:
            raise Malformed("a string has a control character")
        if byte == _BACKSLASH:
            has_escapes = True
            at += escape_size(cursor, at)
        else:
            at += 1
    raise Malformed("a string does not end")


def escape_size(cursor: Cursor, at: int) -> int:
    """The size of an escape, including the backslash."""
    size = 2
    if at + 1 < cursor.end and cursor.data[at + 1] == 117:
        size = 6
    if at + size > cursor.end:
        raise Malformed("a string does not end")
    if size == 2:
        if cursor.data[at + 1] not in (34, 92, 47, 98, 102, 110, 114, 116):
            raise Malformed("a string has an escape that is not of JSON")
    else:
        for index in range(2, 6):
            digit = cursor.data[at + index] | 32
            if not (_ZERO <= cursor.data[at + index] <= _NINE or 97 <= digit <= 102):
                raise Malformed("a string has an escape that is not of JSON")
    return size


def add_string(cursor: Cursor, column: BytesColumn) -> None:
    expect(cursor, _QUOTE, "a string")
    start = cursor.position
    has_escapes = string_end(cursor)
    size = cursor.position - start - 1
    if has_escapes:
        text = Cursor(unescaped(bytes(cursor.data[start : start + size])))
        column.add(text, 0, text.end)
    else:
        column.add(cursor, start, size)


def unescaped(content: bytes) -> bytes:
    try:
        text: str = json.loads(b'"' + content + b'"')
        return text.encode()
    except ValueError:
        raise Malformed("a string has an escape that is not of JSON") from None


def skip_json(cursor: Cursor) -> None:
    """Any value."""
    first = peek(cursor)
    if first == _QUOTE:
        cursor.position += 1
        string_end(cursor)
    elif first == _OPEN_OBJECT:
        cursor.enter()
        cursor.position += 1
        if peek(cursor) == _CLOSE_OBJECT:
            cursor.position += 1
        else:
            while True:
                expect(cursor, _QUOTE, "a field's name")
                string_end(cursor)
                expect(cursor, _COLON, "a colon")
                skip_json(cursor)
                if not has_more(cursor, _CLOSE_OBJECT):
                    break
        cursor.leave()
    elif first == _OPEN_LIST:
        cursor.enter()
        cursor.position += 1
        if peek(cursor) == _CLOSE_LIST:
            cursor.position += 1
        else:
            skip_json(cursor)
            while has_more(cursor, _CLOSE_LIST):
                skip_json(cursor)
        cursor.leave()
    elif first == 116:
        take_word(cursor, b"true")
    elif first == 102:
        take_word(cursor, b"false")
    elif first == 110:
        take_word(cursor, b"null")
    else:
        number_end(cursor, first)
