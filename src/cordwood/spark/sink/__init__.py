"""The sink: writes of batch and streaming jobs into topics. docs/spark-sink.md describes its use, and
docs/adr/0005-spark-sink.md why it is exactly once.

    options.py        what a write can be told; names.py  what it is called in the cluster
    typed.py          columns with types, as a schema of the registry has them
    columns.py        rows as Spark has them, to records: which columns, of which types, to which topic
    batch.py          **BatchWriter**, stream.py  **StreamWriter**: what Spark calls, in its processes
    task.py           the rows of one task attempt, in one transaction that is left to the driver
    transactions.py   the names of those transactions; what a task tells the driver
    protocol.py       what the driver decides and in which order; no I/O
    effects.py        what the protocol wants done
    driver.py         does it
    ledger.py         the topic in which decisions stand; ledger_entry.py, ledger_reading.py
    outlet.py         a process's connections to a cluster
    leftovers.py      what was being written when a program was stopped
    points.py         where tests kill
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
