"""Values that are JSON objects, as columns: parsed many at a time by Arrow's own reader.

That reader takes lines and gives up at the first one that does not parse. So values are joined to lines, and a bad one
is isolated by bisection.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.json  # type: ignore[import-untyped]


class JsonParser:
    """A field that is missing is null; one that the schema does not name is passed over."""

    def __init__(self, schema: Any) -> None:
        """`schema` is Arrow's; the names are those of the objects' fields."""
        self._schema = schema
        self._read_schema = pa.schema([field.with_type(_read_type(field.type)) for field in schema])
        self._parse_options = pyarrow.json.ParseOptions(
            explicit_schema=self._read_schema, newlines_in_values=False, unexpected_field_behavior="ignore"
        )

    def parse(self, values: Any) -> tuple[Any, Any]:
        """A RecordBatch with a row for each value, and which of them are malformed: their rows are null.

        A value that is null has a row of nulls, too, and is not malformed: it is a tombstone.
        """
        text, is_object = _objects(values)
        tables: list[Any] = []
        malformed: list[bool] = []
        if pc.all(is_object).as_py() is not False:
            self._parse(text, tables, malformed)
        else:
            self._parse_some(text, is_object, tables, malformed)
        columns = pa.concat_tables(tables).combine_chunks() if tables else self._schema.empty_table()
        arrays = [column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in columns.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema), pa.array(malformed, pa.bool_())

    def _parse_some(self, text: Any, is_object: Any, tables: list[Any], malformed: list[bool]) -> None:
        """Splits values into runs of probable objects and others."""
        flags = is_object.to_pylist()
        begin = 0
        while begin < len(flags):
            end = begin
            while end < len(flags) and flags[end] == flags[begin]:
                end += 1
            if flags[begin]:
                self._parse(text.slice(begin, end - begin), tables, malformed)
            else:
                self._add_nulls(end - begin, tables, malformed)
            begin = end

    def _parse(self, text: Any, tables: list[Any], malformed: list[bool]) -> None:
        count = len(text)
        if count == 0:
            return
        table = self._read(text)
        if table is not None:
            tables.append(table)
            malformed += [False] * count
        elif count == 1:
            self._add_nulls(1, tables, malformed)
        else:
            self._parse(text.slice(0, count // 2), tables, malformed)
            self._parse(text.slice(count // 2), tables, malformed)

    def _read(self, text: Any) -> Any | None:
        """None if one of them does not parse, or is more than one object."""
        lines = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(text)], pa.int32()), text), "\n")[0]
        content = lines.as_buffer()
        read_options = pyarrow.json.ReadOptions(use_threads=False, block_size=content.size + 1)
        try:
            table = pyarrow.json.read_json(
                pa.BufferReader(content), read_options=read_options, parse_options=self._parse_options
            )
            if not self._read_schema.equals(self._schema):
                table = table.cast(self._schema)
        except pa.ArrowInvalid:
            return None
        return table if table.num_rows == len(text) else None

    def _add_nulls(self, count: int, tables: list[Any], malformed: list[bool]) -> None:
        columns = [pa.nulls(count, field.type) for field in self._schema]
        tables.append(pa.Table.from_arrays(columns, schema=self._schema))
        malformed += [True] * count


def _read_type(kind: Any) -> Any:
    """The Arrow type to parse as: the reader has no dates, but timestamps, also without a time of day."""
    if pa.types.is_date32(kind):
        return pa.timestamp("s")
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_read_type(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_read_type(kind.value_type)))
    return kind


def _objects(values: Any) -> tuple[Any, Any]:
    """The values as text without line breaks, and which of them begin as an object does. Nulls are empty objects."""
    text = _text(pc.fill_null(values, b"{}"))
    if pc.any(pc.match_substring(text, "\n")).as_py():
        # Between the parts of an object they mean nothing, and within a string they are not allowed.
        text = pc.replace_substring(text, "\n", " ")
    is_object = pc.starts_with(text, "{")
    if pc.all(is_object).as_py() is False:
        text = pc.ascii_trim_whitespace(text)
        is_object = pc.starts_with(text, "{")
    return text, is_object


def _text(values: Any) -> Any:
    """Replaces invalid UTF-8 by something that is not a JSON object."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_decoded(value) for value in values.to_pylist()], pa.string())


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return ""
