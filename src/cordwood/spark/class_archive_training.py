"""The workload that Spark runs while its class archive is recorded, in a separate process: the work of pipelines in
small.

`python -m cordwood.spark.class_archive_training first-row|work BOOTSTRAP` answers with a line of JSON.
"""

import json
import sys
import tempfile
import time
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody has it

from cordwood.spark.sessions import session

FIRST_ROW: Final = "first-row"
WORK: Final = "work"
EVENTS: Final = "events"
COUNTS: Final = "counts"

_MASTER = "local[2]"
_ROWS = 1_000
_SCHEMA = "id LONG, user STRING"


def main(what: str, bootstrap: str) -> None:
    began = time.perf_counter()
    spark = session("class archive", master=_MASTER, log_level="OFF")
    topics = Topics(spark, bootstrap)
    topics.read().limit(1).collect()
    seconds = time.perf_counter() - began
    if what == WORK:
        topics.write()
        topics.sum_up()
        topics.follow()
    _end(spark)
    print(json.dumps({"seconds": seconds}))


class Topics:
    def __init__(self, spark: SparkSession, bootstrap: str) -> None:
        self._spark = spark
        self._servers = {"kafka.bootstrap.servers": bootstrap}

    def read(self) -> DataFrame:
        return self._spark.read.format("cordwood").options(**self._servers, subscribe=EVENTS).load()

    def write(self) -> None:
        numbers = self._spark.range(_ROWS).withColumn("user", F.concat(F.lit("user "), F.col("id") % 10))
        values = numbers.select(F.to_json(F.struct("id", "user")).alias("value"))
        values.write.format("cordwood").options(**self._servers, topic=EVENTS).mode("append").save()

    def sum_up(self) -> None:
        """Both ways to have JSON as columns, shuffles, and rows that come back to Python."""
        parsed = self.read().select(F.from_json(F.col("value").cast("string"), _SCHEMA).alias("parsed"))
        parsed.select("parsed.*").groupBy("user").agg(F.sum("id"), F.count("*")).orderBy("user").collect()
        typed = self._spark.read.format("cordwood").options(**self._servers, subscribe=EVENTS, valueFormat="json")
        typed.schema(_SCHEMA).load().toArrow()

    def follow(self) -> None:
        """A stream with state, exactly once into a topic; and one to a function."""
        events = (
            self._spark.readStream.format("cordwood")
            .options(**self._servers, subscribe=EVENTS, startingOffsets="earliest", maxOffsetsPerTrigger=_ROWS // 2)
            .load()
        )
        counts = (
            events.withWatermark("timestamp", "0 seconds")
            .groupBy(F.window("timestamp", "1 second"), F.col("value").substr(-3, 3).alias("last"))
            .count()
        )
        values = counts.select(F.to_json(F.struct("window", "count")).alias("value"))
        with tempfile.TemporaryDirectory() as folder:
            writing = values.writeStream.format("cordwood").options(**self._servers, topic=COUNTS)
            for name, starting in (
                ("topic", writing),
                ("function", events.writeStream.foreachBatch(_count)),
            ):
                query = starting.option("checkpointLocation", f"{folder}/{name}").trigger(availableNow=True).start()
                query.awaitTermination()


def _count(frame: DataFrame, batch: int) -> None:
    frame.count()


def _end(spark: SparkSession) -> None:
    """Java writes the archive when it ends, which others would not wait for."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
