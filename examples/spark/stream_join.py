"""Orders with their payments: two streams joined; orders without a payment within an hour are reported as well.

cordwood pipeline run examples/spark/stream_join.py
cordwood consume order-payments --follow
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

import cordwood.spark


def pipeline(
    spark: SparkSession,
    bootstrap: str = "127.0.0.1:9092",
    orders: str = "orders",
    payments: str = "payments",
    target: str = "order-payments",
    checkpoint: str = "checkpoints/stream-join",
) -> StreamingQuery:
    placed = read(spark, bootstrap, orders, "order BIGINT, amount BIGINT, placed_at TIMESTAMP")
    paid = read(spark, bootstrap, payments, "order BIGINT, paid BIGINT, paid_at TIMESTAMP")
    # The watermarks and the hour say how long each side has to be remembered.
    joined = placed.withWatermark("placed_at", "1 minute").join(
        paid.withColumnRenamed("order", "paid_order").withWatermark("paid_at", "1 minute"),
        f.expr("order = paid_order AND paid_at BETWEEN placed_at AND placed_at + INTERVAL 1 HOUR"),
        "left",
    )
    return (
        joined.select(
            f.col("order").cast("string").alias("key"),
            f.to_json(f.struct("order", "amount", f.coalesce("paid", f.lit(0)).alias("paid"))).alias("value"),
        )
        .writeStream.queryName("order payments")
        .format("cordwood")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("checkpointLocation", checkpoint)
        .start()
    )


def read(spark: SparkSession, bootstrap: str, topic: str, schema: str) -> DataFrame:
    return (
        spark.readStream.format("cordwood")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("valueFormat", "json")
        .option("mode", "DROPMALFORMED")
        .schema(schema)
        .load()
    )


if __name__ == "__main__":
    cordwood.spark.run(pipeline)
