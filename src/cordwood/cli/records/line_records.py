"""Parses input lines of `cordwood produce` into records; sans-IO."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cordwood.cli.records.record_json import BadJson, ParsedRecord, parse_record
from cordwood.wire.column_input import BinaryInput, HeaderInput, NumberInput, RecordInput
from cordwood.wire.line_input import LineColumns
from cordwood.wire.record import NO_TIMESTAMP

LineParser = Callable[[bytes], ParsedRecord]


class BadLine(Exception):
    """A line is invalid; the message says why."""


@dataclass(frozen=True, slots=True)
class LineOptions:
    key_separator: bytes | None = None
    key: bytes | None = None
    """The key of every record."""
    headers: Sequence[tuple[str, bytes | None]] = ()
    """The headers of every record."""
    partition: int | None = None
    null: bytes | None = None
    """A key or value equal to this becomes null."""


def record_columns(options: LineOptions, lines: LineColumns, timestamp_ms: int) -> RecordInput:
    """Parses lines into columns, without an object per record."""
    count = lines.count
    keys = lines.keys
    if keys is None and options.key is not None and options.key != options.null:
        keys = _binary_input([options.key], count)
    headers = None
    if options.headers:
        names, contents = zip(*((name.encode(), content) for name, content in options.headers), strict=True)
        headers = HeaderInput(None, _binary_input(names), _binary_input(contents), count)
    times = timestamp_ms.to_bytes(8, sys.byteorder) * count
    return RecordInput(count, keys, lines.values, NumberInput(count, 0, None, times, NO_TIMESTAMP), headers)


def _binary_input(values: Sequence[bytes], repeated: int | None = None) -> BinaryInput:
    """Builds a column of these; a single value is repeated `repeated` times."""
    ends = [0]
    for value in values:
        ends.append(ends[-1] + len(value))
    offsets = b"".join(end.to_bytes(4, sys.byteorder) for end in ends)
    count, stride = (len(values), 1) if repeated is None else (repeated, 0)
    return BinaryInput(count, 0, None, offsets, b"".join(values), False, stride)


def json_parser(options: LineOptions, *, repartition: bool) -> LineParser:
    """The options apply to fields that a line does not set; with `repartition` the line's partition is ignored."""

    def parse(line: bytes) -> ParsedRecord:
        try:
            told = parse_record(line)
        except BadJson as error:
            raise BadLine(str(error)) from error
        partition = None if repartition else told.partition
        return ParsedRecord(
            told.key if told.key is not None else options.key,
            told.value,
            [*told.headers, *options.headers],
            told.timestamp,
            partition if options.partition is None else options.partition,
        )

    return parse
