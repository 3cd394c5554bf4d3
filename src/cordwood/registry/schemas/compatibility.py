"""Compatibility levels: which schemas must be able to read data of which others."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from .schema import InvalidSchema, Schema


class Level(Enum):
    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        return self.value.endswith("_TRANSITIVE")

    @property
    def is_backward(self) -> bool:
        """The new schema can read data of older ones."""
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def is_forward(self) -> bool:
        """Older schemas can read data of the new one."""
        return self.value.startswith(("FORWARD", "FULL"))


class Policy(Enum):
    STRICT = "STRICT"
    LENIENT = "LENIENT"


def violations(level: Level, new: Schema, previous: Sequence[Schema], policy: Policy = Policy.STRICT) -> list[str]:
    """The reasons why a schema may not follow others, the latest last; empty if it may. Stops at the first incompatible
    schema, as Confluent's registry does."""
    checked = list(reversed(previous)) if level.is_transitive else list(previous[-1:])
    for old in checked:
        found = _pair(level, new, old, policy)
        if found:
            return found
    return []


def _pair(level: Level, new: Schema, old: Schema, policy: Policy) -> list[str]:
    if level is Level.NONE:
        return []
    if new.type != old.type:
        return ["Incompatible because of different schema type"]
    found: list[str] = []
    if level.is_backward:
        found += _messages(new, old, "new", "old", policy)
    if level.is_forward:
        found += _messages(old, new, "old", "new", policy)
    return found


def _messages(reader: Schema, writer: Schema, reader_name: str, writer_name: str, policy: Policy) -> list[str]:
    from .json.schema import JsonSchema

    try:
        if isinstance(reader, JsonSchema):
            found = reader.incompatibilities(writer, is_lenient=policy is Policy.LENIENT)
        else:
            found = reader.incompatibilities(writer)
    except RecursionError:
        return ["The schemas are nested too deeply to compare"]
    except InvalidSchema as error:
        return [f"The schemas cannot be compared: {error}"]
    return [each.text(reader_name, writer_name) for each in found]
