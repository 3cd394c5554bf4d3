"""The syntax of java.util.Properties, used in server.properties and meta.properties."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping


class BadProperties(ValueError):
    """A `\\u` without four hex digits: the only thing that Java refuses."""


def parse_properties(text: str) -> dict[str, str]:
    """Parses keys and values; the last value of a repeated key wins."""
    return dict(_parse_line(line) for line in _logical_lines(text))


def write_properties(properties: Mapping[str, str], comment: str | None = None) -> str:
    """Formats properties for `parse_properties`, in ASCII: one line per key, in the given order."""
    comments = [] if comment is None else [f"#{_escape_unicode(line)}\n" for line in _LINE_END.split(comment)]
    pairs = (f"{_escape(key, is_key=True)}={_escape(value, is_key=False)}\n" for key, value in properties.items())
    return "".join([*comments, *pairs])


# The blanks that Java skips: space, tab and form feed. A line ends with \n, \r or both, and with nothing else.
_BLANK = " \t\f"
_LINE_END = re.compile(r"\r\n|\n|\r")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = {character: f"\\{letter}" for letter, character in _ESCAPES.items()}


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank ones; a line that ends with an odd number of backslashes continues on the
    next."""
    lines = iter(_LINE_END.split(text))
    for line in lines:
        whole = line.lstrip(_BLANK)
        if not whole or whole[0] in "#!":
            continue
        while _continues(whole):
            # A backslash at the very end of the text is dropped.
            whole = whole[:-1] + next(lines, "").lstrip(_BLANK)
        if whole:
            yield whole


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _parse_line(line: str) -> tuple[str, str]:
    key_end = _end_of_key(line)
    rest = line[key_end:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return _unescape(line[:key_end]), _unescape(rest)


def _end_of_key(line: str) -> int:
    position = 0
    while position < len(line) and line[position] not in "=:" + _BLANK:
        position += 2 if line[position] == "\\" else 1
    return min(position, len(line))


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    characters = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character == "\\":
            character = text[position : position + 1]
            position += 1
            if character == "u":
                digits = text[position : position + 4]
                if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
                    raise BadProperties(f"Malformed \\uxxxx encoding: \\u{digits}")
                character = chr(int(digits, 16))
                position += 4
            else:
                character = _ESCAPES.get(character, character)
        characters.append(character)
    # Java's characters are UTF-16: two escapes may spell one of ours. An unpaired surrogate stays as it is.
    return "".join(characters).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _escape(text: str, *, is_key: bool) -> str:
    escaped = []
    for position, character in enumerate(text):
        if character in "\\=:#!" or (character == " " and (is_key or position == 0)):
            escaped.append("\\" + character)
        else:
            escaped.append(_ESCAPED.get(character) or _escape_unicode(character))
    return "".join(escaped)


def _escape_unicode(text: str) -> str:
    return "".join(
        character
        if " " <= character <= "~" or character == "\t"
        else "".join(f"\\u{unit:04X}" for unit in _utf16_units(character))
        for character in text
    )


def _utf16_units(character: str) -> list[int]:
    encoded = character.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(encoded[start : start + 2]) for start in range(0, len(encoded), 2)]
