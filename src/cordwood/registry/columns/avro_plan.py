"""**AvroPlan**."""

from __future__ import annotations

from cordwood.registry.schemas.avro.schema import AvroSchema
from cordwood.registry.schemas.schema import Schema

from .arrays import new_column
from .avro_resolution import avro_steps
from .avro_types import avro_column
from .plans import Plan, other_type
from .steps import Step


class AvroPlan(Plan):
    def __init__(self, reader: AvroSchema) -> None:
        """Raises `Untypable`."""
        self.type = avro_column(reader.root)._replace(nullable=True)
        self.column = new_column(self.type.type, nullable=True)
        self._reader = reader

    def steps(self, writer: Schema) -> Step:
        if not isinstance(writer, AvroSchema):
            return other_type(writer, "AVRO")
        return avro_steps(writer.root, self._reader.root, self.column)

    def bare_steps(self, writer: Schema, header: bytes) -> Step:
        return self.steps(writer)
