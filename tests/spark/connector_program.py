"""Reads and writes that are done by either format, and reported in a comparable way.

Run as a file, by the interpreter whose PySpark has the connector, it does what lines of JSON on its input ask for:
`connector_program.py JAR…`.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

Told = dict[str, Any]


def read(spark: SparkSession, format_name: str, options: dict[str, str]) -> Told:
    """Column types and rows of a batch read; or that it was refused."""

    def work() -> Told:
        frame = spark.read.format(format_name).options(**options).load()
        return {"schema": frame.schema.jsonValue(), "tasks": frame.rdd.getNumPartitions(), "rows": _rows(frame)}

    return _told(work)


def read_stream(spark: SparkSession, format_name: str, options: dict[str, str], checkpoint: str | None = None) -> Told:
    """With the trigger AvailableNow: rows of each batch that has some, and the offsets at its end."""

    def work() -> Told:
        batches: list[Any] = []
        frame = spark.readStream.format(format_name).options(**options).load()
        with tempfile.TemporaryDirectory() as temporary:
            query = (
                frame.writeStream.foreachBatch(lambda batch, number: batches.append(_rows(batch)))
                .option("checkpointLocation", checkpoint or temporary)
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            ends = [_offsets(progress["sources"][0]["endOffset"]) for progress in query.recentProgress]
        return {
            "schema": frame.schema.jsonValue(),
            "batches": [rows for rows in batches if rows],
            "end": ends[-1] if ends else None,
        }

    return _told(work)


def write(spark: SparkSession, format_name: str, options: dict[str, str], rows: str) -> Told:
    """Rows are an SQL query."""

    def work() -> Told:
        spark.sql(rows).coalesce(1).write.format(format_name).mode("append").options(**options).save()
        return {"written": True}

    return _told(work)


def _told(work: Callable[[], Told]) -> Told:
    try:
        return work()
    except Exception as error:  # noqa: BLE001  being refused is an outcome, however Spark wraps it
        return {"refused": str(error)}


def _rows(frame: DataFrame) -> list[Told]:
    rows = [{name: _plain(value) for name, value in row.asDict(recursive=True).items()} for row in frame.collect()]
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))


def _plain(value: Any) -> Any:
    """As JSON can have it."""
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value


def _offsets(told: Any) -> Any:
    return json.loads(told) if isinstance(told, str) else told


def main() -> None:
    # Other output must not get between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(sys.argv[1:]))
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    works: dict[str, Callable[..., Told]] = {"read": read, "read_stream": read_stream, "write": write}
    for line in sys.stdin:
        request = json.loads(line)
        answer = works[request.pop("work")](spark, "kafka", **request)
        print(json.dumps(answer), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
