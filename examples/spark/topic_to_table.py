"""A topic as a table of Parquet files, a folder for each day. Each order is in it once: Spark's sink for files keeps a
log of the files of each batch, and readers use it.

    cordwood pipeline run examples/spark/topic_to_table.py
    python -c "import pyarrow.dataset as d; print(d.dataset('orders-table', partitioning='hive').head(5))"
"""

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

import cordwood.spark


def pipeline(
    spark: SparkSession,
    bootstrap: str = "127.0.0.1:9092",
    source: str = "orders",
    table: str = "orders-table",
    checkpoint: str = "checkpoints/topic-to-table",
) -> StreamingQuery:
    orders = (
        spark.readStream.format("cordwood")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("valueFormat", "json")
        .option("mode", "DROPMALFORMED")
        .schema("order BIGINT, customer STRING, item STRING, amount BIGINT, placed_at TIMESTAMP")
        .load()
    )
    return (
        orders.withColumn("day", f.to_date("placed_at"))
        .writeStream.queryName("topic to table")
        .format("parquet")
        .partitionBy("day")
        .option("path", table)
        .option("checkpointLocation", checkpoint)
        .start()
    )


if __name__ == "__main__":
    cordwood.spark.run(pipeline)
