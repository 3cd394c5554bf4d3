"""The template of `cordwood pipeline init`: a pipeline that runs as it is, to be changed."""

FIRST_PIPELINE = '''\
"""Orders, made up here, and what is sold in each ten seconds.

    cordwood pipeline run {file}
    cordwood consume sales --follow
"""

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

import cordwood.spark
from cordwood import Admin, NewTopic

# The queries' progress. Without it they start over.
CHECKPOINTS = "checkpoints"


def pipeline(spark: SparkSession, bootstrap: str = "{bootstrap}") -> list[StreamingQuery]:
    """Starts two queries: one writes the topic orders, the other reads it and writes the topic sales."""
    create_topics(bootstrap, "orders", "sales")

    # Instead of what your application would write: 10 orders a second.
    ticks = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    orders = ticks.select(
        f.expr("'customer-' || value % 5").alias("key"),
        f.to_json(f.struct("timestamp", (f.col("value") % 90 + 10).alias("amount"))).alias("value"),
    )
    made_up = (
        orders.writeStream.queryName("orders")
        .format("cordwood")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", "orders")
        .option("checkpointLocation", f"{{CHECKPOINTS}}/orders")
        .start()
    )

    # Values are JSON, and become columns of the schema. Spark's functions take it from here.
    sales = (
        spark.readStream.format("cordwood")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("valueFormat", "json")
        .schema("timestamp TIMESTAMP, amount BIGINT")
        .load()
        .withWatermark("timestamp", "5 seconds")
        .groupBy(f.window("timestamp", "10 seconds"))
        .agg(f.count("*").alias("orders"), f.sum("amount").alias("amount"))
    )
    # Exactly once: each window is written once, even if processes are stopped or killed.
    totals = (
        sales.select(f.to_json(f.struct("window.start", "orders", "amount")).alias("value"))
        .writeStream.queryName("sales")
        .format("cordwood")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", "sales")
        .option("checkpointLocation", f"{{CHECKPOINTS}}/sales")
        .start()
    )
    return [made_up, totals]


def create_topics(bootstrap: str, *names: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        there = admin.list_topics()
        admin.create_topics([NewTopic(name) for name in names if name not in there])


if __name__ == "__main__":
    cordwood.spark.run(pipeline)
'''


def first_pipeline(file: str, bootstrap: str) -> str:
    return FIRST_PIPELINE.format(file=file, bootstrap=bootstrap)
