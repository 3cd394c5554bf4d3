"""Rows as Spark has them, to records: the columns that Spark's Kafka connector takes, with its types.

| column    | type                                        |                                                  |
|-----------|---------------------------------------------|--------------------------------------------------|
| value     | string or binary; any type with valueFormat | required; with valueFormat the other columns     |
| key       | string or binary; any type with keyFormat   | null: no key                                     |
| headers   | array<struct<key: string, value: binary>>   | null: none                                       |
| topic     | string                                      | required, unless the option `topic` says it      |
| partition | int                                         | null: the key decides, or without one the client |

Others are left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType

from cordwood.spark.errors import CannotWrite

if TYPE_CHECKING:
    from cordwood.spark.sink.typed import TypedColumn

HEADERS_TYPE = "array<struct<key:string,value:binary>>"


class Records(NamedTuple):
    """The records of one topic, ready for `send_arrow`."""

    topic: str
    rows: pa.RecordBatch
    partition: Any
    """A column, or None where the client chooses."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that exist."""

    topic: str | None
    """The option, which goes before the column."""
    has_key: bool
    has_headers: bool
    has_partition: bool
    typed: tuple["TypedColumn", ...] = ()
    """Those that a schema of the registry makes bytes of."""

    @classmethod
    def of(cls, schema: StructType, topic: str | None, typed: Sequence["TypedColumn"] = ()) -> "Columns":
        """Raises `CannotWrite`. Names are in any case, as everywhere in Spark."""
        types = {field.name.lower(): field.dataType for field in schema.fields}
        types |= {column.column: BinaryType() for column in typed}
        if "value" not in types:
            raise CannotWrite(f"there is no column value among {_listed(schema)}; a record's value comes from it")
        if topic is None and "topic" not in types:
            raise CannotWrite(f"no topic to write to: set the option topic, or add a topic column ({_listed(schema)})")
        _check(types, "value", (StringType, BinaryType), "string or binary")
        _check(types, "key", (StringType, BinaryType), "string or binary")
        if topic is None:
            _check(types, "topic", (StringType,), "string")
        _check(types, "partition", (IntegerType,), "int")
        if "headers" in types and not _is_headers(types["headers"]):
            raise CannotWrite(
                f"the column headers is of type {types['headers'].simpleString()}; expected {HEADERS_TYPE}"
            )
        return cls(topic, "key" in types, "headers" in types, "partition" in types, tuple(typed))

    def records(self, batch: pa.RecordBatch) -> Iterator[Records]:
        """Rows by topic; those with an explicit partition are separate."""
        for column in self.typed:
            batch = column.applied(batch)
        batch = batch.rename_columns([name.lower() for name in batch.schema.names])
        if self.has_headers:
            batch = _without_null_headers(batch)
        for topic, rows in self._by_topic(batch):
            if not self.has_partition:
                yield Records(topic, rows, None)
                continue
            partitions = rows.column("partition")
            if not partitions.null_count:
                yield Records(topic, rows, partitions)
                continue
            chosen, free = rows.filter(pc.is_valid(partitions)), rows.filter(pc.is_null(partitions))
            if chosen.num_rows:
                yield Records(topic, chosen, chosen.column("partition"))
            yield Records(topic, free, None)

    def _by_topic(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self.topic is not None:
            yield self.topic, batch
            return
        topics = batch.column("topic")
        if topics.null_count:
            raise CannotWrite("a row has no topic: its column topic is null; set the option topic as the default")
        distinct = pc.unique(topics)
        for topic in distinct:
            yield topic.as_py(), batch if len(distinct) == 1 else batch.filter(pc.equal(topics, topic))


def _without_null_headers(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The source reads a record without headers as null, as Spark's connector does; the client has an empty list."""
    headers = batch.column("headers")
    if not headers.null_count:
        return batch
    index = batch.schema.get_field_index("headers")
    return batch.set_column(index, "headers", pc.coalesce(headers, pa.scalar([], headers.type)))


def _check(types: dict[str, DataType], name: str, allowed: tuple[type[DataType], ...], expected: str) -> None:
    kind = types.get(name)
    if kind is not None and not isinstance(kind, allowed):
        raise CannotWrite(f"the column {name} is of type {kind.simpleString()}; expected {expected}")


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = kind.elementType.fields
    return (
        [field.name for field in fields] == ["key", "value"]
        and isinstance(fields[0].dataType, StringType)
        and isinstance(fields[1].dataType, BinaryType)
    )


def _listed(schema: StructType) -> str:
    return ", ".join(schema.fieldNames()) or "no columns"
