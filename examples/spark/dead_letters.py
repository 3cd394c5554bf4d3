"""Writes valid orders to one topic, and others unchanged to another one, with the reason and origin in headers.

One query writes both, so each record is in one of them, and once.

    cordwood pipeline run examples/spark/dead_letters.py
    cordwood consume orders-dead-letters --follow --format '{value} {headers}\\n'
"""

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

import cordwood.spark


def pipeline(
    spark: SparkSession,
    bootstrap: str = "127.0.0.1:9092",
    source: str = "orders",
    good: str = "orders-checked",
    bad: str = "orders-dead-letters",
    checkpoint: str = "checkpoints/dead-letters",
) -> StreamingQuery:
    records = (
        spark.readStream.format("cordwood")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("valueFormat", "json")
        .schema(
            "order BIGINT, amount BIGINT, _corrupt_record STRING, "
            "_key BINARY, _value BINARY, _topic STRING, _partition INT, _offset BIGINT"
        )
        .load()
    )
    # The rules of a valid order, in one place.
    reason = (
        f.when(f.col("_corrupt_record").isNotNull(), "no JSON of an order")
        .when(f.col("order").isNull(), "no order number")
        .when(f.col("amount").isNull() | (f.col("amount") < 0), "no amount")
    )
    whence = f.concat_ws("/", "_topic", "_partition", "_offset")
    headers = f.array(
        f.struct(f.lit("reason").alias("key"), reason.cast("binary").alias("value")),
        f.struct(f.lit("source").alias("key"), whence.cast("binary").alias("value")),
    )
    return (
        records.select(
            f.when(reason.isNull(), good).otherwise(bad).alias("topic"),
            f.when(reason.isNotNull(), headers).alias("headers"),
            f.col("_key").alias("key"),
            f.col("_value").alias("value"),
        )
        .writeStream.queryName("dead letters")
        .format("cordwood")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("checkpointLocation", checkpoint)
        .start()
    )


if __name__ == "__main__":
    cordwood.spark.run(pipeline)
