"""Avro values in bulk to Arrow: pure functions of schemas and buffers, for callers with many records at once.

>>> reader = AvroSchema.parse(text, (), {}, validate=False)
>>> avro_to_arrow({7: schema_7, 9: schema_9}, reader, [b"\\0\\0\\0\\0\\7...", None])

Each value names its writer's schema by the id in front and is resolved to the reader's schema. `avro_types` says which
types they have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn

import pyarrow as pa  # type: ignore[import-untyped]

from cordwood.registry.schemas.avro.schema import AvroSchema

from .avro_plan import AvroPlan
from .avro_types import avro_column
from .decoder import ColumnDecoder, Decoded, UnknownSchema


def avro_to_arrow(
    writers: Mapping[int, AvroSchema], reader: AvroSchema, values: Iterable[bytes | memoryview | None] | pa.Array
) -> Decoded:
    """Decodes values with an id in front; an array of binary is not copied. Raises `ValueError` for a reader's schema
    that Arrow has no type for, as a recursive one."""

    def by_id(id_: int) -> AvroSchema:
        if id_ not in writers:
            raise UnknownSchema(f"schema {id_} is not known")
        return writers[id_]

    array = values if isinstance(values, pa.Array) else pa.array(values, pa.binary())
    return ColumnDecoder(AvroPlan(reader), by_id, _by_guid).decode(array)


def _by_guid(guid: str) -> NoReturn:
    raise UnknownSchema(f"schema {guid} is not known")


def arrow_type(schema: AvroSchema) -> pa.DataType:
    """Raises `ValueError`."""
    return avro_column(schema.root).type
