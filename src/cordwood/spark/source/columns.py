"""The columns of a table, as Spark's Kafka connector has them, and how Arrow's arrays of records become those."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from cordwood.spark.errors import BadOption

if TYPE_CHECKING:
    from cordwood.spark.source.options import SourceOptions

HEADERS_TYPE = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

COLUMN_TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS_TYPE,
}


def table_schema(options: SourceOptions) -> StructType | str:
    """For who does not give a schema."""
    if options.value_format.name == "json":
        raise BadOption("valueFormat=json needs a schema: .schema(...), or the option valueSchema")
    names = [name for name in COLUMN_TYPES if name != "headers" or options.include_headers]
    return StructType([StructField(name, COLUMN_TYPES[name]) for name in names])


class RecordColumns:
    """Makes the columns of one partition's records; what is the same for all of them is made once."""

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic
        self._partition = partition
        self._constants: dict[str, Any] = {}

    def column(self, name: str, batch: Any, timestamp_type: int) -> Any:
        """`batch` is as the wire gives it: offset, timestamp in ms, key, value, perhaps headers."""
        import pyarrow as pa  # type: ignore[import-untyped]
        import pyarrow.compute as pc  # type: ignore[import-untyped]

        if name == "timestamp":
            return pc.multiply(batch.column("timestamp"), 1000).view(pa.timestamp("us", tz="UTC"))
        if name == "topic":
            return self._constant("topic", pa.scalar(self._topic, pa.string()), batch.num_rows)
        if name == "partition":
            return self._constant("partition", pa.scalar(self._partition, pa.int32()), batch.num_rows)
        if name == "timestampType":
            return self._constant(f"type {timestamp_type}", pa.scalar(timestamp_type, pa.int32()), batch.num_rows)
        if name == "headers":
            return _headers(batch.column("headers"))
        return batch.column(name)

    def _constant(self, key: str, scalar: Any, count: int) -> Any:
        import pyarrow as pa

        array = self._constants.get(key)
        if array is None or len(array) < count:
            array = self._constants[key] = pa.repeat(scalar, count)
        return array.slice(0, count)


def _headers(column: Any) -> Any:
    """A record without headers has null, as in Spark's connector."""
    import pyarrow as pa
    import pyarrow.compute as pc

    is_empty = pc.equal(pc.list_value_length(column), 0)
    fields = [pa.field("key", pa.string()), pa.field("value", pa.binary())]
    items = pa.StructArray.from_arrays([column.values.field(0), column.values.field(1)], fields=fields)
    offsets = column.offsets
    kind = pa.list_(pa.field("element", pa.struct(fields)))
    return pa.ListArray.from_arrays(offsets, items, type=kind, mask=is_empty)
