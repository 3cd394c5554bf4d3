"""The columns of a topic, as Spark's Kafka connector has them, and how Arrow's arrays of records become those."""

from __future__ import annotations

from typing import Any

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

from cordwood.spark.source.reading import Records

COLUMN_TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}

CORRUPT_RECORD = "_corrupt_record"
"""The text of a value that does not parse."""


class RecordColumns:
    """Creates the columns of one partition's records; constant columns are created once."""

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic
        self._partition = partition
        self._constants: dict[str, Any] = {}

    def column(self, name: str, records: Records) -> Any:
        import pyarrow as pa  # type: ignore[import-untyped]
        import pyarrow.compute as pc  # type: ignore[import-untyped]

        columns = records.columns
        count = columns.num_rows
        if name == "timestamp":
            return pc.multiply(columns.column("timestamp"), 1000).view(pa.timestamp("us", tz="UTC"))
        if name == "topic":
            return self._constant("topic", pa.scalar(self._topic, pa.string()), count)
        if name == "partition":
            return self._constant("partition", pa.scalar(self._partition, pa.int32()), count)
        if name == "timestampType":
            kind = records.timestamp_type
            return self._constant(f"timestampType {kind}", pa.scalar(kind, pa.int32()), count)
        if name == "headers":
            return _headers(columns.column("headers"))
        return columns.column(name)

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

    fields = [pa.field("key", pa.string()), pa.field("value", pa.binary())]
    items = pa.StructArray.from_arrays([column.values.field(0), column.values.field(1)], fields=fields)
    return pa.ListArray.from_arrays(
        # For a slice, the offsets of the whole array would not match the mask.
        pa.concat_arrays([column.offsets]),
        items,
        type=pa.list_(pa.field("element", pa.struct(fields))),
        mask=pc.equal(pc.list_value_length(column), 0),
    )
