"""The columns of a table that come from values, and the handling of values that do not parse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from cordwood.client.cluster import TopicPartition
from cordwood.spark.errors import CannotRead
from cordwood.spark.source.columns import CORRUPT_RECORD
from cordwood.spark.source.json_values import JsonParser
from cordwood.spark.source.reading import Records


class ParsedColumns:
    def __init__(self, partition: TopicPartition, fields: Sequence[Any], mode: str) -> None:
        """`fields` are Arrow's; `mode` is PERMISSIVE, DROPMALFORMED or FAILFAST."""
        self._partition = partition
        self._mode = mode
        self._parser = JsonParser(pa.schema([field for field in fields if field.name != CORRUPT_RECORD]))
        self._wants_corrupt = any(field.name == CORRUPT_RECORD for field in fields)

    def of(self, records: Records) -> tuple[Records, dict[str, Any]]:
        """The records that are left, and their columns by name. Raises `CannotRead`."""
        values = records.columns.column("value")
        parsed, malformed = self._parser.parse(values)
        columns = dict(zip(parsed.schema.names, parsed.columns, strict=True))
        if self._wants_corrupt:
            columns[CORRUPT_RECORD] = _texts(values, malformed)
        if not malformed.true_count or self._mode == "PERMISSIVE":
            return records, columns
        if self._mode == "FAILFAST":
            offset = records.columns.column("offset").filter(malformed)[0].as_py()
            raise CannotRead(
                f"{self._partition}: the value at offset {offset} is not a JSON object of this schema; "
                "mode=PERMISSIVE reads it as nulls, DROPMALFORMED skips it"
            )
        good = pc.invert(malformed)
        left = Records(records.columns.filter(good), records.timestamp_type)
        return left, {name: column.filter(good) for name, column in columns.items()}


def _texts(values: Any, malformed: Any) -> Any:
    """The text of malformed values; null for all others."""
    if not malformed.true_count:
        return pa.nulls(len(values), pa.string())
    flags = zip(values.to_pylist(), malformed.to_pylist(), strict=True)
    return pa.array([value.decode("utf-8", "replace") if is_bad else None for value, is_bad in flags], pa.string())
