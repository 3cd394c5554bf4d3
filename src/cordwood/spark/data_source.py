"""**CordwoodDataSource**: the data source `format("cordwood")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from cordwood.spark.closed_pipes import silence_closed_pipes
from cordwood.spark.errors import BadOption, SparkError, told_plainly

if TYPE_CHECKING:
    from cordwood.spark.source.options import SourceOptions
    from cordwood.spark.source.pinned_schemas import PinnedSchemas


class CordwoodDataSource(DataSource):
    """Spark creates one for each read and write, and sends it to the participating processes. The methods import
    lazily: a task that reads does not need the sink.
    """

    _pins: PinnedSchemas | None = None
    """For a table with `registry`: the result of `schema`, which Spark sends along."""

    @classmethod
    def name(cls) -> str:
        return "cordwood"

    def schema(self) -> StructType | str:
        from cordwood.spark.source.options import read_options
        from cordwood.spark.source.table import default_schema

        with told_plainly():
            options = read_options(self.options)
            self._pins = self._pinned(options)
            return default_schema(options, self._pins)

    def _pinned(self, options: SourceOptions) -> PinnedSchemas:
        if options.registry is None:
            return ()
        if self._pins is not None:
            return self._pins
        try:
            from cordwood.spark.source.pinned_schemas import pin, pins_in_checkpoint

            pins = pin(options.registry, options.topics)
        except ImportError as error:
            raise BadOption(f"the option registry needs {error.name}: pip install 'cordwood[registry]'") from None
        checkpoint = options.registry.checkpoint
        return pins if checkpoint is None else pins_in_checkpoint(checkpoint, pins)

    def reader(self, schema: StructType) -> DataSourceReader:
        from cordwood.spark.source.batch_reader import BatchReader
        from cordwood.spark.source.options import batch_options

        with told_plainly():
            options = batch_options(self.options)
            return BatchReader(options, schema, self._pinned(options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        from cordwood.spark.source.options import stream_options
        from cordwood.spark.source.stream_reader import RefusedStreamReader, stream_reader

        silence_closed_pipes()
        try:
            options = stream_options(self.options)
            return stream_reader(options, schema, self._pinned(options))
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
