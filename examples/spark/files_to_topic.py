"""Files to a topic, each line once: existing files and new ones.

mkdir -p inbox && echo '{"order": 1, "customer": "customer-1", "amount": 20}' > inbox/first.json
cordwood pipeline run examples/spark/files_to_topic.py
cordwood consume orders-from-files --follow
"""

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

import cordwood.spark


def pipeline(
    spark: SparkSession,
    bootstrap: str = "127.0.0.1:9092",
    folder: str = "inbox",
    target: str = "orders-from-files",
    checkpoint: str = "checkpoints/files-to-topic",
) -> StreamingQuery:
    # CSV, Parquet and tables (spark.readStream.table) are read the same way.
    orders = spark.readStream.schema("order BIGINT, customer STRING, amount BIGINT").json(folder)
    return (
        orders.select(f.col("customer").alias("key"), f.to_json(f.struct("*")).alias("value"))
        .writeStream.queryName("files to topic")
        .format("cordwood")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("checkpointLocation", checkpoint)
        .start()
    )


if __name__ == "__main__":
    cordwood.spark.run(pipeline)
