# cython: language_level=3, annotation_typing=False
"""**Step**: reads one value from a cursor and appends it to its column; and the loop over many values. One of the
compiled modules.

A reader is a tree of steps, created once for a pair of writer's and reader's schema. Steps don't use schemas.
"""

from __future__ import annotations

from typing import Any

from cordwood.wire.column_input import BinaryInput
from cordwood.wire.record import Buffer

from .builders import Column, StructColumn
from .cursor import Cursor, Malformed

PREFIX_BYTES = 5
NOT_FRAMED = "the record does not begin with a schema id"


class Step:
    def run(self, cursor: Cursor) -> None:
        """Adds one value to its column. Raises `Malformed`."""
        raise NotImplementedError

    def place(self) -> str:
        """The field at which the last run was when it failed, as `lines.price`."""
        return ""


class NullStep(Step):
    """Reads nothing, and adds null."""

    def __init__(self, column: Column) -> None:
        self.column = column

    def run(self, cursor: Cursor) -> None:
        self.column.add_null()


class FailStep(Step):
    """For values that the reader's schema has no place for."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def run(self, cursor: Cursor) -> None:
        raise Malformed(self.reason)


class ConstantStep(Step):
    """Adds a value that is not in the record, as a default: `content` is what `step` reads."""

    def __init__(self, step: Step, content: bytes) -> None:
        self.step = step
        self.content = Cursor(content)

    def run(self, cursor: Cursor) -> None:
        self.content.position = 0
        self.step.run(self.content)


class MemberStep(Step):
    """One branch of a union that is a struct with a field for each: the others are null."""

    def __init__(self, column: StructColumn, member: int, step: Step) -> None:
        self.column = column
        self.member = member
        self.step = step

    def run(self, cursor: Cursor) -> None:
        self.step.run(cursor)
        for index in range(len(self.column.fields)):
            if index != self.member:
                other = self.column.fields[index]
                other.add_null()
        self.column.close()

    def place(self) -> str:
        return self.step.place()


def framed(values: BinaryInput, content: Buffer) -> set[int]:
    """The ids of schemas in front of the values."""
    cursor = Cursor(content)
    found: set[int] = set()
    last = -1
    for row in range(values.length):
        size = values.find(row)
        if size < PREFIX_BYTES or cursor.data[values.start] != 0:
            continue
        id_ = _id_at(cursor, values.start)
        if id_ != last or not found:
            found.add(id_)
            last = id_
    return found


def run_all(
    column: Column,
    values: BinaryInput,
    content: Buffer,
    by_id: dict[int, Step],
    named: Any,
    by_name: list[Step],
) -> list[tuple[int, str]]:
    """Appends a value to the column for each of `values`, whose bytes are in `content`. Returns the bad rows, which are
    null, with their reasons. `named` has for each row the index in `by_name` of the step that its headers name, or -1
    if the id is in front. None: no row has such a header.
    """
    bad: list[tuple[int, str]] = []
    cursor = Cursor(content)
    has_names = named is not None
    names = memoryview(named if has_names else b"\0\0\0\0").cast("B").cast("i")
    last = -1
    step: Step | None = None
    chosen: Step | None = None
    for row in range(values.length):
        size = values.find(row)
        if size < 0:
            column.add_null()
            continue
        before = column.length
        cursor.position = values.start
        cursor.end = values.start + size
        cursor.depth = 0
        name = names[row] if has_names else -1
        try:
            if name >= 0:
                chosen = by_name[name]
            else:
                if size < PREFIX_BYTES or cursor.data[cursor.position] != 0:
                    raise Malformed(NOT_FRAMED)
                id_ = _id_at(cursor, cursor.position)
                cursor.position += PREFIX_BYTES
                if step is None or id_ != last:
                    step = by_id[id_]
                    last = id_
                chosen = step
            chosen.run(cursor)
        except Malformed as error:
            place = chosen.place() if chosen is not None and str(error) != NOT_FRAMED else ""
            bad.append((row, f"at {place}: {error}" if place else str(error)))
            column.truncate(before)
            column.add_null()
    return bad


def _id_at(cursor: Cursor, start: int) -> int:
    """Big-endian, after the magic byte. There are enough bytes."""
    data = cursor.data
    id_: int = (data[start + 1] << 24) | (data[start + 2] << 16) | (data[start + 3] << 8) | data[start + 4]
    return id_ if id_ < 0x8000_0000 else id_ - 0x1_0000_0000
