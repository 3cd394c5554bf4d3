"""A topic, a view of it, and a topic that the view is written to."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()
BOOTSTRAP = os.environ.get("CORDWOOD_BOOTSTRAP", "127.0.0.1:9092")
SOURCE, TARGET = "orders", "large-orders"

dp.create_sink("large_orders", "cordwood", {"kafka.bootstrap.servers": BOOTSTRAP, "topic": TARGET})


@dp.temporary_view
def orders() -> DataFrame:
    return (
        spark.readStream.format("cordwood")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("subscribe", SOURCE)
        .option("startingOffsets", "earliest")
        .option("valueFormat", "json")
        .option("mode", "DROPMALFORMED")
        .schema("order BIGINT, customer STRING, amount BIGINT")
        .load()
    )


@dp.append_flow(target="large_orders")
def write_large_orders() -> DataFrame:
    large = spark.readStream.table("orders").where("amount >= 50")
    return large.select(f.col("customer").alias("key"), f.to_json(f.struct("*")).alias("value"))
