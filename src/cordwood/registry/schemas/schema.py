"""The common interface of all types of schemas."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

AVRO = "AVRO"
JSON = "JSON"
PROTOBUF = "PROTOBUF"
SCHEMA_TYPES = (JSON, PROTOBUF, AVRO)
"""In the order in which Confluent's registry lists them."""

MAX_NESTING = 100
"""Types within types; deeper schemas are refused, so that no schema can exhaust the stack."""


class InvalidSchema(Exception):
    """The text is not a valid schema of its type; the message says why, and where."""


class Reference(NamedTuple):
    """A version of a subject that a schema refers to by `name`: a type's full name in Avro, a `$ref` in JSON Schema, an
    import in Protobuf."""

    name: str
    subject: str
    version: int


class Incompatibility(NamedTuple):
    """One reason why a reader's schema cannot read a writer's data."""

    kind: str
    """Confluent's name for it, as READER_FIELD_MISSING_DEFAULT_VALUE."""
    path: str
    description: str
    """With `{reader}` and `{writer}` for the two schemas."""
    details: str = ""

    def text(self, reader: str, writer: str) -> str:
        """Formats it as in the REST API. `reader` and `writer` are "new" and "old", or the reverse."""
        description = self.description.replace("{reader}", reader).replace("{writer}", writer)
        shown = f"{{errorType:'{self.kind}', description:'{description}'"
        return f"{shown}, additionalInfo:'{self.details}'}}" if self.details else f"{shown}}}"


class Schema(ABC):
    """A parsed schema. Equal schemas of one type have equal canonical texts and references."""

    type: str
    references: Sequence[Reference]

    @property
    @abstractmethod
    def canonical(self) -> str:
        """The form that is stored, returned and compared: as Confluent's registry prints the schema."""

    @abstractmethod
    def normalized(self) -> Schema:
        """The schema without differences that have no meaning, as an order of properties."""

    @abstractmethod
    def formatted(self, how: str) -> str:
        """The text in a `format` of the REST API; an unknown format is the canonical one."""

    @abstractmethod
    def incompatibilities(self, writer: Schema) -> list[Incompatibility]:
        """The reasons why this schema cannot read data of `writer`, which has the same type; empty if it can."""


Resolved = Mapping[str, str]
"""The texts of all referenced schemas, also indirect ones, by reference name; each comes after its own references."""
