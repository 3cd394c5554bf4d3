"""Converts JSON to Avro's types. Names and defaults are validated for new schemas only: topics are full of older ones
that break those rules and are in use."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from cordwood.registry.schemas.schema import MAX_NESTING, InvalidSchema

from .types import ABSENT, PRIMITIVES, Array, Enum, Field, Fixed, Map, Named, Primitive, Properties, Record, Type, Union

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ORDERS = ("ascending", "descending", "ignore")
_OF_NAMED = frozenset(["type", "name", "namespace", "doc", "aliases"])
_OF_FIELD = frozenset(["name", "type", "doc", "default", "order", "aliases"])
_INT = range(-(2**31), 2**31)
_LONG = range(-(2**63), 2**63)


class Parser:
    """Parses schemas one after the other; each may use the names of those before it."""

    def __init__(self, *, validate: bool = True) -> None:
        self.named: dict[str, Named] = {}
        self._validate = validate
        self._depth = 0
        # A default may belong to a record whose fields are not known yet.
        self._defaults: list[tuple[str, Field]] = []

    def parse(self, text: str) -> Type:
        """Raises `InvalidSchema`."""
        parsed = self._type(load_json(text), "")
        if self._validate:
            for where, described in self._defaults:
                if not _is_default(described.type, described.default):
                    raise InvalidSchema(
                        f"Invalid default for field {where}: {json.dumps(described.default)} "
                        f"not a {json.dumps(_shown(described.type))}"
                    )
        self._defaults.clear()
        return parsed

    def _type(self, node: Any, namespace: str) -> Type:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise InvalidSchema(f"Types are nested more than {MAX_NESTING} levels deep")
        try:
            if isinstance(node, str):
                return self._by_name(node, namespace)
            if isinstance(node, list):
                return self._union(node, namespace)
            if isinstance(node, dict):
                return self._described(node, namespace)
        finally:
            self._depth -= 1
        raise InvalidSchema(f"Schema not yet supported: {_excerpt(node)}")

    def _by_name(self, name: str, namespace: str) -> Type:
        if name in PRIMITIVES:
            return Primitive(name)
        qualified = f"{namespace}.{name}" if namespace and "." not in name else name
        found = self.named.get(qualified) or self.named.get(name)
        if found is None:
            raise InvalidSchema(f'Undefined schema: "{qualified}": no type has this name')
        return found

    def _union(self, branches: list[Any], namespace: str) -> Union:
        types = [self._type(branch, namespace) for branch in branches]
        seen = set()
        for each in types:
            if isinstance(each, Union):
                raise InvalidSchema("Nested union: a union may not directly contain another")
            name = each.full_name if isinstance(each, Named) else each.kind
            if name in seen:
                raise InvalidSchema(f"Duplicate in union: {name}")
            seen.add(name)
        return Union(types)

    def _described(self, node: Properties, namespace: str) -> Type:
        kind = node.get("type")
        if kind is None:
            raise InvalidSchema(f'No type: {_excerpt(node)} has no attribute "type"')
        match kind:
            case "record" | "error":
                return self._record(node, namespace)
            case "enum":
                return self._enum(node, namespace)
            case "fixed":
                return self._fixed(node, namespace)
            case "array":
                if "items" not in node:
                    raise InvalidSchema(f'Array has no items type: {_excerpt(node)} has no attribute "items"')
                return Array(self._type(node["items"], namespace), properties=_others(node, {"type", "items"}))
            case "map":
                if "values" not in node:
                    raise InvalidSchema(f'Map has no values type: {_excerpt(node)} has no attribute "values"')
                return Map(self._type(node["values"], namespace), properties=_others(node, {"type", "values"}))
        if isinstance(kind, str) and kind in PRIMITIVES:
            return Primitive(kind, properties=_others(node, {"type"}))
        # {"type": {"type": "string"}}, or a name: surrounding properties are dropped, as in Avro's Java library.
        return self._type(kind, namespace)

    # ---- named types

    def _record(self, node: Properties, namespace: str) -> Record:
        record = Record(*self._name(node, namespace), **self._common(node), is_error=node["type"] == "error")
        self._define(record, node)
        fields = node.get("fields")
        if not isinstance(fields, list):
            raise InvalidSchema(f'Record {record.full_name} has no fields: "fields" must be an array')
        names: set[str] = set()
        for each in fields:
            described = self._field(each, record)
            if described.name in names:
                raise InvalidSchema(f"Duplicate field {described.name} in record {record.full_name}")
            names.add(described.name)
            record.fields.append(described)
        record.properties = _others(node, _OF_NAMED | {"fields"})
        return record

    def _field(self, node: Any, record: Record) -> Field:
        if not isinstance(node, dict):
            raise InvalidSchema(f"Field of record {record.full_name} is not an object: {_excerpt(node)}")
        name = node.get("name")
        if not isinstance(name, str):
            raise InvalidSchema(f"No field name: {_excerpt(node)} in record {record.full_name}")
        self._check_name(name)
        if "type" not in node:
            raise InvalidSchema(f"No field type: field {name} of record {record.full_name}")
        order = node.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in _ORDERS:
            raise InvalidSchema(f"Field {name} of record {record.full_name}: order must be one of {', '.join(_ORDERS)}")
        described = Field(
            name,
            self._type(node["type"], record.namespace),
            _text(node, "doc"),
            node.get("default", ABSENT),
            order.lower(),
            _texts(node, "aliases"),
            _others(node, _OF_FIELD),
        )
        if described.has_default:
            self._defaults.append((name, described))
        return described

    def _enum(self, node: Properties, namespace: str) -> Enum:
        enum = Enum(*self._name(node, namespace), **self._common(node))
        symbols = node.get("symbols")
        if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
            raise InvalidSchema(f'Enum {enum.full_name} has no symbols: "symbols" must be an array of strings')
        for symbol in symbols:
            self._check_name(symbol)
        if len(set(symbols)) < len(symbols):
            duplicate = next(symbol for symbol in symbols if symbols.count(symbol) > 1)
            raise InvalidSchema(f"Duplicate enum symbol {duplicate} in {enum.full_name}")
        default = node.get("default")
        if default is not None and default not in symbols:
            raise InvalidSchema(f"The enum default {_excerpt(default)} of {enum.full_name} is not one of its symbols")
        enum.symbols, enum.default = symbols, default
        self._define(enum, node)
        enum.properties = _others(node, _OF_NAMED | {"symbols", "default"})
        return enum

    def _fixed(self, node: Properties, namespace: str) -> Fixed:
        fixed = Fixed(*self._name(node, namespace), **self._common(node))
        size = node.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise InvalidSchema(f'Fixed {fixed.full_name} has no valid size: "size" must be a number of bytes')
        fixed.size = size
        self._define(fixed, node)
        fixed.properties = _others(node, _OF_NAMED | {"size"})
        return fixed

    def _name(self, node: Properties, enclosing: str) -> tuple[str, str]:
        """The simple name and the namespace."""
        name = node.get("name")
        if not isinstance(name, str):
            raise InvalidSchema(f"No name in schema: {_excerpt(node)}")
        space, dot, simple = name.rpartition(".")
        if not dot:
            given = node.get("namespace", enclosing)
            space = given if isinstance(given, str) else enclosing
        self._check_name(simple)
        for part in space.split(".") if space else ():
            self._check_name(part)
        return simple, space

    def _common(self, node: Properties) -> dict[str, Any]:
        return {"doc": _text(node, "doc")}

    def _define(self, named: Named, node: Properties) -> None:
        if named.full_name in PRIMITIVES:
            raise InvalidSchema(f"Schemas may not be named after primitives: {named.full_name}")
        if named.full_name in self.named:
            raise InvalidSchema(f"Can't redefine: {named.full_name}")
        self.named[named.full_name] = named
        space = named.namespace
        named.aliases = [f"{space}.{a}" if space and "." not in a else a for a in _texts(node, "aliases")]

    def _check_name(self, name: str) -> None:
        if self._validate and not _NAME.fullmatch(name):
            raise InvalidSchema(
                f"Illegal character in: {name!r}: a name has letters, digits and _, and begins with no digit"
            )


def load_json(text: str) -> Any:
    """Raises `InvalidSchema`."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise InvalidSchema("The JSON is nested too deeply") from None
    except ValueError as error:
        raise InvalidSchema(f"This is not valid JSON: {error}") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _others(node: Properties, known: Iterable[str]) -> Properties:
    return {name: value for name, value in node.items() if name not in known}


