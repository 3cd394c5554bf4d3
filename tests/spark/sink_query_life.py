"""A separate driver: one run of a query from a topic to a topic, until everything is read or it is killed.

python sink_query_life.py '{"bootstrap": ..., "from": ..., "to": ..., "checkpoint": ..., "master": ...,
    "rows_per_batch": ..., "until": ..., "options": {...}}'

With `until` it reads on, until a file of that name exists and all is read that is there then.
"""

import json
import os
import sys

from cordwood.spark.worker_python import worker_python


def main() -> None:
    told = json.loads(sys.argv[1])
    os.environ["PYSPARK_PYTHON"], os.environ["PYSPARK_DRIVER_PYTHON"] = worker_python(), sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master(told["master"])
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", told["checkpoint"] + "-warehouse")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    rows = (
        spark.readStream.format("cordwood")
        .option("kafka.bootstrap.servers", told["bootstrap"])
        .option("subscribe", told["from"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", told["rows_per_batch"])
        .load()
    )
    until = told["until"]
    query = (
        rows.select("key", "value")
        .writeStream.format("cordwood")
        .option("kafka.bootstrap.servers", told["bootstrap"])
        .option("topic", told["to"])
        .option("checkpointLocation", told["checkpoint"])
        .options(**told["options"])
        .trigger(**({"processingTime": "0 seconds"} if until else {"availableNow": True}))
        .start()
    )
    if until:
        while not os.path.exists(until):
            # Raises the query's error if it has failed.
            query.awaitTermination(1)
        query.processAllAvailable()
        query.stop()
    query.awaitTermination()


if __name__ == "__main__":
    main()
