"""Avro's types, as a graph: a named type that is used again is the same object."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

PRIMITIVES = frozenset(["null", "boolean", "int", "long", "float", "double", "bytes", "string"])

ABSENT: Any = object()
"""The default of a field that has none; None is the default null."""

Properties = dict[str, Any]


@dataclass(slots=True)
class Type:
    properties: Properties = field(default_factory=dict, kw_only=True)
    """Everything that Avro itself gives no meaning to, with `logicalType` and its companions."""

    @property
    def kind(self) -> str:
        raise NotImplementedError


@dataclass(slots=True)
class Primitive(Type):
    name: str

    @property
    def kind(self) -> str:
        return self.name


@dataclass(slots=True)
class Array(Type):
    items: Type

    @property
    def kind(self) -> str:
        return "array"


@dataclass(slots=True)
class Map(Type):
    values: Type

    @property
    def kind(self) -> str:
        return "map"


@dataclass(slots=True)
class Union(Type):
    branches: list[Type]

    @property
    def kind(self) -> str:
        return "union"


@dataclass(slots=True, eq=False)
class Named(Type):
    name: str
    namespace: str
    doc: str | None = None
    aliases: list[str] = field(default_factory=list)
    """Full names."""

    @property
    def full_name(self) -> str:
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


@dataclass(slots=True, eq=False)
class Fixed(Named):
    size: int = 0

    @property
    def kind(self) -> str:
        return "fixed"


@dataclass(slots=True, eq=False)
class Enum(Named):
    symbols: list[str] = field(default_factory=list)
    default: str | None = None

    @property
    def kind(self) -> str:
        return "enum"


@dataclass(slots=True, eq=False)
class Field:
    name: str
    type: Type
    doc: str | None = None
    default: Any = ABSENT
    order: str = "ascending"
    aliases: list[str] = field(default_factory=list)
    properties: Properties = field(default_factory=dict)

    @property
    def has_default(self) -> bool:
        return self.default is not ABSENT


@dataclass(slots=True, eq=False)
class Record(Named):
    fields: list[Field] = field(default_factory=list)
    is_error: bool = False

    @property
    def kind(self) -> str:
        return "record"
