"""The kinds of differences between two JSON Schemas: which of them a reader copes with, and how the others are
explained. Names and verdicts are those of Confluent's documentation of JSON Schema compatibility."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cordwood.registry.schemas.schema import Incompatibility


class Difference(NamedTuple):
    kind: str
    path: str


def _expanded(names: str, *endings: str) -> Iterator[str]:
    for name in names.split():
        for ending in endings:
            yield f"{name}_{ending}"


_UPPER = "MAX_LENGTH MAXIMUM EXCLUSIVE_MAXIMUM MAX_PROPERTIES MAX_ITEMS MAX_CONTAINS"
_LOWER = "MIN_LENGTH MINIMUM EXCLUSIVE_MINIMUM MIN_PROPERTIES MIN_ITEMS MIN_CONTAINS"
_REST = "ADDITIONAL_PROPERTIES ADDITIONAL_ITEMS UNEVALUATED_PROPERTIES UNEVALUATED_ITEMS"

STRICT = frozenset(
    [
        *["ID_CHANGED", "DESCRIPTION_CHANGED", "TITLE_CHANGED", "DEFAULT_CHANGED", "SCHEMA_REMOVED", "TYPE_EXTENDED"],
        *_expanded(_UPPER, "INCREASED", "REMOVED"),
        *_expanded(_LOWER, "DECREASED", "REMOVED"),
        *["PATTERN_REMOVED", "MULTIPLE_OF_REDUCED", "MULTIPLE_OF_REMOVED", "UNIQUE_ITEMS_REMOVED"],
        *["REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED", "REQUIRED_ATTRIBUTE_REMOVED"],
        *["DEPENDENCY_ARRAY_NARROWED", "DEPENDENCY_ARRAY_REMOVED", "DEPENDENCY_SCHEMA_REMOVED"],
        *_expanded(_REST, "ADDED", "EXTENDED"),
        "PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL",
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL",
        "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
        "PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL",
        "PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL",
        "ITEM_ADDED_TO_CLOSED_CONTENT_MODEL",
        "ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL",
        "ITEM_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        *[
            "ENUM_ARRAY_EXTENDED",
            "COMBINED_TYPE_EXTENDED",
            "PRODUCT_TYPE_NARROWED",
            "SUM_TYPE_EXTENDED",
            "NOT_TYPE_NARROWED",
        ],
    ]
)
"""Differences that a reader copes with, by the letter of JSON Schema."""

LENIENT = STRICT | {
    *_expanded("ADDITIONAL_PROPERTIES UNEVALUATED_PROPERTIES", "NARROWED", "REMOVED"),
    "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL",
    "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
}
"""With `compatibilityPolicy` LENIENT: properties may come and go, as if writers omitted unknown properties."""


def explained(difference: Difference) -> Incompatibility:
    kind, path = difference
    return Incompatibility(kind, path, _description(kind, path))


def _description(kind: str, path: str) -> str:
    match kind:
        case "TYPE_CHANGED" | "TYPE_NARROWED" | "COMBINED_TYPE_CHANGED" | "COMBINED_TYPE_SUBSCHEMAS_CHANGED":
            return f"The type at path '{path}' in the {{reader}} schema takes less than the {{writer}} schema allows"
        case "ENUM_ARRAY_CHANGED" | "PATTERN_CHANGED" | "MULTIPLE_OF_CHANGED" | "DEPENDENCY_ARRAY_CHANGED":
            return f"The value at path '{path}' is different between the {{reader}} and {{writer}} schema"
        case "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL" | "ITEM_ADDED_TO_OPEN_CONTENT_MODEL":
            return (
                f"The {{reader}} schema restricts a property or item at path '{path}' which the {{writer}} schema, "
                "with an open content model, allows to be anything"
            )
        case (
            "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"
            | "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL"
            | "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"
            | "REQUIRED_ATTRIBUTE_ADDED"
        ):
            return f"The {{reader}} schema requires the property at path '{path}', which the {{writer}} schema does not"
        case "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL" | "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL":
            return (
                f"The {{reader}} schema has a closed content model and is missing a property or item at path '{path}' "
                "of the {writer} schema"
            )
        case "RESERVED_PROPERTY_REMOVED":
            return f"The {{reader}} schema no longer reserves the property '{path}' of the {{writer}} schema"
        case "RESERVED_PROPERTY_CONFLICTS_WITH_PROPERTY":
            return f"The {{reader}} schema has a property at path '{path}' that is reserved"
    if kind.endswith("NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"):
        return (
            f"A property or item at path '{path}' is in one of the {{reader}} and {{writer}} schemas only, and the "
            "partially open content model of the other does not cover it"
        )
    if kind.endswith("_INCREASED") or kind == "MULTIPLE_OF_EXPANDED":
        return f"The value at path '{path}' in the {{reader}} schema is more than its value in the {{writer}} schema"
    if kind.endswith("_DECREASED"):
        return f"The value at path '{path}' in the {{reader}} schema is less than its value in the {{writer}} schema"
    if kind.endswith("_NARROWED"):
        return f"What is at path '{path}' in the {{reader}} schema allows less than in the {{writer}} schema"
    if kind.endswith("_EXTENDED"):
        return f"What is at path '{path}' in the {{reader}} schema demands more than in the {{writer}} schema"
    if kind.endswith("_REMOVED"):
        return f"What the {{writer}} schema allows at path '{path}' is not allowed in the {{reader}} schema"
    return f"The keyword at path '{path}' in the {{reader}} schema is not in the {{writer}} schema"
