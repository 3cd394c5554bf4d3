"""Orders that were sent twice, once: the first order with a number within an hour passes.

cordwood pipeline run examples/spark/deduplication.py
cordwood consume orders-once --follow
"""

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import cordwood.spark


def pipeline(
    spark: SparkSession,
    bootstrap: str = "127.0.0.1:9092",
    source: str = "orders",
    target: str = "orders-once",
    checkpoint: str = "checkpoints/deduplication",
) -> StreamingQuery:
    orders = (
        spark.readStream.format("cordwood")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("valueFormat", "json")
        .option("mode", "DROPMALFORMED")
        .schema("order BIGINT, placed_at TIMESTAMP, _key BINARY, _value BINARY")
        .load()
    )
    # The watermark bounds the state: a later duplicate is treated as a new order.
    once = orders.withWatermark("placed_at", "1 hour").dropDuplicatesWithinWatermark(["order"])
    return (
        once.selectExpr("_key AS key", "_value AS value")
        .writeStream.queryName("deduplication")
        .format("cordwood")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("checkpointLocation", checkpoint)
        .start()
    )


if __name__ == "__main__":
    cordwood.spark.run(pipeline)
