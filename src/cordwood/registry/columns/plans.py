"""**Plan**: the column of a reader's schema, and the steps into it from each writer's."""

from __future__ import annotations

from abc import ABC, abstractmethod

from cordwood.registry.schemas.avro.schema import AvroSchema
from cordwood.registry.schemas.schema import Schema

from .arrays import new_column
from .avro_resolution import avro_steps
from .avro_types import ColumnType, Untypable, avro_column
from .builders import Column
from .steps import Step


class Plan(ABC):
    type: ColumnType
    column: Column
    """Where the steps put their values. Any row may be null: a record may have no value, or a bad one."""

    @abstractmethod
    def steps(self, writer: Schema) -> Step:
        """For payloads with what the format has in front of them, which is a message's index in Protobuf."""

    @abstractmethod
    def bare_steps(self, writer: Schema, header: bytes) -> Step:
        """For payloads whose header has that, after the guid."""


class AvroPlan(Plan):
    def __init__(self, reader: AvroSchema) -> None:
        """Raises `Untypable`."""
        self.type = avro_column(reader.root)._replace(nullable=True)
        self.column = new_column(self.type.type, nullable=True)
        self._reader = reader

    def steps(self, writer: Schema) -> Step:
        assert isinstance(writer, AvroSchema)
        return avro_steps(writer.root, self._reader.root, self.column)

    def bare_steps(self, writer: Schema, header: bytes) -> Step:
        return self.steps(writer)


def plan_for(reader: Schema, message: str | None = None) -> Plan:
    """`message` is the full name of a Protobuf message; None: the first. Raises `Untypable`."""
    match reader:
        case AvroSchema():
            return AvroPlan(reader)
    raise Untypable(f"{reader.type} has no columns")
