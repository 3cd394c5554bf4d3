"""A .proto text as tokens, without comments."""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from cordwood.registry.schemas.schema import InvalidSchema


class Kind(Enum):
    NAME = "a name"
    NUMBER = "a number"
    STRING = "a string"
    SYMBOL = "a symbol"
    END = "the end"


class Token(NamedTuple):
    kind: Kind
    text: str
    """The value of a string literal."""
    line: int


# No alternative can match the same text in two ways, so matching is linear.
_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)
    |(?P<name>\.?[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)
    |(?P<number>0[xX][0-9a-fA-F]+|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?[fF]?)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<symbol>[{}\[\]()<>=;,:+\-./])
    """,
    re.VERBOSE | re.ASCII,
)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|.)", re.DOTALL)
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def tokens(text: str) -> list[Token]:
    """Ends with an END. Raises `InvalidSchema`."""
    found: list[Token] = []
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise InvalidSchema(f"Syntax error in line {line}: unexpected {text[at : at + 20]!r}")
        raw = match.group()
        match match.lastgroup:
            case "name":
                found.append(Token(Kind.NAME, raw, line))
            case "number":
                found.append(Token(Kind.NUMBER, raw, line))
            case "string":
                found.append(Token(Kind.STRING, _unescaped(raw[1:-1]), line))
            case "symbol":
                found.append(Token(Kind.SYMBOL, raw, line))
        line += raw.count("\n")
        at = match.end()
    found.append(Token(Kind.END, "", line))
    return found


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_meaning, text) if "\\" in text else text


def _meaning(match: re.Match[str]) -> str:
    code = match.group(1)
    if code[0] in "xuU" and len(code) > 1:
        number = int(code[1:], 16)
        return chr(number) if number <= 0x10FFFF else "�"
    if code[0] in "01234567":
        return chr(int(code, 8))
    return _PLAIN.get(code, code)
