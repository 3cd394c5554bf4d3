"""Orders with the city of their customer, from a compacted topic that is read as a table.

cordwood pipeline run examples/spark/enrichment.py
cordwood consume orders-with-cities --follow
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

import cordwood.spark


def pipeline(
    spark: SparkSession,
    bootstrap: str = "127.0.0.1:9092",
    source: str = "orders",
    table: str = "customers",
    target: str = "orders-with-cities",
    checkpoint: str = "checkpoints/enrichment",
) -> StreamingQuery:
    orders = (
        spark.readStream.format("cordwood")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("valueFormat", "json")
        .option("mode", "DROPMALFORMED")
        .schema("order BIGINT, customer STRING, amount BIGINT")
        .load()
    )
    # The table is read again for each batch, so a batch sees what customers have become until then.
    enriched = orders.join(customers(spark, bootstrap, table), "customer", "left")
    return (
        enriched.select(f.col("customer").alias("key"), f.to_json(f.struct("*")).alias("value"))
        .writeStream.queryName("enrichment")
        .format("cordwood")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("checkpointLocation", checkpoint)
        .start()
    )


def customers(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """The last record of each key. Compaction leaves older ones for a while; and none of a key whose last value is
    null, which means that it is deleted."""
    records = (
        spark.read.format("cordwood")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("valueFormat", "json")
        .schema("city STRING, _key BINARY, _value BINARY, _offset BIGINT")
        .load()
    )
    last = records.groupBy(f.col("_key").cast("string").alias("customer")).agg(
        f.max_by(f.struct("_value", "city"), "_offset").alias("last")
    )
    return last.where("last._value IS NOT NULL").select("customer", "last.city")


if __name__ == "__main__":
    cordwood.spark.run(pipeline)
