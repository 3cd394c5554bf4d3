"""A line of input as a record; sans-IO."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cordwood.cli.record_json import BadJson, ParsedRecord, parse_record

LineParser = Callable[[bytes], ParsedRecord]


class BadLine(Exception):
    """The text says what is wrong."""


@dataclass(frozen=True, slots=True)
class LineOptions:
    key_separator: bytes | None = None
    key: bytes | None = None
    """The same for all lines."""
    headers: Sequence[tuple[str, bytes | None]] = ()
    """Those of every record."""
    partition: int | None = None
    null: bytes | None = None
    """A key or value that is exactly this is null."""


def line_parser(options: LineOptions) -> LineParser:
    """Raises `BadLine` for a line without the key separator."""

    def parse(line: bytes) -> ParsedRecord:
        key, value = options.key, line
        if options.key_separator is not None:
            key, separator, value = line.partition(options.key_separator)
            if not separator:
                raise BadLine(f"there is no key separator {options.key_separator.decode(errors='replace')!r}")
        return ParsedRecord(
            None if key == options.null else key,
            None if value == options.null else value,
            options.headers,
            None,
            options.partition,
        )

    return parse


def json_parser(options: LineOptions, *, repartition: bool) -> LineParser:
    """What the options say holds for what a line does not say; with `repartition`, its partition is passed over."""

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
