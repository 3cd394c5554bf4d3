"""**Plan**: the column of a reader's schema, and the steps into it from each writer's."""

from __future__ import annotations

from abc import ABC, abstractmethod

from cordwood.registry.schemas.schema import Schema

from .avro_types import ColumnType
from .builders import Column
from .steps import FailStep, Step


class Plan(ABC):
    type: ColumnType
    column: Column
    """The column of the results. Any row may be null: a record may have no value, or a bad one."""

    @abstractmethod
    def steps(self, writer: Schema) -> Step:
        """For payloads with the format's prefix: the message index in Protobuf."""

    @abstractmethod
    def bare_steps(self, writer: Schema, header: bytes) -> Step:
        """For payloads whose prefix is in the header, after the guid."""


def other_type(writer: Schema, wanted: str) -> Step:
    """For a writer whose schema has another format than the reader's."""
    return FailStep(f"its schema is {writer.type}, and the reader's is {wanted}")
