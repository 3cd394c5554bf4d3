"""**AvroSchema**."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from cordwood.registry.schemas.schema import AVRO, Incompatibility, Reference, Resolved, Schema

from .compatibility import incompatibilities
from .normalizing import normalized
from .parsing import Parser
from .printing import printed
from .types import Type


class AvroSchema(Schema):
    type = AVRO

    def __init__(self, root: Type, references: Sequence[Reference], referred: frozenset[str]) -> None:
        self.root = root
        self.references = references
        # Full names of types that other schemas define.
        self._referred = referred

    @classmethod
    def parse(cls, text: str, references: Sequence[Reference], resolved: Resolved, *, validate: bool) -> AvroSchema:
        """Raises `InvalidSchema`."""
        parser = Parser(validate=validate)
        for referred in resolved.values():
            parser.parse(referred)
        names = frozenset(parser.named)
        return cls(parser.parse(text), references, names)

    @cached_property
    def canonical(self) -> str:
        return printed(self.root, set(self._referred))

    @cached_property
    def resolved(self) -> str:
        """Includes the types of all references."""
        return printed(self.root, set())

    def normalized(self) -> AvroSchema:
        return AvroSchema(normalized(self.root), sorted(set(self.references)), self._referred)

    def formatted(self, how: str) -> str:
        return self.resolved if how == "resolved" else self.canonical

    def incompatibilities(self, writer: Schema) -> list[Incompatibility]:
        assert isinstance(writer, AvroSchema)
        return incompatibilities(self.root, writer.root)
