"""The columns of a table that the schema registry types, and the handling of records that cannot be decoded."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark.sql.types import BinaryType, DataType, StringType

from cordwood.client.cluster import TopicPartition
from cordwood.registry.columns.decoder import BadRecord
from cordwood.spark.errors import BadOption, CannotRead
from cordwood.spark.source.pinned_schemas import PinnedSchemas, decoder_of, plan_of
from cordwood.spark.source.reading import Records
from cordwood.spark.source.registry_options import RegistryOptions

REASON: Final = "_corrupt_reason"


def corrupt_column(part: str) -> str:
    """The name of the column with the bytes that could not be decoded."""
    return f"_corrupt_{part}"


def typed_columns(options: RegistryOptions, pins: PinnedSchemas) -> dict[str, DataType]:
    """The types of the columns `key` and `value`, those of them that are typed. Raises `BadOption` or `CannotRead`."""
    return {pin.part: spark_type(plan_of(options.connection, pin).type.type) for pin in pins}


def corrupt_columns(pins: PinnedSchemas) -> dict[str, DataType]:
    return {corrupt_column(pin.part): BinaryType() for pin in pins} | {REASON: StringType()}


def spark_type(type_: pa.DataType) -> DataType:
    """Arrow's types and Spark's correspond, and `pyspark.sql.pandas.types` has the inverse. Raises `BadOption`."""
    from pyspark.sql.pandas.types import from_arrow_type

    if _has_time_of_day(type_):
        import pyspark.sql.types

        if not hasattr(pyspark.sql.types, "TimeType"):
            raise BadOption("the schema has times of day, which need PySpark 4.1 or newer")
    return from_arrow_type(type_, prefer_timestamp_ntz=True)


def _has_time_of_day(type_: pa.DataType) -> bool:
    if pa.types.is_map(type_):
        return _has_time_of_day(type_.item_type)
    return pa.types.is_time(type_) or any(
        _has_time_of_day(type_.field(index).type) for index in range(type_.num_fields)
    )


class TypedColumns:
    """The columns of one partition's records."""

    def __init__(self, partition: TopicPartition, options: RegistryOptions, pins: PinnedSchemas) -> None:
        self._partition = partition
        self._mode = options.mode
        self._decoders = {pin.part: decoder_of(options.connection, pin) for pin in pins}

    def of(self, records: Records) -> tuple[Records, dict[str, Any]]:
        """The records that are left, and their columns by name. Raises `CannotRead`."""
        columns: dict[str, Any] = {}
        bad: dict[str, list[BadRecord]] = {}
        headers = records.columns.column("headers")
        for part, decoder in self._decoders.items():
            decoded = decoder.decode(records.columns.column(part), headers, is_key=part == "key")
            columns[part] = decoded.values
            bad[part] = list(decoded.bad)
        if self._mode == "FAILFAST":
            self._fail_at_first(records, bad)
        rows = {each.row for found in bad.values() for each in found}
        if rows and self._mode == "DROPMALFORMED":
            good = pa.array([row not in rows for row in range(records.columns.num_rows)], pa.bool_())
            left = Records(records.columns.filter(good), records.timestamp_type)
            return left, {name: column.filter(good) for name, column in columns.items()} | self._corrupt(left, {})
        return records, columns | self._corrupt(records, bad)

    def _corrupt(self, records: Records, bad: dict[str, list[BadRecord]]) -> dict[str, Any]:
        """The bytes of bad records, and the reasons."""
        count = records.columns.num_rows
        columns: dict[str, Any] = {}
        reasons: dict[int, str] = {}
        for part in self._decoders:
            found = bad.get(part, [])
            flags = _flags([each.row for each in found], count)
            columns[corrupt_column(part)] = pc.if_else(flags, records.columns.column(part), None) if found else None
            for each in found:
                told = f"{part}: {each.reason}"
                reasons[each.row] = f"{reasons[each.row]}; {told}" if each.row in reasons else told
        columns[REASON] = pa.array([reasons.get(row) for row in range(count)], pa.string()) if reasons else None
        types = {REASON: pa.string()}
        return {
            name: pa.nulls(count, types.get(name, pa.binary())) if column is None else column
            for name, column in columns.items()
        }

    def _fail_at_first(self, records: Records, bad: dict[str, list[BadRecord]]) -> None:
        found = [(each.row, part, each.reason) for part, each_bad in bad.items() for each in each_bad]
        if found:
            row, part, reason = min(found)
            offset = records.columns.column("offset")[row].as_py()
            raise CannotRead(
                f"{self._partition}: the {part} at offset {offset} cannot be decoded: {reason}; mode=PERMISSIVE reads "
                "it as null, DROPMALFORMED skips it"
            )


def _flags(rows: list[int], count: int) -> Any:
    flags = [False] * count
    for row in rows:
        flags[row] = True
    return pa.array(flags, pa.bool_())
