"""Sessions of customers with custom state: orders within half an hour of each other belong to one visit.

Spark has sessions as windows, too (`session_window`); this shows custom state: a class that is given the rows of a
customer, keeps a state, and sets timers in the orders' own time.

    cordwood pipeline run examples/spark/customer_sessions.py
    cordwood consume visits --follow
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

import cordwood.spark

GAP = timedelta(minutes=30)
STATE = "begin_ms BIGINT, end_ms BIGINT, orders BIGINT, amount BIGINT"


class Visits(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._visit = handle.getValueState("visit", STATE)

    def handleInputRows(  # noqa: N802  Spark's name
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        visit = self._visit.get()
        for at_ms, amount in sorted((row.at_ms, row.amount) for row in rows):
            if visit is not None and at_ms > visit[1] + GAP / timedelta(milliseconds=1):
                yield self._told(key, visit)
                visit = None
            begin_ms, end_ms, orders, total = visit or (at_ms, at_ms, 0, 0)
            visit = (begin_ms, max(end_ms, at_ms), orders + 1, total + amount)
        if visit is not None:
            self._visit.update(visit)
            self._handle.registerTimer(visit[1] + GAP // timedelta(milliseconds=1))

    def handleExpiredTimer(  # noqa: N802  Spark's name
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        visit = self._visit.get()
        # Later orders have set later timers.
        if visit is not None and visit[1] + GAP // timedelta(milliseconds=1) <= expiredTimerInfo.getExpiryTimeInMs():
            yield self._told(key, visit)
            self._visit.clear()

    def close(self) -> None:
        return None

    def _told(self, key: Any, visit: tuple[int, ...]) -> Row:
        begin_ms, end_ms, orders, amount = visit
        begin, end = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (begin_ms, end_ms))
        return Row(customer=key[0], begin=begin, end=end, orders=orders, amount=amount)


def pipeline(
    spark: SparkSession,
    bootstrap: str = "127.0.0.1:9092",
    source: str = "orders",
    target: str = "visits",
    checkpoint: str = "checkpoints/customer-sessions",
) -> StreamingQuery:
    orders = (
        spark.readStream.format("cordwood")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("valueFormat", "json")
        .option("mode", "DROPMALFORMED")
        .schema("customer STRING, amount BIGINT, placed_at TIMESTAMP")
        .load()
        .withWatermark("placed_at", "1 minute")
        .withColumn("at_ms", f.unix_millis("placed_at"))
    )
    visits = orders.groupBy("customer").transformWithState(
        Visits(),
        outputStructType="customer STRING, begin TIMESTAMP, end TIMESTAMP, orders BIGINT, amount BIGINT",
        outputMode="append",
        timeMode="eventTime",
    )
    return (
        visits.select(f.col("customer").alias("key"), f.to_json(f.struct("*")).alias("value"))
        .writeStream.queryName("visits")
        .format("cordwood")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("checkpointLocation", checkpoint)
        .start()
    )


if __name__ == "__main__":
    cordwood.spark.run(pipeline)
