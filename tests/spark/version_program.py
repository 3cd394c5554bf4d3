"""The work that every supported PySpark must do, in a session of `cordwood.spark.session()`.

Run as a file by the interpreter that has that PySpark. It does what lines of JSON on its input ask for, and answers
each with a line: what came of it, or `{"refused": ...}` with the text that a user would see.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession

import cordwood.spark

Told = dict[str, Any]


def about(spark: SparkSession) -> Told:
    return {"version": pyspark.__version__, "jvm": spark.version}


def read(spark: SparkSession, options: dict[str, str], schema: str | None = None, where: str = "true") -> Told:
    """A batch read."""
    reading = spark.read.format("cordwood").options(**options)
    frame = (reading if schema is None else reading.schema(schema)).load()
    return {"columns": frame.columns, "rows": _rows(frame.where(where))}


def read_stream(spark: SparkSession, options: dict[str, str], trigger: dict[str, Any]) -> Told:
    """The rows of each batch that has some, until there are no more."""
    batches: list[Any] = []
    frame = spark.readStream.format("cordwood").options(**options).load()
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            frame.writeStream.foreachBatch(lambda batch, number: batches.append(_rows(batch)))
            .option("checkpointLocation", checkpoint)
            .trigger(**trigger)
            .start()
        )
        try:
            if "availableNow" in trigger:
                query.awaitTermination()
            else:
                query.processAllAvailable()
        finally:
            query.stop()
    return {"batches": [rows for rows in batches if rows]}


def write(spark: SparkSession, options: dict[str, str], rows: str) -> Told:
    """A batch write. Rows are an SQL query."""
    spark.sql(rows).write.format("cordwood").mode("append").options(**options).save()
    return {"written": True}


def write_stream(spark: SparkSession, folder: str, checkpoint: str, options: dict[str, str]) -> Told:
    """The lines of text files, of one file in each batch and in two tasks."""
    query = (
        spark.readStream.option("maxFilesPerTrigger", 1)
        .text(folder)
        .repartition(2)
        .writeStream.format("cordwood")
        .option("checkpointLocation", checkpoint)
        .options(**options)
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return {"batches": query.lastProgress["batchId"] + 1 if query.lastProgress else None}


def _rows(frame: DataFrame) -> list[Told]:
    return [{name: _plain(value) for name, value in row.asDict(recursive=True).items()} for row in frame.collect()]


def _plain(value: Any) -> Any:
    """As JSON can have it."""
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode()
    return value if isinstance(value, int | float | str | None) else str(value)


def main() -> None:
    # Other output must not get between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = cordwood.spark.session(master="local[2]", settings={"spark.driver.memory": "1g"})
    works: dict[str, Callable[..., Told]] = {
        "about": about,
        "read": read,
        "read_stream": read_stream,
        "write": write,
        "write_stream": write_stream,
    }
    for line in sys.stdin:
        request = json.loads(line)
        work = works[request.pop("work")]
        try:
            answer = work(spark, **request)
        except Exception as error:  # noqa: BLE001  being refused is an outcome, however Spark wraps it
            answer = {"refused": str(error)}
        print(json.dumps(answer), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
