"""A JSON Schema, independent of its draft and its spelling. A schema with several kinds of keywords is an
`allOf` of one node for each."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any


@dataclass(slots=True, eq=False)
class Node:
    raw: Any = field(kw_only=True)
    """The JSON that it comes from."""

    def annotation(self, name: str) -> Any:
        return self.raw.get(name) if isinstance(self.raw, dict) else None

    @property
    def has_default(self) -> bool:
        return isinstance(self.raw, dict) and "default" in self.raw


class Anything(Node):
    """True, or a schema without a keyword that restricts values."""


class Nothing(Node):
    """False."""


class Null(Node):
    pass


class Boolean(Node):
    pass


@dataclass(slots=True, eq=False)
class String(Node):
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None


@dataclass(slots=True, eq=False)
class Number(Node):
    is_integer: bool = False
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: float | None = None
    exclusive_maximum: float | None = None
    multiple_of: float | None = None


@dataclass(slots=True, eq=False)
class Values(Node):
    """`enum`, or `const`, with its values as JSON texts."""

    keyword: str
    values: frozenset[str]


@dataclass(slots=True, eq=False)
class Not(Node):
    schema: Node


class Conditional(Node):
    """`if`, `then`, `else`."""


class Criterion(Enum):
    ALL = "allOf"
    ANY = "anyOf"
    ONE = "oneOf"


@dataclass(slots=True, eq=False)
class Combined(Node):
    criterion: Criterion
    schemas: list[Node]


@dataclass(slots=True, eq=False)
class Object(Node):
    properties: dict[str, Node] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    pattern_properties: dict[str, Node] = field(default_factory=dict)
    allows_additional: bool = True
    additional: Node | None = None
    """The schema of properties that are not named."""
    unevaluated: Node | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    dependent_required: dict[str, frozenset[str]] = field(default_factory=dict)
    dependent_schemas: dict[str, Node] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Array(Node):
    items: Node | None = None
    """The schema of all items."""
    prefix: list[Node] = field(default_factory=list)
    """The schemas of the first items, one for each."""
    allows_additional: bool = True
    additional: Node | None = None
    """The schema of items after those of `prefix`."""
    unevaluated: Node | None = None
    min_items: int | None = None
    max_items: int | None = None
    is_unique: bool = False
    min_contains: int | None = None
    max_contains: int | None = None