def _text(node: Properties, name: str) -> str | None:
    value = node.get(name)
    return value if isinstance(value, str) else None


def _texts(node: Properties, name: str) -> list[str]:
    value = node.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InvalidSchema(f'"{name}" must be an array of strings: {_excerpt(value)}')
    return list(dict.fromkeys(value))


def _is_default(type_: Type, value: Any) -> bool:
    """Returns whether JSON is a valid default of a type. A union's default may match any branch (Avro 1.12)."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match type_:
        case Union(branches=branches):
            return any(_is_default(branch, value) for branch in branches)
        case Array(items=items):
            return isinstance(value, list) and all(_is_default(items, each) for each in value)
        case Map(values=values):
            return isinstance(value, dict) and all(_is_default(values, each) for each in value.values())
        case Record(fields=fields):
            return isinstance(value, dict) and all(
                _is_default(each.type, value[each.name]) if each.name in value else each.has_default for each in fields
            )
        case Enum() | Fixed():
            return isinstance(value, str)
    match type_.kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int":
            return is_number and isinstance(value, int) and value in _INT
        case "long":
            return is_number and isinstance(value, int) and value in _LONG
        case "float" | "double":
            return is_number
    return isinstance(value, str)


def _shown(type_: Type) -> str:
    return type_.full_name if isinstance(type_, Named) else type_.kind


def _excerpt(node: Any) -> str:
    text = json.dumps(node)
    return text if len(text) <= 100 else text[:100] + "…"
