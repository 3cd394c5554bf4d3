"""Sales of each item per hour of event time: event-time windows, exactly once into a topic.

cordwood pipeline run examples/spark/order_windows.py --set window='1 minute'
cordwood consume order-totals --follow

Orders are JSON, or with --set registry=http://localhost:8081 whatever schema the registry has for them.
"""

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

import cordwood.spark


def pipeline(
    spark: SparkSession,
    bootstrap: str = "127.0.0.1:9092",
    source: str = "orders",
    target: str = "order-totals",
    window: str = "1 hour",
    orders_per_batch: int = 100_000,
    available_now: bool = False,
    registry: str = "",
    checkpoint: str = "checkpoints/order-windows",
) -> StreamingQuery:
    """With `available_now` it ends when it has read what is there."""
    reader = (
        spark.readStream.format("cordwood")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", orders_per_batch)
        .option("mode", "DROPMALFORMED")
    )
    if registry:
        # The query goes on with the schema that its checkpoint has, also when a newer one is registered.
        typed = reader.option("registry", registry).option("valueFormat", "auto")
        orders = typed.option("checkpointLocation", checkpoint).load().select("value.*")
    else:
        orders = reader.option("valueFormat", "json").schema("item STRING, amount BIGINT, placed_at TIMESTAMP").load()
    # A window is written when it is over: when orders have come that are a minute younger than its end.
    totals = (
        orders.withWatermark("placed_at", "1 minute")
        .groupBy(f.window("placed_at", window), "item")
        .agg(f.count("*").alias("orders"), f.sum("amount").alias("amount"))
    )
    writing = (
        totals.select(
            f.col("item").alias("key"),
            f.to_json(f.struct("window.start", "window.end", "item", "orders", "amount")).alias("value"),
        )
        .writeStream.queryName("order windows")
        .format("cordwood")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("checkpointLocation", checkpoint)
    )
    return (writing.trigger(availableNow=True) if available_now else writing).start()


if __name__ == "__main__":
    cordwood.spark.run(pipeline)
