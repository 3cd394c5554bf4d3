"""**RowEncoding**: columns to records' bytes by a registered schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import jsonschema_rs

from cordwood.registry.client import RegisteredSchema
from cordwood.registry.rows.avro_rows import avro_cells
from cordwood.registry.rows.deriving import derived_schema
from cordwood.registry.rows.json_rows import json_rows
from cordwood.registry.rows.protobuf_rows import protobuf_cells
from cordwood.registry.rows.row_encoder import CannotEncode, Cells, encode_rows
from cordwood.registry.schemas.avro.schema import AvroSchema
from cordwood.registry.schemas.json.schema import JsonSchema
from cordwood.registry.schemas.parsing import parse_schema
from cordwood.registry.schemas.protobuf.schema import ProtobufSchema
from cordwood.registry.serializers.codecs import json_validator, message_descriptor
from cordwood.registry.serializers.framing import encode_indexes, prefix

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


@dataclass(frozen=True, slots=True)
class RowEncoding:
    """Encodes rows as Confluent's serializers do: the schema's id, and the payload. Can be pickled."""

    registered: RegisteredSchema
    path: str
    """The name of the rows in errors."""
    indexes: tuple[int, ...] = (0,)
    """For Protobuf: the index of the message in its file."""

    def check(self, rows: pa.DataType) -> None:
        """Raises `CannotEncode` if columns of these types do not fit the schema."""
        import pyarrow as pa

        schema = self.registered.schema
        if isinstance(schema, JsonSchema):
            text = derived_schema(schema.type, rows, "Rows", None)
            found = schema.incompatibilities(parse_schema(schema.type, text, validate=False))
            if found:
                reason = found[0].text("registered", "columns'")
                raise CannotEncode(f"{self.path} does not fit the schema: {reason}")
        else:
            self._cells(pa.array([], rows))

    def encode(self, rows: pa.Array) -> pa.Array:
        """Null stays null. Raises `CannotEncode`."""
        import pyarrow as pa

        schema = self.registered.schema
        count = len(rows)
        if isinstance(schema, JsonSchema):
            return self._json(schema, rows)
        indexes = encode_indexes(self.indexes) if isinstance(schema, ProtobufSchema) else b""
        made = encode_rows(self._cells(rows), count, prefix(self.registered, indexes))
        buffers = [pa.py_buffer(each) for each in (made.validity, made.offsets, made.contents)]
        return pa.Array.from_buffers(pa.binary(), count, buffers, null_count=made.null_count)

    def _cells(self, rows: pa.Array) -> Cells:
        schema = self.registered.schema
        if isinstance(schema, AvroSchema):
            return avro_cells(rows, schema.root, self.path)
        assert isinstance(schema, ProtobufSchema)
        return protobuf_cells(rows, message_descriptor(schema, self.indexes), self.path)

    def _json(self, schema: JsonSchema, rows: pa.Array) -> pa.Array:
        import pyarrow as pa

        first = prefix(self.registered)
        try:
            encoded = json_rows(rows, schema.document, self.path, json_validator(schema))
            return pa.array([None if row is None else first + row for row in encoded], pa.binary())
        except jsonschema_rs.ValidationError as error:
            where = "".join(f".{each}" for each in error.instance_path)
            raise CannotEncode(f"{self.path}{where} does not fit the schema: {error.message[:500]}") from None
