"""Reading as Spark's workers do, without Spark: the readers are called as they are in the driver and in a task."""

import pickle
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.types import StructType

from cordwood import Admin, NewTopic, Producer
from cordwood.client.cluster import TopicPartition
from cordwood.spark.source.batch_reader import BatchReader
from cordwood.spark.source.options import batch_options, stream_options
from cordwood.spark.source.ranges import OffsetRange, ReadTask
from cordwood.spark.source.stream_reader import stream_reader as stream_reader_of
from cordwood.spark.source.table import default_schema


def batch_reader(bootstrap: str, topic: str | None, schema: StructType | None = None, /, **options: str) -> BatchReader:
    """Options whose names are no words of Python have `__` for a dot."""
    given = {"kafka.bootstrap.servers": bootstrap} | ({} if topic is None else {"subscribe": topic})
    given |= {name.replace("__", "."): value for name, value in options.items()}
    read = batch_options(given)
    if schema is None:
        made = default_schema(read)
        assert isinstance(made, StructType)
        schema = made
    return BatchReader(read, schema)


def stream_reader(bootstrap: str, topic: str | None, /, **options: str) -> Any:
    given = {"kafka.bootstrap.servers": bootstrap} | ({} if topic is None else {"subscribe": topic}) | options
    read = stream_options(given)
    schema = default_schema(read)
    assert isinstance(schema, StructType)
    return stream_reader_of(read, schema)


def rows(reader: Any, tasks: list[ReadTask] | None = None) -> list[dict[str, Any]]:
    """All that the tasks yield. They get the reader by pickle."""
    there = pickle.loads(pickle.dumps(reader))
    planned = reader.partitions() if tasks is None else tasks
    batches = [batch for task in planned for batch in there.read(pickle.loads(pickle.dumps(task)))]
    table: list[dict[str, Any]] = pa.Table.from_batches(batches).to_pylist() if batches else []
    return table


def task_of(topic: str, start: int, end: int) -> ReadTask:
    """A range of its only partition."""
    return ReadTask((OffsetRange(TopicPartition(topic, 0), start, end),))


def create(admin: Admin, topic: str, partitions: int = 1, **configs: str) -> None:
    """Settings of the topic have `_` for a dot. Records stay, of whatever time a test says they are."""
    dotted = {"retention.ms": "-1"} | {name.replace("_", "."): value for name, value in configs.items()}
    admin.create_topics([NewTopic(topic, partitions=partitions, configs=dotted)])
    admin.until_topics_led([topic], partitions)


def until_ended(admin: Admin, transactional_id: str) -> None:
    """With its markers in the log: brokers answer before they have written them."""
    while not admin.describe_transactions([transactional_id])[transactional_id].state.startswith("Complete"):
        pass


def fill(producer: Producer, topic: str, count: int, partition: int = 0, first: int = 0) -> None:
    for number in range(first, first + count):
        producer.send(topic, b"v%d" % number, partition=partition)
    producer.flush()


def numbered(count: int, first: int = 0) -> list[bytes]:
    """The records that `fill` wrote."""
    return [b"v%d" % number for number in range(first, first + count)]


def values(reader: Any, tasks: list[ReadTask] | None = None) -> list[bytes | None]:
    return [row["value"] for row in rows(reader, tasks)]
