"""Copies Avro types with a canonical order of properties and aliases, and without empty docs."""

from __future__ import annotations

from copy import copy
from typing import Any

from .types import Array, Field, Map, Named, Properties, Record, Type, Union

# First and in this order; the rest is sorted.
_LOGICAL = ("logicalType", "precision", "scale")


def normalized(type_: Type) -> Type:
    return _Normalizer().type(type_)


class _Normalizer:
    def __init__(self) -> None:
        self._done: dict[str, Named] = {}

    def type(self, type_: Type) -> Type:
        match type_:
            case Named():
                return self._named(type_)
            case Union(branches=branches):
                return Union([self.type(branch) for branch in branches])
            case Array(items=items):
                return Array(self.type(items), properties=_sorted(type_.properties))
            case Map(values=values):
                return Map(self.type(values), properties=_sorted(type_.properties))
        made = copy(type_)
        made.properties = _sorted(type_.properties)
        return made

    def _named(self, named: Named) -> Named:
        if named.full_name in self._done:
            return self._done[named.full_name]
        made = copy(named)
        self._done[named.full_name] = made
        made.doc = named.doc or None
        made.aliases = sorted(named.aliases)
        made.properties = _sorted(named.properties)
        if isinstance(made, Record):
            made.fields = [self._field(each) for each in made.fields]
        return made

    def _field(self, described: Field) -> Field:
        made = copy(described)
        made.type = self.type(described.type)
        made.aliases = sorted(described.aliases)
        made.default = _ordered(described.default)
        made.properties = _sorted(described.properties)
        return made


def _sorted(properties: Properties) -> Properties:
    rest = sorted(name for name in properties if name not in _LOGICAL)
    return {name: _ordered(properties[name]) for name in (*_LOGICAL, *rest) if name in properties}


def _ordered(value: Any) -> Any:
    """JSON with the keys of its objects sorted."""
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value)}
    return [_ordered(each) for each in value] if isinstance(value, list) else value
