"""The tables of evolutions: an old and a new schema, and which of them reads the other's data."""

from __future__ import annotations

from typing import NamedTuple

from cordwood.registry.schemas.compatibility import Level, violations
from cordwood.registry.schemas.parsing import parse_schema

BOTH, BACKWARD, FORWARD, NEITHER = "full", "backward", "forward", "none"


class Evolution(NamedTuple):
    name: str
    old: str
    new: str
    verdict: str
    """`backward`: the new schema reads the old one's data. `forward`: the other way round."""


def expected(evolution: Evolution, level: Level) -> bool:
    backward = evolution.verdict in (BOTH, BACKWARD)
    forward = evolution.verdict in (BOTH, FORWARD)
    return (backward or not level.is_backward) and (forward or not level.is_forward)


def found(evolution: Evolution, schema_type: str, level: Level) -> list[str]:
    old = parse_schema(schema_type, evolution.old)
    new = parse_schema(schema_type, evolution.new)
    return violations(level, new, [old])
