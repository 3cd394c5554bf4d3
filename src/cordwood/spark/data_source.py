"""**CordwoodDataSource**: what Spark knows as `format("cordwood")`."""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from cordwood.spark.closed_pipes import silence_closed_pipes
from cordwood.spark.errors import SparkError, told_plainly


class CordwoodDataSource(DataSource):
    """Spark makes one for each read and write, and sends it to the processes that take part in it.

    What these methods need is imported when they are called: a task that reads has no use for the sink.
    """

    @classmethod
    def name(cls) -> str:
        return "cordwood"

    def schema(self) -> StructType | str:
        from cordwood.spark.source.options import read_options
        from cordwood.spark.source.table import default_schema

        with told_plainly():
            return default_schema(read_options(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        from cordwood.spark.source.batch_reader import BatchReader
        from cordwood.spark.source.options import batch_options

        with told_plainly():
            return BatchReader(batch_options(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        from cordwood.spark.source.options import stream_options
        from cordwood.spark.source.stream_reader import RefusedStreamReader, stream_reader

        silence_closed_pipes()
        try:
            return stream_reader(stream_options(self.options), schema)
        except SparkError as error:
            return RefusedStreamReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from cordwood.spark.sink import batch_writer

        with told_plainly():
            return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802  Spark's name
        from cordwood.spark.sink import stream_writer

        with told_plainly():
            return stream_writer(self.options, schema, overwrite)
