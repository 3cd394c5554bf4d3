"""A table over topics: its columns, and the conversion of records to rows.

With `valueFormat=bytes` the columns are those of Spark's Kafka connector. With `valueFormat=json` they are the fields
of the values; a column of the record itself has an underscore before its name (`_key`, `_offset`), and
`_corrupt_record` is the text of a value that does not parse.

With `registry` the columns are the connector's, of which `key` and `value` have the types of their schemas. Beside
them, `_corrupt_key`, `_corrupt_value` and `_corrupt_reason` describe records that could not be decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from cordwood.spark.errors import BadOption
from cordwood.spark.source.columns import COLUMN_TYPES, CORRUPT_RECORD, RecordColumns
from cordwood.spark.source.options import SourceOptions, ValueFormat
from cordwood.spark.source.ranges import OffsetRange, ReadTask
from cordwood.spark.source.reading import read_range

if TYPE_CHECKING:
    from cordwood.spark.source.json_columns import ParsedColumns
    from cordwood.spark.source.pinned_schemas import PinnedSchemas
    from cordwood.spark.source.typed_columns import TypedColumns

_DEFAULT_METADATA = ("_key", "_topic", "_partition", "_offset", "_timestamp", "_timestampType")


def default_schema(options: SourceOptions, pins: PinnedSchemas = ()) -> StructType | str:
    """For queries without `.schema(...)`. `pins` are those of a table with `registry`. Raises `BadOption`."""
    if options.value_format.name == "json":
        return _json_schema(options)
    types = {name: COLUMN_TYPES[name] for name in COLUMN_TYPES if name != "headers" or options.include_headers}
    if options.registry is not None:
        from cordwood.spark.source.typed_columns import corrupt_columns, typed_columns

        types |= typed_columns(options.registry, pins)
        if options.registry.mode == "PERMISSIVE":
            types |= corrupt_columns(pins)
    return StructType([StructField(name, types[name]) for name in types])


def _json_schema(options: SourceOptions) -> str:
    """In Spark's DDL, which cannot be parsed here without a session."""
    fields = options.value_format.schema
    if fields is None:
        raise BadOption(
            "valueFormat=json needs a schema: .schema(...), or valueSchema such as 'id BIGINT, name STRING'"
        )
    names = options.value_format.metadata_columns
    if names is None:
        names = _DEFAULT_METADATA + (("_headers",) if options.include_headers else ())
    for name in names:
        if name != CORRUPT_RECORD and record_column(name, options.value_format) is None:
            raise BadOption(
                f"metadataColumns has {name}; expected some of {', '.join(f'_{each}' for each in COLUMN_TYPES)}"
            )
    return ", ".join([fields, *(f"{name} {_column_type(name).simpleString()}" for name in names)])


def record_column(name: str, value_format: ValueFormat) -> str | None:
    """The connector's name for a column of a table; None for one that comes from the value."""
    if value_format.name == "bytes":
        return name if name in COLUMN_TYPES else None
    return name[1:] if name.startswith("_") and name[1:] in COLUMN_TYPES else None


def _column_type(name: str) -> DataType:
    return StringType() if name == CORRUPT_RECORD else COLUMN_TYPES[name[1:]]


class Table:
    """Goes to the tasks with its reader."""

    def __init__(self, options: SourceOptions, schema: StructType, pins: PinnedSchemas = ()) -> None:
        """`pins` are those of a table with `registry`. Raises `BadOption` for a column that there is not."""
        self._options = options
        self._schema = schema
        self._pins = pins
        self._typed = self._types_of_registry()
        self._sources = {
            field.name: None if field.name in self._typed else record_column(field.name, options.value_format)
            for field in schema.fields
        }
        for field in schema.fields:
            self._check(field)

    def _types_of_registry(self) -> dict[str, DataType]:
        if self._options.registry is None:
            return {}
        from cordwood.spark.source.typed_columns import corrupt_columns, typed_columns

        return typed_columns(self._options.registry, self._pins) | corrupt_columns(self._pins)

    def _check(self, field: StructField) -> None:
        if (typed := self._typed.get(field.name)) is not None:
            if field.dataType != typed:
                told = " and ".join(str(pin) for pin in self._pins)
                raise BadOption(
                    f"column {field.name} is {typed.simpleString()} by {told}, not {field.dataType.simpleString()}"
                )
            return
        source = self._sources[field.name]
        if source is not None or field.name == CORRUPT_RECORD:
            expected = COLUMN_TYPES[source] if source is not None else StringType()
            if field.dataType != expected:
                raise BadOption(
                    f"column {field.name} is {expected.simpleString()}, not {field.dataType.simpleString()}"
                )
        elif self._options.value_format.name == "bytes":
            raise BadOption(
                f"a topic has no column {field.name}; it has {', '.join(COLUMN_TYPES | self._typed)}, and with "
                "valueFormat=json those of its values"
            )
        elif not field.nullable:
            raise BadOption(f"column {field.name} is declared as never null, but a JSON value may lack it")
        elif (kind := _unreadable(field.dataType)) is not None:
            raise BadOption(
                f"column {field.name} has the type {kind.simpleString()}, which the JSON reader does not support"
            )

    def read(self, task: ReadTask) -> Iterator[Any]:
        """RecordBatches of pyarrow, in the types that Spark expects."""
        schema = _arrow_schema(self._schema)
        for wanted in task.ranges:
            yield from self._read(wanted, schema)

    def _read(self, wanted: OffsetRange, schema: Any) -> Iterator[Any]:
        import pyarrow as pa  # type: ignore[import-untyped]

        own = RecordColumns(*wanted.partition)
        parsed = self._made_columns(wanted, schema)
        # A header may name the schema of its record.
        headers = bool(self._typed) or "headers" in self._sources.values()
        for records in read_range(self._options, wanted, headers=headers):
            fields: dict[str, Any] = {}
            if parsed is not None:
                records, fields = parsed.of(records)
            arrays = [
                own.column(source, records) if source is not None else fields[name]
                for name, source in self._sources.items()
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _made_columns(self, wanted: OffsetRange, schema: Any) -> ParsedColumns | TypedColumns | None:
        """None if no column comes from values."""
        if self._options.registry is not None:
            from cordwood.spark.source.typed_columns import TypedColumns

            return TypedColumns(wanted.partition, self._options.registry, self._pins)
        from cordwood.spark.source.json_columns import ParsedColumns

        names = [name for name, source in self._sources.items() if source is None]
        if not names:
            return None
        return ParsedColumns(wanted.partition, [schema.field(name) for name in names], self._options.value_format.mode)


_JSON_TYPES = (
    StringType,
    BinaryType,
    BooleanType,
    NumericType,
    DateType,
    TimestampType,
    TimestampNTZType,
)


def _unreadable(kind: DataType) -> DataType | None:
    """The part of a type that cannot be read from JSON, if any."""
    if isinstance(kind, StructType):
        return next((found for field in kind.fields if (found := _unreadable(field.dataType)) is not None), None)
    if isinstance(kind, ArrayType):
        return _unreadable(kind.elementType)
    return None if isinstance(kind, _JSON_TYPES) else kind


def _arrow_schema(schema: StructType) -> Any:
    """Times are in UTC, as Spark's workers expect them."""
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:
        # PySpark before 4.1, which always says UTC.
        return to_arrow_schema(schema)
