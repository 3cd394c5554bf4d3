"""**JsonSchema**."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import jsonschema_rs

from cordwood.registry.schemas.avro.parsing import load_json
from cordwood.registry.schemas.schema import JSON, Incompatibility, InvalidSchema, Reference, Resolved, Schema

from .compatibility import differences
from .differences import LENIENT, STRICT, explained
from .documents import Documents
from .loading import Loader
from .nodes import Node

_DRAFTS = ("draft-04", "draft-06", "draft-07", "2019-09", "2020-12")
_DEFAULT_DIALECT = "http://json-schema.org/draft-07/schema#"


class JsonSchema(Schema):
    type = JSON

    def __init__(self, document: Any, references: Sequence[Reference], others: dict[str, Any]) -> None:
        self.document = document
        self.references = references
        self.others = others
        """Referenced documents by the names of their references."""

    @classmethod
    def parse(cls, text: str, references: Sequence[Reference], resolved: Resolved, *, validate: bool) -> JsonSchema:
        """Raises `InvalidSchema`."""
        document = load_json(text)
        if not isinstance(document, dict | bool):
            raise InvalidSchema("A JSON Schema is an object or a boolean")
        made = cls(document, references, {name: load_json(referred) for name, referred in resolved.items()})
        if validate:
            _check(document)
            assert made.root is not None
        return made

    @cached_property
    def root(self) -> Node:
        """Raises `InvalidSchema`."""
        documents = Documents(self.document, self.others)
        return Loader(documents).load((self.document, documents.root_base))

    @cached_property
    def canonical(self) -> str:
        return json.dumps(self.document, separators=(",", ":"), ensure_ascii=False)

    def normalized(self) -> JsonSchema:
        return JsonSchema(_ordered(self.document), sorted(set(self.references)), self.others)

    def formatted(self, how: str) -> str:
        return self.canonical

    def incompatibilities(self, writer: Schema, *, is_lenient: bool = False) -> list[Incompatibility]:
        assert isinstance(writer, JsonSchema)
        compatible = LENIENT if is_lenient else STRICT
        found = differences(writer.root, self.root, compatible)
        return [explained(difference) for difference in found if difference.kind not in compatible]


def _check(document: Any) -> None:
    """Against the metaschema of its draft; without `$schema`, or with one that is not known, of draft 7."""
    dialect = document.get("$schema") if isinstance(document, dict) else None
    if not isinstance(dialect, str) or not any(draft in dialect for draft in _DRAFTS):
        dialect = _DEFAULT_DIALECT
    checked = {**document, "$schema": dialect} if isinstance(document, dict) else document
    try:
        jsonschema_rs.meta.validate(checked)
    except jsonschema_rs.ValidationError as error:
        where = "/".join(map(str, error.instance_path))
        raise InvalidSchema(f"Invalid JSON Schema at '#/{where}': {error.message[:500]}") from None
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise InvalidSchema(f"Invalid JSON Schema: {error}") from None


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value)}
    return [_ordered(each) for each in value] if isinstance(value, list) else value
