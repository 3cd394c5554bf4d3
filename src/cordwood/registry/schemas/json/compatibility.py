"""Compares two JSON Schemas: everything allowed by a writer's schema (the original) must be accepted by a reader's (the
update).

Differences are found by structure, as Confluent documents them, so a verdict may be stricter than the set of values
would demand: equivalent schemas that are spelled with other keywords differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import Decimal

import re2  # type: ignore[import-untyped]

from cordwood.registry.schemas.budget import Budget

from .differences import STRICT, Difference
from .nodes import Anything, Array, Combined, Criterion, Node, Not, Nothing, Number, Object, String, Values

Pair = tuple[int, int]


def differences(original: Node, update: Node, compatible: frozenset[str] = STRICT) -> list[Difference]:
    """All of them, also those that are compatible."""
    budget = Budget()
    # A recursive pair is assumed to be compatible. If it turns out not to be, verdicts that relied on it are wrong: so
    # everything is repeated with the known results until nothing changes.
    incompatible: frozenset[Pair] = frozenset()
    while True:
        comparison = _Comparison(compatible, incompatible, budget)
        found = comparison.pair(original, update)
        if not comparison.has_assumed or comparison.failed <= incompatible:
            return [Difference(kind, f"#{path}" if path else "#/") for kind, path in found]
        incompatible |= comparison.failed


class _Comparison:
    """Paths are relative to the pair that is compared."""

    def __init__(self, compatible: frozenset[str], known_incompatible: frozenset[Pair], budget: Budget) -> None:
        self._compatible = compatible
        self._known_incompatible = known_incompatible
        self._budget = budget
        self._results: dict[Pair, list[Difference] | None] = {}
        self.has_assumed = False
        self.failed: set[Pair] = set()

    def pair(self, original: Node | None, update: Node | None) -> list[Difference]:
        if original is None:
            return [] if update is None else [Difference("SCHEMA_ADDED", "")]
        if update is None:
            return [Difference("SCHEMA_REMOVED", "")]
        pair = (id(original), id(update))
        if pair in self._results:
            known = self._results[pair]
            if known is not None:
                return known
            self.has_assumed = True
            return [Difference("TYPE_CHANGED", "")] if pair in self._known_incompatible else []
        self._budget.spend()
        self._results[pair] = None
        found = list(dict.fromkeys(self._nodes(original, update)))
        self._results[pair] = found
        if not self._is_compatible(found):
            self.failed.add(pair)
        return found

    def _is_compatible(self, found: Iterable[Difference]) -> bool:
        return all(difference.kind in self._compatible for difference in found)

    def _nodes(self, original: Node, update: Node) -> list[Difference]:
        one_of_both = self._one_is_combined(original, update)
        if one_of_both is not None:
            return one_of_both
        if type(original) is not type(update) or _keyword(original) != _keyword(update):
            if isinstance(original, Nothing) or isinstance(update, Anything):
                return []
            if original.annotation("connect.type") == update.annotation("connect.type") == "bytes":
                return []
            return [Difference("TYPE_CHANGED", "")]
        found = [
            Difference(f"{name}_CHANGED", "")
            for name, keyword in (
                ("ID", "$id"),
                ("TITLE", "title"),
                ("DESCRIPTION", "description"),
                ("DEFAULT", "default"),
            )
            if original.annotation(keyword) != update.annotation(keyword)
        ]
        match original, update:
            case String(), String():
                found += _strings(original, update)
            case Number(), Number():
                found += _numbers(original, update)
            case Values(), Values():
                found += _values(original, update)
            case Combined(), Combined():
                found += self._combined(original, update)
            case Not(), Not():
                reverse = self.pair(update.schema, original.schema)
                kind = "NOT_TYPE_NARROWED" if self._is_compatible(reverse) else "NOT_TYPE_EXTENDED"
                found.append(Difference(kind, "/not"))
            case Object(), Object():
                found += self._objects(original, update)
            case Array(), Array():
                found += self._arrays(original, update)
        return found

    # ---- combinations

    def _one_is_combined(self, original: Node, update: Node) -> list[Difference] | None:
        """None if that does not decide."""
        pairs: list[tuple[Node, Node]] = []
        kind = ""
        if isinstance(update, Combined) and not isinstance(original, Combined):
            kind = "SUM_TYPE_EXTENDED"
            if len(update.schemas) == 1 or update.criterion is not Criterion.ALL:
                pairs = [(original, schema) for schema in update.schemas]
        elif isinstance(original, Combined) and not isinstance(update, Combined):
            kind = "PRODUCT_TYPE_NARROWED"
            if len(original.schemas) == 1 or original.criterion is Criterion.ALL:
                pairs = [(schema, update) for schema in original.schemas]
        for one, other in pairs:
            found = self.pair(one, other)
            if self._is_compatible(found):
                return found if len(pairs) == 1 else [*found, Difference(kind, "")]
        return None

    def _combined(self, original: Combined, update: Combined) -> list[Difference]:
        found: list[Difference] = []
        if original.criterion is not update.criterion:
            is_single, becomes_single = len(original.schemas) == 1, len(update.schemas) == 1
            if not (
                update.criterion is Criterion.ANY
                or (is_single and becomes_single)
                or (is_single and update.criterion is Criterion.ONE)
                or (becomes_single and original.criterion is Criterion.ALL)
            ):
                return [Difference("COMBINED_TYPE_CHANGED", "")]
            found.append(Difference("COMBINED_TYPE_EXTENDED", ""))
        befores, afters = _distinct(original.schemas), _distinct(update.schemas)
        if len(befores) < len(afters):
            is_product = update.criterion is Criterion.ALL
            found.append(Difference("PRODUCT_TYPE_EXTENDED" if is_product else "SUM_TYPE_EXTENDED", ""))
        elif len(befores) > len(afters):
            is_product = original.criterion is Criterion.ALL
            found.append(Difference("PRODUCT_TYPE_NARROWED" if is_product else "SUM_TYPE_NARROWED", ""))
        edges: dict[int, dict[int, list[Difference]]] = {}
        for row, before in enumerate(befores):
            compared = {column: self.pair(before, after) for column, after in enumerate(afters)}
            edges[row] = {column: each for column, each in compared.items() if self._is_compatible(each)}
        matching = _maximum_matching(edges)
        for row, column in matching.items():
            found += _below(edges[row][column], f"/{original.criterion.value}/{row}")
        if len(matching) < min(len(befores), len(afters)):
            found.append(Difference("COMBINED_TYPE_SUBSCHEMAS_CHANGED", ""))
        return found

    # ---- objects

    def _objects(self, original: Object, update: Object) -> list[Difference]:
        found = [
            Difference(_required_change(update, name), f"/required/{name}")
            for name in original.properties
            if name in update.properties and (name in original.required) != (name in update.required)
        ]
        for name in dict.fromkeys((*original.properties, *update.properties)):
            found += _below(self._property(original, update, name), f"/properties/{name}")
        found += self._dependencies(original, update)
        found += self._rest(original, update, "/additionalProperties", "ADDITIONAL_PROPERTIES")
        found += self._unevaluated(original, update, "/unevaluatedProperties", "UNEVALUATED_PROPERTIES")
        found += _bound(original.max_properties, update.max_properties, "MAX_PROPERTIES", "/maxProperties")
        found += _bound(original.min_properties, update.min_properties, "MIN_PROPERTIES", "/minProperties")
        return found

    def _property(self, original: Object, update: Object, name: str) -> list[Difference]:
        before, after = original.properties.get(name), update.properties.get(name)
        if before is not None and after is not None:
            return self.pair(before, after)
        if before is not None:
            return self._removed(before, update, _of_unnamed(update, name), "PROPERTY")
        assert after is not None
        is_required = name in update.required
        if _is_open(original):
            if isinstance(after, Anything):
                return [Difference("PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL", "")]
            kind = (
                ("REQUIRED_PROPERTY_WITH_DEFAULT" if after.has_default else "REQUIRED_PROPERTY") if is_required else ""
            )
            return [Difference(f"{kind or 'OPTIONAL_PROPERTY'}_ADDED_TO_OPEN_CONTENT_MODEL", "")]
        covering = _of_unnamed(original, name)
        found = [] if covering is None else self._covered(covering, after, "PROPERTY_ADDED")
        kind = ("REQUIRED_PROPERTY_WITH_DEFAULT" if after.has_default else "REQUIRED_PROPERTY") if is_required else ""
        return [*found, Difference(f"{kind or 'OPTIONAL_PROPERTY'}_ADDED_TO_UNOPEN_CONTENT_MODEL", "")]

    def _removed(self, before: Node, update: Object | Array, covering: Node | None, what: str) -> list[Difference]:
        if _is_open(update):
            return [Difference(f"{what}_REMOVED_FROM_OPEN_CONTENT_MODEL", "")]
        if covering is not None:
            return self._covered(before, covering, f"{what}_REMOVED")
        if isinstance(before, Nothing):
            return [Difference(f"{what}_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL", "")]
        return [Difference(f"{what}_REMOVED_FROM_CLOSED_CONTENT_MODEL", "")]

    def _covered(self, original: Node, update: Node, what: str) -> list[Difference]:
        found = self.pair(original, update)
        verdict = "IS" if self._is_compatible(found) else "NOT"
        return [*found, Difference(f"{what}_{verdict}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "")]

    def _dependencies(self, original: Object, update: Object) -> list[Difference]:
        found = []
        for name in dict.fromkeys((*original.dependent_required, *update.dependent_required)):
            before, after = original.dependent_required.get(name), update.dependent_required.get(name)
            if before == after:
                continue
            if after is None:
                change = "REMOVED"
            elif before is None:
                change = "ADDED"
            elif before < after:
                change = "EXTENDED"
            else:
                change = "NARROWED" if after < before else "CHANGED"
            found.append(Difference(f"DEPENDENCY_ARRAY_{change}", f"/dependencies/{name}"))
        for name in dict.fromkeys((*original.dependent_schemas, *update.dependent_schemas)):
            old, new = original.dependent_schemas.get(name), update.dependent_schemas.get(name)
            if old is not None and new is not None:
                found += _below(self.pair(old, new), f"/dependencies/{name}")
            else:
                change = "ADDED" if old is None else "REMOVED"
                found.append(Difference(f"DEPENDENCY_SCHEMA_{change}", f"/dependencies/{name}"))
        return found

    # ---- additional properties and items

    def _rest(self, original: Object | Array, update: Object | Array, path: str, what: str) -> list[Difference]:
        if original.allows_additional != update.allows_additional:
            return [Difference(f"{what}_{'ADDED' if update.allows_additional else 'REMOVED'}", path)]
        if original.additional is None and update.additional is not None:
            return [Difference(f"{what}_NARROWED", path)]
        if original.additional is not None and update.additional is None:
            return [Difference(f"{what}_EXTENDED", path)]
        return _below(self.pair(original.additional, update.additional), path)

    def _unevaluated(self, original: Object | Array, update: Object | Array, path: str, what: str) -> list[Difference]:
        before, after = original.unevaluated, update.unevaluated
        ranks = [_openness(before), _openness(after)]
        if ranks[0] == ranks[1]:
            return _below(self.pair(before, after), path) if before is not None and after is not None else []
        if 0 in ranks:
            return [Difference(f"{what}_{'ADDED' if ranks[0] == 0 else 'REMOVED'}", path)]
        return [Difference(f"{what}_{'EXTENDED' if ranks[0] < ranks[1] else 'NARROWED'}", path)]

    # ---- arrays

    def _arrays(self, original: Array, update: Array) -> list[Difference]:
        found = _below(self.pair(original.items, update.items), "/items")
        both = min(len(original.prefix), len(update.prefix))
        for index in range(max(len(original.prefix), len(update.prefix))):
            if index < both:
                change = self.pair(original.prefix[index], update.prefix[index])
            elif index < len(original.prefix):
                change = self._removed(original.prefix[index], update, _of_rest(update), "ITEM")
            else:
                change = self._item_added(original, update.prefix[index])
            found += _below(change, f"/items/{index}")
        found += self._rest(original, update, "/additionalItems", "ADDITIONAL_ITEMS")
        found += self._unevaluated(original, update, "/unevaluatedItems", "UNEVALUATED_ITEMS")
        found += _bound(original.max_items, update.max_items, "MAX_ITEMS", "/maxItems")
        found += _bound(original.min_items, update.min_items, "MIN_ITEMS", "/minItems")
        if original.is_unique != update.is_unique:
            found.append(Difference(f"UNIQUE_ITEMS_{'ADDED' if update.is_unique else 'REMOVED'}", "/uniqueItems"))
        found += _bound(original.max_contains, update.max_contains, "MAX_CONTAINS", "/maxContains")
        found += _bound(original.min_contains, update.min_contains, "MIN_CONTAINS", "/minContains")
        return found

    def _item_added(self, original: Array, after: Node) -> list[Difference]:
        if _is_open(original):
            what = "ITEM_WITH_EMPTY_SCHEMA" if isinstance(after, Anything) else "ITEM"
            return [Difference(f"{what}_ADDED_TO_OPEN_CONTENT_MODEL", "")]
        covering = _of_rest(original)
        if covering is not None:
            return self._covered(covering, after, "ITEM_ADDED")
        return [Difference("ITEM_ADDED_TO_CLOSED_CONTENT_MODEL", "")]


# ---- content models: open, closed, or restricted by a schema


def _is_open(node: Object | Array) -> bool:
    if not node.allows_additional or node.additional is not None:
        return False
    if isinstance(node, Object) and node.pattern_properties:
        return False
    return node.unevaluated is None or isinstance(node.unevaluated, Anything)


def _of_rest(node: Object | Array) -> Node | None:
    """The schema of additional properties or items; None if all or none are allowed."""
    if node.additional is not None or not node.allows_additional:
        return node.additional
    return None if isinstance(node.unevaluated, Anything | Nothing) else node.unevaluated


def _of_unnamed(node: Object, name: str) -> Node | None:
    for pattern, schema in node.pattern_properties.items():
        if _matches(pattern, name):
            return schema
    return _of_rest(node)


def _matches(pattern: str, name: str) -> bool:
    """Matches with RE2, in linear time. A pattern that RE2 cannot express (with look-around) matches nothing, which at
    worst is too strict."""
    try:
        return re2.search(pattern, name) is not None
    except re2.error:
        return False


def _openness(unevaluated: Node | None) -> int:
    if isinstance(unevaluated, Nothing):
        return 0
    return 2 if unevaluated is None or isinstance(unevaluated, Anything) else 1


# ---- keywords


def _required_change(update: Object, name: str) -> str:
    if name not in update.required:
        return "REQUIRED_ATTRIBUTE_REMOVED"
    has_default = update.properties[name].has_default
    return "REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED" if has_default else "REQUIRED_ATTRIBUTE_ADDED"


def _strings(original: String, update: String) -> list[Difference]:
    found = _bound(original.max_length, update.max_length, "MAX_LENGTH", "/maxLength")
    found += _bound(original.min_length, update.min_length, "MIN_LENGTH", "/minLength")
    if original.pattern != update.pattern:
        change = "ADDED" if original.pattern is None else "REMOVED" if update.pattern is None else "CHANGED"
        found.append(Difference(f"PATTERN_{change}", "/pattern"))
    return found


def _numbers(original: Number, update: Number) -> list[Difference]:
    found = _bound(original.maximum, update.maximum, "MAXIMUM", "/maximum")
    found += _bound(original.minimum, update.minimum, "MINIMUM", "/minimum")
    found += _bound(original.exclusive_maximum, update.exclusive_maximum, "EXCLUSIVE_MAXIMUM", "/exclusiveMaximum")
    found += _bound(original.exclusive_minimum, update.exclusive_minimum, "EXCLUSIVE_MINIMUM", "/exclusiveMinimum")
    before, after = original.multiple_of, update.multiple_of
    if before != after:
        found.append(Difference(f"MULTIPLE_OF_{_multiple_change(before, after)}", "/multipleOf"))
    if original.is_integer != update.is_integer:
        found.append(Difference("TYPE_EXTENDED" if original.is_integer else "TYPE_NARROWED", ""))
    return found


def _multiple_change(before: float | None, after: float | None) -> str:
    if before is None:
        return "ADDED"
    if after is None:
        return "REMOVED"
    old, new = Decimal(str(before)), Decimal(str(after))
    if old and new % old == 0:
        return "EXPANDED"
    return "REDUCED" if new and old % new == 0 else "CHANGED"


def _values(original: Values, update: Values) -> list[Difference]:
    if original.values == update.values:
        return []
    change = "CHANGED"
    if original.values < update.values:
        change = "EXTENDED"
    elif update.values < original.values:
        change = "NARROWED"
    return [Difference(f"ENUM_ARRAY_{change}", f"/{original.keyword}")]


def _bound(before: float | None, after: float | None, name: str, path: str) -> list[Difference]:
    if before == after:
        return []
    if before is None:
        change = "ADDED"
    elif after is None:
        change = "REMOVED"
    else:
        change = "INCREASED" if before < after else "DECREASED"
    return [Difference(f"{name}_{change}", path)]


# ---- helpers


def _keyword(node: Node) -> str:
    return node.keyword if isinstance(node, Values) else ""


def _distinct(nodes: list[Node]) -> list[Node]:
    by_text: dict[tuple[type[Node], str], Node] = {}
    for node in nodes:
        by_text.setdefault((type(node), json.dumps(node.raw, sort_keys=True)), node)
    return list(by_text.values())


def _below(found: list[Difference], path: str) -> list[Difference]:
    return [Difference(kind, path + below) for kind, below in found]


def _maximum_matching(edges: dict[int, dict[int, list[Difference]]]) -> dict[int, int]:
    """A maximum matching of rows with columns, by augmenting paths."""
    row_of: dict[int, int] = {}

    def place(row: int, tried: set[int]) -> bool:
        for column in edges[row]:
            if column not in tried:
                tried.add(column)
                if column not in row_of or place(row_of[column], tried):
                    row_of[column] = row
                    return True
        return False

    for row in edges:
        place(row, set())
    return {row: column for column, row in row_of.items()}
