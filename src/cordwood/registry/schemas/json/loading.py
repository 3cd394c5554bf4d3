"""Converts JSON to nodes, of any draft."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from cordwood.registry.schemas.schema import InvalidSchema

from .documents import Documents, Spot
from .nodes import (
    Anything,
    Array,
    Boolean,
    Combined,
    Conditional,
    Criterion,
    Node,
    Not,
    Nothing,
    Null,
    Number,
    Object,
    String,
    Values,
)

_STRING = frozenset(["minLength", "maxLength", "pattern", "format"])
_NUMBER = frozenset(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"])
_OBJECT = frozenset(
    [
        "properties",
        "required",
        "minProperties",
        "maxProperties",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "patternProperties",
        "additionalProperties",
        "unevaluatedProperties",
        "propertyNames",
    ]
)
_ARRAY = frozenset(
    [
        "items",
        "prefixItems",
        "additionalItems",
        "unevaluatedItems",
        "minItems",
        "maxItems",
        "uniqueItems",
        "contains",
        "minContains",
        "maxContains",
    ]
)


class Loader:
    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        # By the identity of the JSON: so a schema that refers to itself is a cycle of nodes.
        self._nodes: dict[int, Node | None] = {}
        self._pending: list[Callable[[], None]] = []

    def load(self, spot: Spot) -> Node:
        """Raises `InvalidSchema`."""
        node = self._node(spot)
        while self._pending:
            self._pending.pop()()
        return node

    def _node(self, spot: Spot) -> Node:
        raw, _ = spot
        if raw is True:
            return Anything(raw=raw)
        if raw is False:
            return Nothing(raw=raw)
        if not isinstance(raw, dict):
            raise InvalidSchema(f"A schema is an object or a boolean, not {json.dumps(raw)[:100]}")
        return self._known(spot)

    def _known(self, spot: Spot) -> Node:
        """Follows `$ref`s; a chain of them that ends nowhere is refused."""
        raw, _ = spot
        if id(raw) in self._nodes:
            found = self._nodes[id(raw)]
            if found is None:
                raise InvalidSchema(f"Circular $ref: {json.dumps(raw)[:100]} refers to itself only")
            return found
        reference = _reference(raw)
        if reference is not None:
            self._nodes[id(raw)] = None
            made = self._node(self._documents.resolve(reference, spot[1]))
        else:
            made = self._made(spot)
        self._nodes[id(raw)] = made
        return made

    def _made(self, spot: Spot) -> Node:
        raw, _ = spot
        parts = list(self._parts(spot))
        if not parts:
            return Anything(raw=raw)
        return parts[0] if len(parts) == 1 else Combined(Criterion.ALL, parts, raw=raw)

    def _parts(self, spot: Spot) -> Iterator[Node]:
        raw, base = spot
        if isinstance(raw.get("enum"), list):
            yield Values("enum", frozenset(_json(value) for value in raw["enum"]), raw=raw)
        if "const" in raw:
            yield Values("const", frozenset([_json(raw["const"])]), raw=raw)
        for criterion in Criterion:
            if isinstance(raw.get(criterion.value), list):
                combined = Combined(criterion, [], raw=raw)
                self._later_all(combined.schemas, raw[criterion.value], base)
                yield combined
        if "not" in raw:
            negated = Not(Anything(raw=True), raw=raw)
            self._later(raw["not"], base, lambda node: setattr(negated, "schema", node))
            yield negated
        if "if" in raw:
            yield Conditional(raw=raw)
        kinds = raw.get("type")
        if isinstance(kinds, list):
            typed = [self._typed(kind, spot) for kind in kinds]
            yield typed[0] if len(typed) == 1 else Combined(Criterion.ANY, typed, raw=raw)
        elif kinds is not None:
            yield self._typed(kinds, spot)
        else:
            for keywords, kind in ((_STRING, "string"), (_ARRAY, "array"), (_OBJECT, "object"), (_NUMBER, "number")):
                if keywords & raw.keys():
                    yield self._typed(kind, spot)

    def _typed(self, kind: Any, spot: Spot) -> Node:
        raw, _ = spot
        match kind:
            case "string":
                return String(raw.get("minLength"), raw.get("maxLength"), raw.get("pattern"), raw=raw)
            case "number" | "integer":
                return _number(raw, is_integer=kind == "integer")
            case "boolean":
                return Boolean(raw=raw)
            case "null":
                return Null(raw=raw)
            case "object":
                return self._object(spot)
            case "array":
                return self._array(spot)
        raise InvalidSchema(f"Unknown type: {json.dumps(kind)[:100]}")

    def _object(self, spot: Spot) -> Object:
        raw, base = spot
        required = raw.get("required")
        made = Object(
            raw=raw,
            required=frozenset(required) if isinstance(required, list) else frozenset(),
            min_properties=raw.get("minProperties"),
            max_properties=raw.get("maxProperties"),
        )
        self._later_each(made.properties, raw.get("properties"), base)
        self._later_each(made.pattern_properties, raw.get("patternProperties"), base)
        additional = raw.get("additionalProperties")
        if isinstance(additional, bool):
            made.allows_additional = additional
        elif additional is not None:
            self._later(additional, base, lambda node: setattr(made, "additional", node))
        if "unevaluatedProperties" in raw:
            self._later(raw["unevaluatedProperties"], base, lambda node: setattr(made, "unevaluated", node))
        dependencies = {**raw.get("dependencies", {}), **raw.get("dependentRequired", {})}
        for name, needed in (dependencies | raw.get("dependentSchemas", {})).items():
            if isinstance(needed, list):
                made.dependent_required[name] = frozenset(needed)
            else:
                self._later_each(made.dependent_schemas, {name: needed}, base)
        return made

    def _array(self, spot: Spot) -> Array:
        raw, base = spot
        made = Array(
            raw=raw,
            min_items=raw.get("minItems"),
            max_items=raw.get("maxItems"),
            is_unique=raw.get("uniqueItems") is True,
            min_contains=raw.get("minContains"),
            max_contains=raw.get("maxContains"),
        )
        items, prefix = raw.get("items"), raw.get("prefixItems")
        additional = raw.get("additionalItems")
        if isinstance(items, list):
            prefix = items
        elif isinstance(prefix, list):
            # Since 2020-12, `items` are those after the prefix.
            additional = items
        elif items is not None:
            self._later(items, base, lambda node: setattr(made, "items", node))
            additional = None
        if isinstance(prefix, list):
            self._later_all(made.prefix, prefix, base)
        if isinstance(additional, bool):
            made.allows_additional = additional
        elif additional is not None:
            self._later(additional, base, lambda node: setattr(made, "additional", node))
        if "unevaluatedItems" in raw:
            self._later(raw["unevaluatedItems"], base, lambda node: setattr(made, "unevaluated", node))
        return made

    # ---- schemas within schemas: loaded one after the other, however deeply they are nested

    def _later(self, raw: Any, base: str, take: Callable[[Node], None]) -> None:
        self._pending.append(lambda: take(self._node((raw, self._base(raw, base)))))

    def _later_all(self, into: list[Node], raws: list[Any], base: str) -> None:
        into += [Anything(raw=True)] * len(raws)
        for index, raw in enumerate(raws):
            self._later(raw, base, lambda node, index=index: into.__setitem__(index, node))  # type: ignore[misc]

    def _later_each(self, into: dict[str, Node], raws: Any, base: str) -> None:
        if isinstance(raws, dict):
            for name, raw in raws.items():
                into[name] = Anything(raw=True)
                self._later(raw, base, lambda node, name=name: into.__setitem__(name, node))  # type: ignore[misc]

    def _base(self, raw: Any, base: str) -> str:
        return self._documents.base_of(raw, base)


def _number(raw: dict[str, Any], *, is_integer: bool) -> Number:
    minimum, maximum = raw.get("minimum"), raw.get("maximum")
    above, below = raw.get("exclusiveMinimum"), raw.get("exclusiveMaximum")
    # In draft 4 these are flags of the others.
    if isinstance(above, bool):
        minimum, above = (None, minimum) if above else (minimum, None)
    if isinstance(below, bool):
        maximum, below = (None, maximum) if below else (maximum, None)
    return Number(is_integer, minimum, maximum, above, below, raw.get("multipleOf"), raw=raw)


def _reference(raw: dict[str, Any]) -> str | None:
    for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
        if isinstance(raw.get(keyword), str):
            return str(raw[keyword])
    return None


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
