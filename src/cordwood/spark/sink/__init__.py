"""The sink: writes of batch and streaming jobs into topics. docs/spark-sink.md describes its use, and
docs/adr/0005-spark-sink.md why it is exactly once.

    options.py        the options of a write; names.py  names of topics and transactional ids in the cluster
    typed.py          typed columns, by a schema of the registry
    columns.py        Spark's rows to records: columns, types, topics
    batch.py          **BatchWriter**, stream.py  **StreamWriter**: called by Spark, in its processes
    task.py           the rows of one task attempt, in one transaction that is left to the driver
    transactions.py   the names of those transactions; a task's message to the driver
    protocol.py       the driver's decisions and their order; no I/O
    effects.py        the effects of the protocol
    driver.py         performs them
    ledger.py         the topic of decisions; ledger_entry.py, ledger_reading.py
    outlet.py         a process's connections to a cluster
    leftovers.py      open transactions of a program that was stopped
    points.py         points at which tests kill
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

    from cordwood.spark.sink.batch import BatchWriter
    from cordwood.spark.sink.columns import Columns
    from cordwood.spark.sink.options import SinkOptions
    from cordwood.spark.sink.stream import StreamWriter

__all__ = ["batch_writer", "stream_writer"]


def batch_writer(options: "Mapping[str, str]", schema: "StructType", overwrite: bool) -> "BatchWriter":
    """Raises a `SparkError` for columns or options that cannot be written."""
    from cordwood.spark.errors import BadOption
    from cordwood.spark.sink.batch import BatchWriter
    from cordwood.spark.sink.options import read_options
    from cordwood.spark.sink.process import check_cluster

    if overwrite:
        raise BadOption('a topic cannot be overwritten; use mode("append")')
    chosen = read_options(options, "a batch write")
    columns = _columns(chosen, schema)
    check_cluster(chosen)
    return BatchWriter(chosen, columns)


def stream_writer(options: "Mapping[str, str]", schema: "StructType", overwrite: bool) -> "StreamWriter":
    """`overwrite` is the output mode "complete": every batch has all rows, and they are appended as in any other."""
    from cordwood.spark.sink.options import read_options
    from cordwood.spark.sink.stream import StreamWriter

    chosen = read_options(options, "a streaming write")
    return StreamWriter(chosen, _columns(chosen, schema))


def _columns(options: "SinkOptions", schema: "StructType") -> "Columns":
    from cordwood.spark.errors import BadOption
    from cordwood.spark.sink.columns import Columns

    if not options.typed:
        return Columns.of(schema, options.topic)
    try:
        from cordwood.spark.sink.typed import typed_columns
    except ImportError as error:
        raise BadOption(
            f"valueFormat and keyFormat need more packages ({error}): pip install 'cordwood[registry]'"
        ) from None
    return Columns.of(schema, options.topic, typed_columns(options, schema))
