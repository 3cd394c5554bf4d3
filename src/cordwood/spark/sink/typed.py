"""Columns with types, written by a schema of the registry: **TypedColumn**, for `valueFormat` and `keyFormat`.

The schema is settled when the write is planned, before any row is written:

1. `valueSchema` gives it: a text, which is registered, or `latest`, which the subject has to have.
2. Otherwise the subject's latest version is taken if the columns fit it.
3. Otherwise a schema is derived from the columns, with the names of the latest version, and registered. The registry
   refuses one that is not compatible, and nothing is written.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

from cordwood.registry.client import RegisteredSchema, RegistryClient, RegistryRefused
from cordwood.registry.rows.deriving import derived_schema, type_name_of
from cordwood.registry.rows.encoding import RowEncoding
from cordwood.registry.rows.row_encoder import CannotEncode
from cordwood.registry.schemas.protobuf.schema import ProtobufSchema
from cordwood.registry.schemas.schema import AVRO, JSON, PROTOBUF, InvalidSchema
from cordwood.runtime.blocking_http import Unreachable
from cordwood.spark.errors import BadOption, CannotWrite
from cordwood.spark.registry_access import client_of
from cordwood.spark.sink.options import SinkOptions, TypedOptions

_TYPES = {"avro": AVRO, "json": JSON, "protobuf": PROTOBUF}
_LATEST = "latest"
RESERVED = frozenset(["key", "value", "headers", "topic", "partition"])
"""Columns that are not fields of the value."""

_NO_SUBJECT, _NO_VERSION = 40401, 40402
_INCOMPATIBLE = (409, 40901)
_ARROW_TIME_ZONE = "UTC"


def typed_columns(options: SinkOptions, schema: StructType) -> list["TypedColumn"]:
    """Registers new schemas. Raises `CannotWrite` or `BadOption`."""
    if options.registry is None:
        return []
    registry = client_of(options.registry)
    return [TypedColumn.planned(each, schema, registry) for each in options.typed]


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """Goes with the writer to the tasks."""

    column: str
    fields: tuple[str, ...]
    """The columns that form the value; none if there is a column of that name."""
    encoding: RowEncoding

    @classmethod
    def planned(cls, options: TypedOptions, schema: StructType, registry: RegistryClient) -> "TypedColumn":
        """Registers the schema if need be. Raises `CannotWrite`."""
        fields, rows = _rows_of(options.column, schema)
        with _told_plainly(options):
            registered = _registered(options, rows, registry)
            encoding = _encoding(options, registered)
            encoding.check(rows)
            return cls(options.column, fields, encoding)

    def applied(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the column as bytes. Raises `CannotWrite`."""
        names = {name.lower(): at for at, name in enumerate(batch.schema.names)}
        if self.fields:
            columns = [batch.column(batch.schema.get_field_index(name)) for name in self.fields]
            types = [batch.schema.field(name) for name in self.fields]
            rows = pa.StructArray.from_arrays(columns, fields=types)
        else:
            rows = batch.column(names[self.column])
        try:
            encoded = self.encoding.encode(rows)
        except CannotEncode as error:
            raise CannotWrite(f"a row cannot be written: {error}") from None
        if self.fields:
            return batch.append_column(self.column, encoded)
        return batch.set_column(names[self.column], self.column, encoded)


def _rows_of(column: str, schema: StructType) -> tuple[tuple[str, ...], pa.DataType]:
    """Which columns form the value, and its type."""
    for field in schema.fields:
        if field.name.lower() == column:
            return (), to_arrow_type(field.dataType, timezone=_ARROW_TIME_ZONE)
    if column == "key":
        raise CannotWrite("there is no column key; keyFormat says how to write it")
    fields = [field for field in schema.fields if field.name.lower() not in RESERVED]
    if not fields:
        raise CannotWrite("there is no column value, and none that could be a field of it")
    names = tuple(field.name for field in fields)
    if len(set(names)) < len(names):
        raise CannotWrite(f"two columns have the same name: {', '.join(names)}")
    types = [
        pa.field(each.name, to_arrow_type(each.dataType, timezone=_ARROW_TIME_ZONE), each.nullable) for each in fields
    ]
    return names, pa.struct(types)


def _registered(options: TypedOptions, rows: pa.DataType, registry: RegistryClient) -> RegisteredSchema:
    if options.schema is not None and options.schema != _LATEST:
        return registry.register(options.subject, options.schema, _TYPES[options.format])
    latest = _latest(options, registry)
    if options.schema == _LATEST:
        if latest is None:
            raise CannotWrite(f"the registry has no subject {options.subject}, whose latest schema was requested")
        return latest
    if latest is not None:
        try:
            _encoding(options, latest).check(rows)
        except CannotEncode:
            pass
        else:
            return latest
    if not pa.types.is_struct(rows):
        raise CannotWrite(
            f"the column {options.column} is of type {rows}; a schema is derived from columns of a struct only: "
            f"give one with the option {options.column}Schema"
        )
    known = None if latest is None else latest.schema
    name = options.record_name or type_name_of(options.subject.removesuffix("-value"))
    text = derived_schema(_TYPES[options.format], rows, name, known)
    return registry.register(options.subject, text, _TYPES[options.format])


def _latest(options: TypedOptions, registry: RegistryClient) -> RegisteredSchema | None:
    try:
        latest = registry.latest(options.subject)
    except RegistryRefused as refusal:
        if refusal.code in (_NO_SUBJECT, _NO_VERSION):
            return None
        raise
    if latest.schema.type != _TYPES[options.format]:
        raise CannotWrite(
            f"subject {options.subject} has a schema of type {latest.schema.type}, and the option "
            f"{options.column}Format says {options.format}"
        )
    return latest


def _encoding(options: TypedOptions, registered: RegisteredSchema) -> RowEncoding:
    schema = registered.schema
    indexes = (0,)
    if isinstance(schema, ProtobufSchema):
        names = [message.name for message in schema.file.messages]
        if not names:
            raise CannotEncode("the Protobuf schema has no message")
        if options.record_name in names:
            indexes = (names.index(options.record_name),)
    return RowEncoding(registered, options.column, indexes)


@contextmanager
def _told_plainly(options: TypedOptions) -> Iterator[None]:
    try:
        yield
    except CannotEncode as error:
        raise CannotWrite(f"the rows do not fit the schema of subject {options.subject}: {error}") from None
    except InvalidSchema as error:
        raise BadOption(f"{options.column}Schema is not valid: {error}") from None
    except RegistryRefused as refusal:
        if refusal.code in _INCOMPATIBLE:
            raise CannotWrite(
                f"the rows' schema is not compatible with subject {options.subject}, and nothing was written: {refusal}"
            ) from None
        raise CannotWrite(f"the registry refuses the schema of subject {options.subject}: {refusal}") from None
    except Unreachable as error:
        raise CannotWrite(f"the schema registry cannot be reached: {error}") from None
