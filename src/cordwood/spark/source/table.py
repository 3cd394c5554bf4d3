"""A table over topics: which columns it has, and how records become its rows.

With `valueFormat=bytes` the columns are those of Spark's Kafka connector. With `valueFormat=json` they are the fields
of the values; a column of the record itself has an underscore before its name (`_key`, `_offset`), and
`_corrupt_record` is the text of a value that does not parse.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.types import DataType, MapType, StringType, StructField, StructType

from cordwood.spark.errors import BadOption, CannotRead
from cordwood.spark.source.columns import COLUMN_TYPES, RecordColumns
from cordwood.spark.source.options import SourceOptions, ValueFormat
from cordwood.spark.source.ranges import OffsetRange
from cordwood.spark.source.reading import Records, read_range

CORRUPT_RECORD = "_corrupt_record"
_DEFAULT_METADATA = ("_key", "_topic", "_partition", "_offset", "_timestamp", "_timestampType")


def default_schema(options: SourceOptions) -> StructType | str:
    """For who does not call `.schema(...)`. Raises `BadOption`."""
    if options.value_format.name == "json":
        return _json_schema(options)
    names = [name for name in COLUMN_TYPES if name != "headers" or options.include_headers]
    return StructType([StructField(name, COLUMN_TYPES[name]) for name in names])


def _json_schema(options: SourceOptions) -> str:
    """As Spark's DDL, which nobody can read here without a session."""
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
    """The connector's name for a column of a table; None for one that is made of the value."""
    if value_format.name == "bytes":
        return name if name in COLUMN_TYPES else None
    return name[1:] if name.startswith("_") and name[1:] in COLUMN_TYPES else None


def _column_type(name: str) -> DataType:
    return StringType() if name == CORRUPT_RECORD else COLUMN_TYPES[name[1:]]


class Table:
    """Goes to the tasks with its reader."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        """Raises `BadOption` for a column that there is not."""
        self._options = options
        self._schema = schema
        self._sources = {field.name: record_column(field.name, options.value_format) for field in schema.fields}
        for field in schema.fields:
            self._check(field)

    def _check(self, field: StructField) -> None:
        source = self._sources[field.name]
        if source is not None or field.name == CORRUPT_RECORD:
            expected = COLUMN_TYPES[source] if source is not None else StringType()
            if field.dataType != expected:
                raise BadOption(
                    f"column {field.name} is {expected.simpleString()}, not {field.dataType.simpleString()}"
                )
        elif self._options.value_format.name == "bytes":
            raise BadOption(
                f"a topic has no column {field.name}; it has {', '.join(COLUMN_TYPES)}, and with valueFormat=json "
                "those of its values"
            )
        elif not field.nullable:
            raise BadOption(f"column {field.name} is declared as never null, but a value may be without it")
        elif _has_map(field.dataType):
            raise BadOption(f"column {field.name} has a map, which valueFormat=json does not read; expected a struct")

    def read(self, wanted: OffsetRange) -> Iterator[Any]:
        """RecordBatches of pyarrow, in the types that Spark expects."""
        import pyarrow as pa  # type: ignore[import-untyped]

        schema = _arrow_schema(self._schema)
        own = RecordColumns(wanted.topic, wanted.number)
        parsed = _ParsedValues(self._options.value_format.mode, wanted, schema, self._sources)
        for records in read_range(self._options, wanted, headers="headers" in self._sources.values()):
            records, fields = parsed.of(records)
            arrays = [
                own.column(source, records) if source is not None else fields[name]
                for name, source in self._sources.items()
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


class _ParsedValues:
    """The columns that are made of values."""

    def __init__(self, mode: str, wanted: OffsetRange, schema: Any, sources: dict[str, str | None]) -> None:
        import pyarrow as pa

        self._mode = mode
        self._wanted = wanted
        names = [name for name, source in sources.items() if source is None]
        self._wants_corrupt = CORRUPT_RECORD in names
        self._fields = pa.schema([schema.field(name) for name in names if name != CORRUPT_RECORD])
        self._is_needed = bool(names)

    def of(self, records: Records) -> tuple[Records, dict[str, Any]]:
        """The records that are left, by `mode`, and their columns by name."""
        import pyarrow.compute as pc  # type: ignore[import-untyped]

        from cordwood.spark.source.json_values import JsonParser

        if not self._is_needed:
            return records, {}
        values = records.columns.column("value")
        table, malformed = JsonParser(self._fields).parse(values)
        if pc.any(malformed).as_py():
            if self._mode == "FAILFAST":
                offset = records.columns.column("offset").filter(malformed)[0].as_py()
                raise CannotRead(
                    f"{self._wanted.partition}: the value at offset {offset} is no JSON object of this schema; "
                    "mode=PERMISSIVE reads it as nulls, DROPMALFORMED passes over it"
                )
            if self._mode == "DROPMALFORMED":
                good = pc.invert(malformed)
                records = Records(records.columns.filter(good), records.timestamp_type)
                table, values, malformed = table.filter(good), values.filter(good), malformed.filter(good)
        columns = dict(zip(table.schema.names, table.columns, strict=True))
        if self._wants_corrupt:
            columns[CORRUPT_RECORD] = _corrupt(values, malformed)
        return records, columns


def _corrupt(values: Any, malformed: Any) -> Any:
    import pyarrow as pa

    bad = zip(values.to_pylist(), malformed.to_pylist(), strict=True) if malformed.true_count else ()
    if not malformed.true_count:
        return pa.nulls(len(values), pa.string())
    return pa.array([value.decode("utf-8", "replace") if is_bad else None for value, is_bad in bad], pa.string())


def _has_map(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_map(field.dataType) for field in kind.fields)
    return isinstance(kind, MapType) or (hasattr(kind, "elementType") and _has_map(kind.elementType))


def _arrow_schema(schema: StructType) -> Any:
    """Times are in UTC, as Spark's workers expect them."""
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:
        # PySpark before 4.1, which always says UTC.
        return to_arrow_schema(schema)
