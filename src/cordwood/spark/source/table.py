"""A table over topics: the columns that Spark asks for, in its types, of a range of offsets."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.types import StructType

from cordwood.spark.errors import BadOption
from cordwood.spark.source.columns import COLUMN_TYPES
from cordwood.spark.source.options import SourceOptions
from cordwood.spark.source.ranges import OffsetRange
from cordwood.spark.source.reading import read_range


class Table:
    """Goes to the tasks."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        _check_columns(schema)

    def read(self, wanted: OffsetRange) -> Iterator[Any]:
        from pyspark.sql.pandas.types import to_arrow_schema

        return read_range(self._options, wanted, to_arrow_schema(self._schema, timezone="UTC"))


def _check_columns(schema: StructType) -> None:
    for field in schema.fields:
        expected = COLUMN_TYPES.get(field.name)
        if expected is None:
            raise BadOption(
                f"there is no column {field.name} in a topic; there are {', '.join(COLUMN_TYPES)}, and those of "
                "values with valueFormat=json"
            )
        if field.dataType != expected:
            raise BadOption(f"column {field.name} is {expected.simpleString()}, not {field.dataType.simpleString()}")
