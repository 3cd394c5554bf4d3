"""Finds the figures in the lines that benchmarks print.

A figure is a number with a unit. Its name is the line without its figures and targets, so that it is the same in each
run; an indented line belongs to the title above it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_UNITS = (
    "requests/s",
    "M records/s",
    "records/s",
    "M/s",
    "GB/s",
    "MB/s",
    "/s",
    "ns",
    "µs",
    "ms",
    "s",
    "MiB",
    "MB",
    "KiB",
    "%",
    "times",
    "x",
)
_FIGURE = re.compile(
    r"(?<![\w.])(?P<number>\d[\d,]*(?:\.\d+)?)(?P<blank> ?)(?P<unit>"
    + "|".join(re.escape(unit) for unit in _UNITS)
    + r")(?![\w/])"
)
# A quantity within the name, before the column of figures: the 16 KiB of "append a 16 KiB batch      12.93 µs".
_PARAMETER = re.compile(r"(?<=[a-z] )\d[\d,.]* (?=\S.* {2,}\d)")
_TARGET = re.compile(r"\([^()]*(?:[≥≤]|wanted|target)[^()]*\)|[≥≤][^,;)]*")


class Figure(NamedTuple):
    name: str
    value: float
    unit: str


def figures_in(lines: Iterable[str]) -> Iterator[Figure]:
    title = ""
    for line in lines:
        text = _TARGET.sub("", line).rstrip()
        rest, found = _split(text)
        if not found:
            title = text.strip(" :") if text and not text[0].isspace() else title
            continue
        name = (f"{title}: " if title and text[0].isspace() else "") + _name(rest)
        for index, match in enumerate(found):
            label = name if len(found) == 1 else f"{name} [{index + 1}]"
            yield Figure(label, float(match["number"].replace(",", "")), match["unit"])


def _split(text: str) -> tuple[str, list[re.Match[str]]]:
    """The text with a placeholder for each figure, and the figures."""
    parameters = {match.start() for match in _PARAMETER.finditer(text)}
    rest = _FIGURE.sub(lambda match: match[0] if match.start() in parameters else "…", text)
    return rest, [match for match in _FIGURE.finditer(text) if match.start() not in parameters]


def _name(text: str) -> str:
    """Drops the placeholder of a figure at the end, punctuation before it, and repeated blanks."""
    return " ".join(text.split()).rstrip(" …:,;")
