"""**ArrowSerializer** and **ArrowDeserializer**: many values at once between pyarrow's arrays and registered schemas of
any type, by compiled code, without a Python object for each.

>>> reader = ArrowDeserializer(client, client.latest("orders-value").schema)
>>> for batch in consumer.arrow(headers=True):
...     orders = reader(batch.column("value"), batch.column("headers")).values

>>> write = ArrowSerializer(client, "orders-value", ORDER_SCHEMA)
>>> producer.send_arrow(pa.table({"value": write(orders)}), "orders")
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from .client import RegistryClient, RegistryRefused
from .columns.decoder import ColumnDecoder, Decoded, UnknownSchema
from .columns.planning import plan_for
from .rows.encoding import RowEncoding
from .schemas.protobuf.schema import ProtobufSchema
from .schemas.schema import AVRO, Schema

_NO_SUCH = (40401, 40402, 40403)


class ArrowDeserializer:
    """Every value is decoded by the schema that it was written with, and resolved to the reader's. Not for several
    threads at once."""

    def __init__(
        self, client: RegistryClient, reader: Schema, *, subject: str = "", message: str | None = None
    ) -> None:
        """`message`: the full name of a Protobuf message; None: the first of the file. `subject` has the context of the
        ids. Raises `ValueError` for a schema that Arrow has no type for, as a recursive one of Avro."""
        self._client = client
        self._subject = subject
        self._decoder = ColumnDecoder(plan_for(reader, message), self._by_id, self._by_guid)

    @property
    def type(self) -> pa.DataType:
        """The type of the arrays that it returns."""
        return self._decoder.plan.type.type

    def __call__(self, values: pa.Array, headers: pa.Array | None = None, *, is_key: bool = False) -> Decoded:
        """`values` are binary, with ids in front; `headers`, as `consumer.arrow(headers=True)` has them, may name the
        schemas instead. Values that are bad are null, and listed with the reason. Raises `RegistryRefused` or
        `Unreachable` if the registry cannot tell."""
        return self._decoder.decode(values, headers, is_key=is_key)

    def _by_id(self, id_: int) -> Schema:
        try:
            return self._client.by_id(id_, self._subject).schema
        except RegistryRefused as refused:
            raise _unknown(refused) from None

    def _by_guid(self, guid: str) -> Schema:
        try:
            return self._client.by_guid(guid).schema
        except RegistryRefused as refused:
            raise _unknown(refused) from None


def _unknown(refused: RegistryRefused) -> Exception:
    """Treats only a missing schema as the record's fault."""
    return UnknownSchema(f"its schema is not in the registry: {refused}") if refused.code in _NO_SUCH else refused


class ArrowSerializer:
    def __init__(
        self, client: RegistryClient, subject: str, schema: str, schema_type: str = AVRO, *, message: str | None = None
    ) -> None:
        """Registers the schema. `message`: the full name of one of a Protobuf file, on its first level. Raises
        `RegistryRefused` or `Unreachable`, and `ValueError` if there is no such message."""
        registered = client.register(subject, schema, schema_type)
        self._encoding = RowEncoding(registered, "value", (_place_of(message, registered.schema),))

    def __call__(self, rows: pa.Array) -> pa.Array:
        """A binary array, with the schema's id in front of each value; null stays null. Rows are structs for records.
        Raises `CannotEncode`, a `ValueError`, for a row that has no place in the schema."""
        return self._encoding.encode(rows)


def _place_of(message: str | None, schema: Schema) -> int:
    if message is None or not isinstance(schema, ProtobufSchema):
        return 0
    names: list[Any] = [".".join(filter(None, (schema.file.package, each.name))) for each in schema.file.messages]
    if message not in names:
        raise ValueError(f"the schema has no message {message}; it has {', '.join(names)}")
    return names.index(message)
