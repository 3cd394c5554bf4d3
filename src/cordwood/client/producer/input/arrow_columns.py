"""The input of `send_arrow`: tables, and the columns or arrays for the fields of records."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from cordwood.client.errors import BadSetting

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

Column: TypeAlias = "str | pa.Array | pa.ChunkedArray"
"""The name of a column of the table, or an array of the same length."""
Rows: TypeAlias = "pa.RecordBatch | pa.Table | pa.RecordBatchReader"


class Columns(NamedTuple):
    """A column, array or constant for each field."""

    rows: "Rows"
    key: "Column | None"
    value: "Column | None"
    partition: "Column | int | None"
    timestamp: "Column | int | None"
    headers: "Column | None"

    def tables(self) -> "Iterator[Arrays]":
        """Yields tables one after the other, on demand. Raises `BadSetting`."""
        from cordwood.wire.arrow import require_pyarrow

        require_pyarrow()
        import pyarrow as pa

        if isinstance(self.rows, pa.RecordBatch | pa.Table):
            yield self._arrays(self.rows)
        elif isinstance(self.rows, pa.RecordBatchReader):
            for what in ("key", "value", "partition", "timestamp", "headers"):
                if isinstance(getattr(self, what), pa.Array | pa.ChunkedArray):
                    raise BadSetting(f"{what} is an array; for a RecordBatchReader, pass a column name")
            for batch in self.rows:
                yield self._arrays(batch)
        else:
            raise BadSetting(
                f"expected a RecordBatch, a Table or a RecordBatchReader of pyarrow, not {type(self.rows).__name__}"
            )

    def _arrays(self, table: "pa.RecordBatch | pa.Table") -> "Arrays":
        return Arrays(
            table.num_rows,
            _array(table, "key", self.key, _is_binary, "bytes or text"),
            _array(table, "value", self.value, _is_binary, "bytes or text"),
            _array(table, "partition", self.partition, _is_whole, "whole numbers", or_int=True),
            _array(table, "timestamp", self.timestamp, _is_time, "milliseconds or Arrow's timestamps", or_int=True),
            _array(table, "headers", self.headers, _is_headers, "lists of structs of key and value"),
        )


class Arrays(NamedTuple):
    """The arrays for one table, with matching length and type. An int applies to all rows."""

    row_count: int
    key: Any
    value: Any
    partition: Any
    timestamp: Any
    headers: Any


def _array(
    table: "pa.RecordBatch | pa.Table",
    what: str,
    column: "Column | int | None",
    is_fit: "Callable[[pa.DataType], bool]",
    expected: str,
    *,
    or_int: bool = False,
) -> Any:
    import pyarrow as pa

    if column is None or (or_int and isinstance(column, int) and not isinstance(column, bool)):
        return column
    if isinstance(column, str):
        names = table.schema.names
        if names.count(column) != 1:
            there = "is no column" if column not in names else "are several columns"
            raise BadSetting(f"there {there} {column}; there are {', '.join(names)}")
        array = table.column(column)
        given = f"the column {column}"
    elif isinstance(column, pa.Array | pa.ChunkedArray):
        array = column
        given = "an array"
    else:
        an_int = ", an int" if or_int else ""
        raise BadSetting(
            f"{what} is of type {type(column).__name__}; expected the name of a column{an_int} or an array of pyarrow"
        )
    if not is_fit(array.type):
        raise BadSetting(f"{what} is {given} of type {array.type}; expected {expected}")
    if len(array) != table.num_rows:
        raise BadSetting(f"{what} is an array of {len(array)} for {table.num_rows} rows; the lengths must match")
    return array


def _is_binary(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        types.is_binary(kind)
        or types.is_string(kind)
        or types.is_large_binary(kind)
        or types.is_large_string(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_binary_view(kind)
        or types.is_string_view(kind)
        or types.is_null(kind)
    )


def _is_whole(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind))


def _is_time(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind))


def _is_headers(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    if pa.types.is_map(kind):
        return _is_binary(kind.key_type) and _is_binary(kind.item_type)
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not pa.types.is_struct(kind.value_type):
        return False
    fields = {field.name: field.type for field in kind.value_type}
    return {"key", "value"} <= set(fields) and _is_binary(fields["key"]) and _is_binary(fields["value"])
