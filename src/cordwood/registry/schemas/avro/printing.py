"""Avro's types as JSON, in the order of attributes that Avro's Java library has: clients and stored schemas are full of
texts that it printed."""

from __future__ import annotations

import json
from typing import Any

from .types import Array, Enum, Field, Fixed, Map, Named, Primitive, Properties, Record, Type, Union


def printed(type_: Type, known: set[str]) -> str:
    """The canonical text. Types whose full names are in `known` are referred to by them."""
    return json.dumps(_Printer(known).node(type_, ""), separators=(",", ":"), ensure_ascii=False)


class _Printer:
    def __init__(self, known: set[str]) -> None:
        self._printed = set(known)

    def node(self, type_: Type, namespace: str) -> Any:
        match type_:
            case Named():
                return self._named(type_, namespace)
            case Union(branches=branches):
                return [self.node(branch, namespace) for branch in branches]
            case Array(items=items):
                return {"type": "array", "items": self.node(items, namespace), **type_.properties}
            case Map(values=values):
                return {"type": "map", "values": self.node(values, namespace), **type_.properties}
            case Primitive(name=name):
                return {"type": name, **type_.properties} if type_.properties else name
        raise AssertionError(type_)

    def _named(self, named: Named, namespace: str) -> Any:
        if named.full_name in self._printed:
            return named.name if named.namespace == namespace else named.full_name
        self._printed.add(named.full_name)
        out: Properties = {"type": named.kind, "name": named.name}
        if isinstance(named, Record) and named.is_error:
            out["type"] = "error"
        if named.namespace != namespace:
            out["namespace"] = named.namespace
        if named.doc is not None:
            out["doc"] = named.doc
        match named:
            case Record(fields=fields):
                out["fields"] = [self._field(each, named.namespace) for each in fields]
            case Enum(symbols=symbols, default=default):
                out["symbols"] = symbols
                if default is not None:
                    out["default"] = default
            case Fixed(size=size):
                out["size"] = size
        out |= named.properties
        if named.aliases:
            out["aliases"] = [_relative(alias, named.namespace) for alias in named.aliases]
        return out

    def _field(self, described: Field, namespace: str) -> Properties:
        out: Properties = {"name": described.name, "type": self.node(described.type, namespace)}
        if described.doc is not None:
            out["doc"] = described.doc
        if described.has_default:
            out["default"] = described.default
        if described.order != "ascending":
            out["order"] = described.order
        if described.aliases:
            out["aliases"] = described.aliases
        return out | described.properties


def _relative(alias: str, namespace: str) -> str:
    space, _, simple = alias.rpartition(".")
    return simple if space == namespace else alias
