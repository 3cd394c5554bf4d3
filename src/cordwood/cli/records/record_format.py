"""Output formats of `cordwood consume`, such as "{partition}:{offset} {key} {value}\\n", as a layout."""

import re
from collections.abc import Sequence
from typing import TypeAlias

from cordwood.wire.record_text import TextField

Layout: TypeAlias = Sequence[bytes | TextField]

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.|$)", re.DOTALL)
_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")

_FIELDS = {
    field.name.lower(): field
    for field in (
        TextField.TOPIC,
        TextField.PARTITION,
        TextField.OFFSET,
        TextField.TIMESTAMP,
        TextField.TIME,
        TextField.KEY,
        TextField.VALUE,
        TextField.HEADERS,
        TextField.KEY_SIZE,
        TextField.VALUE_SIZE,
    )
}

JSON_LAYOUT: Layout = (
    b'{"topic": ',
    TextField.JSON_TOPIC,
    b', "partition": ',
    TextField.PARTITION,
    b', "offset": ',
    TextField.OFFSET,
    b', "timestamp": ',
    TextField.JSON_TIMESTAMP,
    b", ",
    TextField.JSON_KEY,
    b", ",
    TextField.JSON_VALUE,
    b', "headers": ',
    TextField.JSON_HEADERS,
    b"}\n",
)
"""One JSON object per line; `record_json` parses it."""


class BadFormat(Exception):
    """The format is invalid; the message says why, and what is allowed."""


def parse_format(text: str) -> Layout:
    """Raises `BadFormat`."""
    pieces: list[bytes | TextField] = []
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
    return [piece for piece in pieces if piece != b""]


def value_layout(delimiter: bytes) -> Layout:
    return [TextField.VALUE, delimiter]


def key_value_layout(separator: bytes, delimiter: bytes) -> Layout:
    return [TextField.KEY, separator, TextField.VALUE, delimiter]


def unescape(text: str) -> str:
    r"""Replaces \n, \t, \r, \0, \\ and \xHH, which shells leave alone. Raises `BadFormat`."""
    return _ESCAPE.sub(_unescaped, text)


def _unescaped(match: re.Match[str]) -> str:
    escape = match[1]
    if escape.startswith("x") and len(escape) == 3:
        return chr(int(escape[1:], 16))
    if escape not in _ESCAPES:
        raise BadFormat(f"unknown escape {match[0]!r}; there are \\n, \\t, \\r, \\0, \\\\ and \\xHH")
    return _ESCAPES[escape]


def _allowed() -> str:
    return ", ".join(f"{{{name}}}" for name in _FIELDS)
