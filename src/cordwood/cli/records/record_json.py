"""A record as a JSON object, as `cordwood consume --json` prints it and `cordwood produce --json` reads it.

{"topic": "orders", "partition": 0, "offset": 7, "timestamp": 1700000000000, "key": "k", "value": "text", "headers": []}

Bytes that are UTF-8 are text; others are base64 under the name with the suffix "Base64". Null is null.
"""

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

_FIELDS = frozenset(
    {"topic", "partition", "offset", "timestamp", "key", "keyBase64", "value", "valueBase64", "headers"}
)
_HEADER_FIELDS = frozenset({"name", "value", "valueBase64"})
_MAX_INT64 = 2**63 - 1


class BadJson(Exception):
    """The JSON is not a record; the message says why, and what is allowed."""


class ParsedRecord(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    timestamp: int | None
    partition: int | None


def parse_record(line: bytes) -> ParsedRecord:
    """Parses output of `JSON_LAYOUT`, complete or partial; ignores topic and offset. Raises `BadJson`.

    A key or value that is neither a string nor null is written as JSON; headers may also be an object.
    """
    try:
        told = json.loads(line)
    except ValueError as error:
        raise BadJson(f"not JSON: {error}") from error
    if not isinstance(told, dict):
        raise BadJson('not an object such as {"key": "k", "value": "v"}')
    unknown = sorted(told.keys() - _FIELDS)
    if unknown:
        raise BadJson(f"unknown field {unknown[0]!r}; allowed are {', '.join(sorted(_FIELDS))}")
    return ParsedRecord(
        _parse_bytes(told, "key"),
        _parse_bytes(told, "value"),
        _parse_headers(told.get("headers")),
        _parse_number(told, "timestamp"),
        _parse_number(told, "partition"),
    )


def _parse_bytes(told: dict[str, Any], name: str) -> bytes | None:
    coded = told.get(f"{name}Base64")
    plain = told.get(name)
    if coded is None:
        if plain is None:
            return None
        if isinstance(plain, str):
            # JSON can spell a lone surrogate, which has no UTF-8 encoding; it is refused below.
            try:
                return plain.encode()
            except UnicodeEncodeError as error:
                raise BadJson(f"{name} cannot be written as UTF-8: {error.reason}") from error
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode()
    if plain is not None:
        raise BadJson(f"both {name} and {name}Base64")
    try:
        return base64.b64decode(coded, validate=True)
    except (binascii.Error, ValueError, TypeError) as error:
        raise BadJson(f"{name}Base64 is not base64") from error


def _parse_headers(told: Any) -> list[tuple[str, bytes | None]]:
    if told is None:
        return []
    if isinstance(told, dict):
        return [(name, _parse_bytes({"value": content}, "value")) for name, content in told.items()]
    if not isinstance(told, list):
        raise BadJson('headers are neither a list such as [{"name": "h", "value": "v"}] nor an object')
    headers = []
    for header in told:
        if not isinstance(header, dict) or not isinstance(header.get("name"), str) or header.keys() - _HEADER_FIELDS:
            raise BadJson('a header is not an object such as {"name": "h", "value": "v"}')
        headers.append((header["name"], _parse_bytes(header, "value")))
    return headers


def _parse_number(told: dict[str, Any], name: str) -> int | None:
    number = told.get(name)
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= _MAX_INT64:
        raise BadJson(f"{name} is {number!r}, not a whole number from 0 on")
    return number
