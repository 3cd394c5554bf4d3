"""A Spark session in a separate process, that performs one command after another.

It is run as a file by the interpreter whose PySpark is to be measured, which need not know Cordwood:
`session.py FORMAT BOOTSTRAP [JAR…]`. It reads lines of JSON, `{"work": name, …arguments}`, and answers each with one:
what was measured, or `{"error": text}`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody has it
from pyspark.sql.streaming.query import StreamingQuery

CORES = 2
PARTITIONS = 4
JSON_SCHEMA = "id long, user string, amount double, ts long"
KEY_BYTES, VALUE_BYTES = 16, 100
CORDWOOD = "cordwood"
_LOOK_EVERY_S = 0.05

Found = dict[str, Any]


def main() -> None:
    format_name, bootstrap, *jars = sys.argv[1:]
    # Other output must not get between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    session = Session(format_name, bootstrap, jars)
    works: dict[str, Callable[..., Found]] = {
        "first_row": session.first_row,
        "read": session.read,
        "stream_read": session.stream_read,
        "json": session.json,
        "avro": session.avro,
        "cache": session.cache,
        "write": session.write,
        "stream_write": session.stream_write,
        "follow": session.follow,
    }
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = works[request.pop("work")](**request)
        except Exception as error:  # noqa: BLE001  the caller gets the error
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
    session.stop()


class Session:
    """Spark is started by the first work."""

    def __init__(self, format_name: str, bootstrap: str, jars: list[str]) -> None:
        self._format = format_name
        self._bootstrap = bootstrap
        self._jars = jars
        self._prepared = format_name == CORDWOOD
        self._started: SparkSession | None = None
        self._cached: DataFrame | None = None

    @property
    def _spark(self) -> SparkSession:
        if self._started is None:
            master = f"local[{CORES}]"
            builder = SparkSession.builder.master(master).appName(f"bench {self._format}")
            if self._prepared:
                from cordwood.spark.sessions import prepare_environment, session_settings

                prepare_environment(master)
                for name, value in session_settings(master).items():
                    builder = builder.config(name, value)
            for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
                os.environ.setdefault(name, sys.executable)
            self._started = (
                builder.config("spark.jars", ",".join(self._jars))
                .config("spark.driver.memory", "4g")
                # As in the session of Cordwood, for both: Spark's 200 are for clusters.
                .config("spark.sql.shuffle.partitions", CORES)
                .config("spark.driver.host", "127.0.0.1")
                .config("spark.driver.bindAddress", "127.0.0.1")
                .config("spark.ui.enabled", "false")
                .config("spark.ui.showConsoleProgress", "false")
                .getOrCreate()
            )
            self._started.sparkContext.setLogLevel("ERROR")
        return self._started

    def stop(self) -> None:
        if self._started is not None:
            self._started.stop()

    # ---- reading

    def first_row(self, topic: str, prepared: bool, archived: bool) -> Found:
        """`prepared`: as `cordwood.spark.session()` starts it, or else as anybody does; `archived`: with the archive of
        Spark's classes, which is made if there is none."""
        self._prepared = prepared
        if archived:
            _need_archive()
        else:
            # A contestant with its own Java archive does not get ours; this is what Java does anyhow.
            os.environ["SPARK_SUBMIT_OPTS"] = "-Xshare:auto"
        began = time.perf_counter()
        spark = self._spark
        session_s = time.perf_counter() - began
        assert len(self._batch(topic).limit(1).collect()) == 1
        return {"seconds": time.perf_counter() - began, "session_s": session_s, "spark": spark.version}

    def read(self, topic: str) -> Found:
        """All columns of all rows, unused."""
        frame = self._batch(topic)
        began = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        return {"seconds": time.perf_counter() - began}

    def json(self, topic: str) -> Found:
        """Values are parsed, and summed up by one of their fields."""
        frame = self._parsed(topic)
        began = time.perf_counter()
        sums = frame.groupBy("user").agg(F.sum("amount").alias("amount"), F.count("*").alias("rows")).collect()
        seconds = time.perf_counter() - began
        return {"seconds": seconds, "rows": sum(row["rows"] for row in sums), "sum": sum(row.amount for row in sums)}

    def avro(self, topic: str, registry: str, schema: str) -> Found:
        """Values become structs, unused."""
        if self._format == CORDWOOD:
            reader = self._spark.read.format(self._format).options(**self._subscription(topic))
            frame = reader.options(registry=registry, valueFormat="avro", mode="FAILFAST").load().select("value")
        else:
            from pyspark.sql.avro.functions import from_avro

            rows = self._batch(topic)
            payload = F.expr("substring(value, 6, length(value) - 5)")
            frame = rows.select(from_avro(payload, schema).alias("value"))
        began = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        return {"seconds": time.perf_counter() - began}

    def _parsed(self, topic: str) -> DataFrame:
        if self._format == CORDWOOD:
            reader = self._spark.read.format(self._format).options(**self._subscription(topic))
            return reader.option("valueFormat", "json").schema(JSON_SCHEMA).load()
        return (
            self._batch(topic)
            .select(F.from_json(F.col("value").cast("string"), JSON_SCHEMA).alias("parsed"))
            .select("parsed.*")
        )

    def stream_read(self, topic: str, per_trigger: int | None) -> Found:
        """All there is, in one micro-batch or in several."""
        limit = {} if per_trigger is None else {"maxOffsetsPerTrigger": str(per_trigger)}
        with tempfile.TemporaryDirectory() as checkpoint:
            began = time.perf_counter()
            query = (
                self._stream(topic, **limit)
                .writeStream.format("noop")
                .option("checkpointLocation", checkpoint)
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            seconds = time.perf_counter() - began
        batches = [progress for progress in query.recentProgress if progress["numInputRows"]]
        rows = sum(progress["numInputRows"] for progress in batches)
        return {"seconds": seconds, "rows": rows, "batches": len(batches), "parts_ms": _mean_parts(batches)}

    def follow(self, topic: str, warm_s: float, hold_s: float) -> Found:
        """A query that is as quick as it can be, on a topic that is written to: values begin with the time of their
        making, in ns. The first seconds after the first batch do not count."""
        latencies_ms: list[float] = []
        counts_from_ns = sys.maxsize

        def see(frame: DataFrame, batch: int) -> None:
            made = frame.select(F.trim(F.col("value").cast("string")).cast("long").alias("made")).toArrow()
            seen_ns = time.time_ns()
            if seen_ns >= counts_from_ns:
                latencies_ms.extend((seen_ns - each) / 1e6 for each in made.column(0).to_pylist())

        with tempfile.TemporaryDirectory() as checkpoint:
            query = (
                self._stream(topic)
                .writeStream.foreachBatch(see)
                .option("checkpointLocation", checkpoint)
                .trigger(processingTime="0 seconds")
                .start()
            )
            while not any(progress["numInputRows"] for progress in query.recentProgress):
                _wait(query, _LOOK_EVERY_S)
            _wait(query, warm_s)
            counts_from_ns = time.time_ns()
            warm = query.lastProgress["batchId"] if query.lastProgress else -1
            _wait(query, hold_s)
            self._stop_quietly(query)
        batches = [each for each in query.recentProgress if each["numInputRows"] and each["batchId"] > warm]
        latencies_ms.sort()
        return {
            "rows": len(latencies_ms),
            "batches": len(batches),
            "median_ms": _quantile(latencies_ms, 0.5),
            "p99_ms": _quantile(latencies_ms, 0.99),
            "planning_ms": _quantile(sorted(map(_planning_ms, batches)), 0.5),
            "parts_ms": _mean_parts(batches),
        }

    def _batch(self, topic: str) -> DataFrame:
        return self._spark.read.format(self._format).options(**self._subscription(topic)).load()

    def _stream(self, topic: str, **options: str) -> DataFrame:
        stream = self._spark.readStream.format(self._format).options(**self._subscription(topic))
        return stream.options(startingOffsets="earliest", **options).load()

    def _subscription(self, topic: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self._bootstrap, "subscribe": topic}

    # ---- writing

    def cache(self, rows: int) -> Found:
        """Rows in memory, so that writing them costs no making of them."""
        if self._cached is not None:
            self._cached.unpersist(blocking=True)
            self._cached = None
        if rows:
            made = _as_records(self._spark.range(0, rows, 1, PARTITIONS))
            self._cached = made.persist(StorageLevel.MEMORY_ONLY)
            assert self._cached.count() == rows
        return {}

    def write(self, topic: str) -> Found:
        assert self._cached is not None, "nothing is cached"
        began = time.perf_counter()
        writer = self._cached.write.format(self._format).mode("append")
        writer.option("kafka.bootstrap.servers", self._bootstrap).option("topic", topic).save()
        return {"seconds": time.perf_counter() - began}

    def stream_write(self, topic: str, batches: int, per_batch: int) -> Found:
        """The time of the triggers themselves: progress is reported late, during the next one."""
        source = (
            self._spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", per_batch)
            .option("numPartitions", PARTITIONS)
            .load()
            .withColumnRenamed("value", "id")
        )
        with tempfile.TemporaryDirectory() as checkpoint:
            query = (
                _as_records(source)
                .writeStream.format(self._format)
                .option("kafka.bootstrap.servers", self._bootstrap)
                .option("topic", topic)
                .option("checkpointLocation", checkpoint)
                .trigger(processingTime="0 seconds")
                .start()
            )
            while len(done := [each for each in query.recentProgress if each["numInputRows"]]) < batches:
                _wait(query, _LOOK_EVERY_S)
            self._stop_quietly(query)
        done = done[:batches]
        seconds = sum(progress["durationMs"]["triggerExecution"] for progress in done) / 1000
        rows = sum(progress["numInputRows"] for progress in done)
        return {"seconds": seconds, "rows": rows, "batches": batches, "parts_ms": _mean_parts(done)}

    def _stop_quietly(self, query: StreamingQuery) -> None:
        """A batch that is in progress fails, at length."""
        self._spark.sparkContext.setLogLevel("OFF")
        query.stop()
        self._spark.sparkContext.setLogLevel("ERROR")


def _need_archive() -> None:
    from cordwood.spark.class_archive import whole_archive
    from cordwood.spark.java import find_java

    if whole_archive(find_java()) is None:
        subprocess.run([sys.executable, "-m", "cordwood", "pipeline", "prepare"], check=True)


def _wait(query: StreamingQuery, seconds: float) -> None:
    """Raises the query's error."""
    # Spark takes fractions of seconds, whatever its types say.
    if query.awaitTermination(seconds):  # type: ignore[arg-type]
        raise RuntimeError("the query has ended by itself")


def _as_records(numbers: DataFrame) -> DataFrame:
    """Derives keys and values of their usual lengths from a column `id`."""
    text = F.col("id").cast("string")
    return numbers.select(F.lpad(text, KEY_BYTES, "0").alias("key"), F.lpad(text, VALUE_BYTES, "0").alias("value"))


def _planning_ms(progress: Any) -> float:
    """Up to where tasks run, without what Spark writes to its checkpoint."""
    parts = progress["durationMs"]
    return float(sum(parts.get(name, 0) for name in ("latestOffset", "getBatch", "queryPlanning")))


def _mean_parts(batches: list[Any]) -> dict[str, int]:
    """The mean duration of each part of a trigger."""
    names = sorted({name for progress in batches for name in progress["durationMs"]})
    return {name: round(sum(each["durationMs"].get(name, 0) for each in batches) / len(batches)) for name in names}


def _quantile(ascending: list[float], share: float) -> float:
    return ascending[int(len(ascending) * share)] if ascending else float("nan")


if __name__ == "__main__":
    main()
