"""Lines as columns: the records that cutting line by line would give; in both rooms."""

import sys
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.rooms import Room, in_each_room

pytestmark = in_each_room

# Few letters, so that delimiters, separators and nulls are often there, whole and in part.
texts = st.text("ab\n:\r~\0é", max_size=60).map(str.encode) | st.binary(max_size=60)
delimiters = st.sampled_from([b"\n", b"\r\n", b"\0", b"aa"])
separators = st.sampled_from([None, b":", b"::", b"\t"])
nulls = st.sampled_from([None, b"~", b""])

Pair = tuple[bytes | None, bytes | None]


def line_by_line(
    text: bytes, delimiter: bytes, separator: bytes | None, null: bytes | None, is_last: bool
) -> tuple[list[Pair], bytes, bool]:
    """Keys and values, what is left of the text, and whether that lacks a separator."""
    pairs: list[Pair] = []
    while text:
        line, ends, rest = text.partition(delimiter)
        if not ends and not is_last:
            break
        key, value = None, line
        if separator is not None:
            key, found, value = line.partition(separator)
            if not found:
                return pairs, text, True
        pairs.append((None if key == null else key, None if value == null else value))
        text = rest
    return pairs, text, False


def pairs_of(lines: Any) -> list[Pair]:
    values: Sequence[bytes | None] = lines.values.listed()
    keys: Sequence[bytes | None] = [None] * lines.count if lines.keys is None else lines.keys.listed()
    return list(zip(keys, values, strict=True))


@given(text=texts, delimiter=delimiters, separator=separators, null=nulls, is_last=st.booleans())
def test_lines_are_those_that_cutting_one_by_one_would_give(
    room: Room, text: bytes, delimiter: bytes, separator: bytes | None, null: bytes | None, is_last: bool
) -> None:
    pairs, rest, lacks_separator = line_by_line(text, delimiter, separator, null, is_last)
    lines = room.line_input.LineColumns(text, delimiter, separator, null, is_last)
    assert pairs_of(lines) == pairs
    assert (lines.count, text[lines.end :], lines.lacks_separator) == (len(pairs), rest, lacks_separator)


def test_more_lines_than_the_initial_capacity(room: Room) -> None:
    text = b"".join(b"%d\n" % number for number in range(5000))
    lines = room.line_input.LineColumns(text, b"\n", None, b"4999", False)
    assert lines.values.listed() == [b"%d" % number for number in range(4999)] + [None]


def test_a_line_much_longer_than_others(room: Room) -> None:
    text = b"k:" + b"x" * 1_000_000 + b"\nshort:y"
    lines = room.line_input.LineColumns(text, b"\n", b":", None, True)
    assert pairs_of(lines) == [(b"k", b"x" * 1_000_000), (b"short", b"y")]


@pytest.mark.parametrize(("delimiter", "separator"), [(b"", None), (b"\n", b"")])
def test_an_empty_log_is_not_truncated(room: Room, delimiter: bytes, separator: bytes | None) -> None:
    with pytest.raises(ValueError, match="empty delimiter or key separator"):
        room.line_input.LineColumns(b"a", delimiter, separator, None, False)


def test_values_that_repeat_and_headers_of_all_records_become_records(room: Room) -> None:
    columns = room.column_input
    lines = room.line_input.LineColumns(b"a\nb\n", b"\n", None, None, False)
    keys = columns.BinaryInput(2, 0, None, numbers(0, 3), b"key", False, 0)
    names = columns.BinaryInput(2, 0, None, numbers(0, 1, 2), b"xy", False)
    contents = columns.BinaryInput(2, 0, b"\x01", numbers(0, 1, 1), b"1", False)
    headers = columns.HeaderInput(None, names, contents, 2)
    times = columns.NumberInput(2, 0, None, (7).to_bytes(8, sys.byteorder) * 2, -1)
    (batch,) = columns.encode_columns(2, keys, lines.values, times, headers)
    found = [
        (record.key, record.value, record.headers, record.timestamp) for record in room.records.decode_batch(batch)
    ]
    both = (("x", b"1"), ("y", None))
    assert found == [(b"key", b"a", both, 7), (b"key", b"b", both, 7)]


@pytest.mark.parametrize("stride", [0, 1, 2])
def test_offsets_that_are_too_few_for_a_stride_are_refused(room: Room, stride: int) -> None:
    needed = numbers(*[0] * (stride + 2))
    room.column_input.BinaryInput(2, 0, None, needed, b"", False, stride)
    with pytest.raises(ValueError, match="bytes of offsets for 2 values"):
        room.column_input.BinaryInput(2, 0, None, needed[:-4], b"", False, stride)


def numbers(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, sys.byteorder) for value in values)
