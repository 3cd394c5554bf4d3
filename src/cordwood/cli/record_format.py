"""How `cordwood consume` prints a record: a format such as "{partition}:{offset} {key} {value}\\n", made a function."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime

from cordwood.cli.record_json import record_as_json
from cordwood.wire.record import NO_TIMESTAMP, ConsumerRecord

Formatter = Callable[[ConsumerRecord], bytes]
_Field = Callable[[ConsumerRecord, bytes], bytes]

# json.dumps would make an encoder for each record, a fifth of the whole cost.
_to_json = json.JSONEncoder(ensure_ascii=False).encode
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.|$)", re.DOTALL)
_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


class BadFormat(Exception):
    """The text says what is wrong, and what is allowed."""


def parse_format(text: str, null: bytes) -> Formatter:
    """`null` is what stands for a key or value that is not there. Raises `BadFormat`."""
    pieces: list[bytes | _Field] = []
    end = 0
    text = unescape(text)
    for match in _PIECE.finditer(text):
        pieces.append(text[end : match.start()].encode())
        end = match.end()
        if match[0] in ("{{", "}}"):
            pieces.append(match[0][:1].encode())
        elif match[1] is None:
            raise BadFormat(f"a {match[0]!r} by itself; {{{{ and }}}} are braces, {_allowed()} are fields")
        elif match[1] not in _FIELDS:
            raise BadFormat(f"unknown field {{{match[1]}}}; there are {_allowed()}")
        else:
            pieces.append(_FIELDS[match[1]])
    pieces.append(text[end:].encode())
    return _formatter(pieces, null)


def value_format(delimiter: bytes, null: bytes) -> Formatter:
    return lambda record: (null if record.value is None else record.value) + delimiter


def key_value_format(separator: bytes, delimiter: bytes, null: bytes) -> Formatter:
    def render(record: ConsumerRecord) -> bytes:
        key = null if record.key is None else record.key
        return key + separator + (null if record.value is None else record.value) + delimiter

    return render


def json_format(record: ConsumerRecord) -> bytes:
    return _to_json(record_as_json(record)).encode() + b"\n"


def unescape(text: str) -> str:
    r"""\n, \t, \r, \0, \\ and \xHH, as shells do not do it. Raises `BadFormat`."""
    return _ESCAPE.sub(_unescaped, text)


def _unescaped(match: re.Match[str]) -> str:
    escape = match[1]
    if escape.startswith("x") and len(escape) == 3:
        return chr(int(escape[1:], 16))
    if escape not in _ESCAPES:
        raise BadFormat(f"unknown escape {match[0]!r}; there are \\n, \\t, \\r, \\0, \\\\ and \\xHH")
    return _ESCAPES[escape]


def _formatter(pieces: list[bytes | _Field], null: bytes) -> Formatter:
    def render(record: ConsumerRecord) -> bytes:
        return b"".join(piece if isinstance(piece, bytes) else piece(record, null) for piece in pieces)

    return render


def _time(record: ConsumerRecord) -> bytes:
    if record.timestamp == NO_TIMESTAMP:
        return b"-"
    try:
        return datetime.fromtimestamp(record.timestamp / 1000, UTC).isoformat(timespec="milliseconds").encode()
    except (OverflowError, ValueError, OSError):
        # A producer may write any number; one beyond the calendar stays a number.
        return b"%d" % record.timestamp


def _headers(record: ConsumerRecord, null: bytes) -> bytes:
    return b",".join(name.encode() + b"=" + (null if content is None else content) for name, content in record.headers)


_FIELDS: dict[str, _Field] = {
    "topic": lambda record, null: record.topic.encode(),
    "partition": lambda record, null: b"%d" % record.partition,
    "offset": lambda record, null: b"%d" % record.offset,
    "timestamp": lambda record, null: b"%d" % record.timestamp,
    "time": lambda record, null: _time(record),
    "key": lambda record, null: null if record.key is None else record.key,
    "value": lambda record, null: null if record.value is None else record.value,
    "headers": lambda record, null: _headers(record, null),
    "key_size": lambda record, null: b"%d" % (-1 if record.key is None else len(record.key)),
    "value_size": lambda record, null: b"%d" % (-1 if record.value is None else len(record.value)),
}


def _allowed() -> str:
    return ", ".join(f"{{{name}}}" for name in _FIELDS)
