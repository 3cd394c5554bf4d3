"""Many records in one call, on a node or Kafka: each arrives once, where it belongs, within the producer's memory."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from cordwood import BadSetting, BrokerError, Consumer, Producer, RecordTooLarge, TopicPartition
from cordwood.client.producer.input.interceptors import ProducerRecord
from cordwood.wire.hashing import partition_for_key
from tests.client.any_cluster import AnyCluster

Rows = dict[int, list[tuple[bytes | None, bytes | None]]]


@pytest.fixture
def producer(node: AnyCluster) -> Iterator[Producer]:
    with Producer(bootstrap_servers=node.bootstrap) as producer:
        yield producer


def read(node: AnyCluster, topic: str, partitions: int, **settings: Any) -> dict[int, list[Any]]:
    """All records of a topic, by partition."""
    found: dict[int, list[Any]] = {index: [] for index in range(partitions)}
    with Consumer(bootstrap_servers=node.bootstrap, **settings) as consumer:
        assigned = [TopicPartition(topic, index) for index in range(partitions)]
        consumer.assign(assigned)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(assigned)
        while any(consumer.position(each) < ends[each] for each in assigned):
            for partition, records in consumer.poll(1.0).items():
                found[partition.partition] += records
    return found


def pairs(found: dict[int, list[Any]]) -> Rows:
    return {index: [(record.key, record.value) for record in records] for index, records in found.items()}


def table(count: int) -> pa.Table:
    return pa.table(
        {
            "customer": pa.array(
                [None if number % 10 == 0 else b"customer %d" % (number % 37) for number in range(count)]
            ),
            "value": pa.array([f"order {number}" for number in range(count)]),
            "shard": pa.array([number % 3 for number in range(count)], pa.int64()),
            "at": pa.array([1000 + number for number in range(count)], pa.timestamp("ms")),
        }
    )


def test_many_records_are_promised_together(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic(partitions=2)
    records: list[Any] = [
        (topic, "plain"),
        (topic, "with a key", "key"),
        ProducerRecord(topic, "all", "key", 1, 12345, [("h", b"1")]),
    ]
    delivery = producer.send_many(records)
    metadata = delivery.result(30)
    assert metadata.record_count == delivery.record_count == 3
    found = read(node, topic, 2)
    assert sum(len(records) for records in found.values()) == 3
    assert found[1][-1].timestamp == 12345
    assert metadata.last_offsets == {
        TopicPartition(topic, index): len(records) - 1 for index, records in found.items() if records
    }


def test_no_records_are_delivered_at_once(producer: Producer) -> None:
    assert producer.send_many([]).result(0) == (0, {})


def test_delivered_records_are_counted_even_if_others_fail(node: AnyCluster) -> None:
    topic = node.topic(configs={"max.message.bytes": "10000"})
    with Producer(bootstrap_servers=node.bootstrap, linger_ms=60_000) as producer:
        records = [(topic, b"small")] * 5 + [(topic, b"x" * 12_000)] + [(topic, b"small")] * 3
        delivery = producer.send_many(records)
        producer.flush()
        assert isinstance(delivery.exception(30), RecordTooLarge | BrokerError)
    assert delivery.delivered_count() == len(read(node, topic, 1)[0]) == 8
    with Producer(bootstrap_servers=node.bootstrap) as producer:
        delivery = producer.send_many([(topic, b"small")] * 4)
        delivery.result(30)
        assert delivery.delivered_count() == 4


def test_no_rows_are_delivered_at_once(node: AnyCluster, producer: Producer) -> None:
    assert producer.send_arrow(table(0), node.topic(), key="customer").result(0) == (0, {})


def test_non_tables_are_refused(node: AnyCluster, producer: Producer) -> None:
    with pytest.raises(BadSetting, match="expected a RecordBatch, a Table or a RecordBatchReader"):
        producer.send_arrow({"value": [b"x"]}, node.topic())


def test_text_of_a_dictionary_and_chunks_are_taken(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic()
    chunks = pa.chunked_array([["a", "b"], ["a"]]).dictionary_encode()
    producer.send_arrow(pa.table({"value": chunks}), topic).result(30)
    assert [value for _, value in pairs(read(node, topic, 1))[0]] == [b"a", b"b", b"a"]


def test_rows_are_partitioned_by_key_and_keep_their_order(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic(partitions=5)
    rows = table(20_000)
    metadata = producer.send_arrow(rows, topic, key="customer").result(60)
    assert metadata.record_count == 20_000
    expected: Rows = {index: [] for index in range(5)}
    keyless = []
    for key, value in zip(rows["customer"].to_pylist(), rows["value"].to_pylist(), strict=True):
        if key is None:
            keyless.append((None, value.encode()))
        else:
            expected[partition_for_key(key, 5)].append((key, value.encode()))
    found = pairs(read(node, topic, 5))
    assert {index: [pair for pair in found[index] if pair[0] is not None] for index in found} == expected
    assert [pair for index in found for pair in found[index] if pair[0] is None] == keyless
    assert metadata.last_offsets == {TopicPartition(topic, index): len(found[index]) - 1 for index in found}


def test_rows_go_to_the_partitions_of_a_column_with_times_of_another(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic(partitions=3)
    producer.send_arrow(table(3000), topic, partition="shard", timestamp="at").result(60)
    found = read(node, topic, 3)
    for index in range(3):
        assert [record.value for record in found[index]] == [b"order %d" % number for number in range(index, 3000, 3)]
        assert [record.timestamp for record in found[index]] == [1000 + number for number in range(index, 3000, 3)]


def test_rows_without_keys_go_to_all_partitions_in_whole_batches(node: AnyCluster) -> None:
    topic = node.topic(partitions=4)
    values = [b"%07d" % number + b"x" * 100 for number in range(40_000)]
    with Producer(bootstrap_servers=node.bootstrap, compression_type="lz4") as producer:
        producer.send_arrow(pa.table({"value": values}), topic).result(60)
    found = pairs(read(node, topic, 4))
    assert sorted(value for records in found.values() for _, value in records if value) == values
    assert len([records for records in found.values() if records]) > 1


def test_rows_keep_their_place_between_earlier_and_later_records(node: AnyCluster) -> None:
    topic = node.topic(partitions=1)
    with Producer(bootstrap_servers=node.bootstrap, linger_ms=60_000) as producer:
        for value in ("first", "second"):
            producer.send(topic, value, partition=0)
        producer.send_arrow(pa.table({"value": ["a row"]}), topic, partition=0)
        for value in ("third", "fourth"):
            producer.send(topic, value, partition=0)
    values = [record.value for record in read(node, topic, 1)[0]]
    assert values == [b"first", b"second", b"a row", b"third", b"fourth"]


def test_rows_with_headers_go_to_one_partition(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic(partitions=2)
    headers = pa.array(
        [[("a", b"1"), ("b", None)], []],
        pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])),
    )
    rows = pa.record_batch({"value": pa.array([b"one", None]), "meta": headers})
    producer.send_arrow(rows, topic, partition=1, headers="meta", timestamp=77).result(30)
    found = read(node, topic, 2)
    assert [(record.value, list(record.headers), record.timestamp) for record in found[1]] == [
        (b"one", [("a", b"1"), ("b", None)], 77),
        (None, [], 77),
    ]
    assert found[0] == []


def test_far_more_rows_than_memory_are_sent_within_it(node: AnyCluster) -> None:
    topic = node.topic(partitions=3)
    values = pa.array([b"%07d" % number + b"x" * 200 for number in range(50_000)])
    with Producer(bootstrap_servers=node.bootstrap, buffer_memory=1_000_000, batch_size=1000) as producer:
        delivery = producer.send_arrow(pa.table({"key": values, "value": values}), topic, key="key")
        assert delivery.result(60).record_count == 50_000
        assert producer.metrics()["buffer-available-bytes"] == 1_000_000


def test_rows_of_a_transaction_are_seen_when_it_is_committed(node: AnyCluster) -> None:
    topic = node.topic(partitions=2)
    with Producer(bootstrap_servers=node.bootstrap, transactional_id=f"{topic} bulk") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_arrow(table(100), topic, key="customer").result(30)
        producer.abort_transaction()
        with producer.transaction():
            producer.send_arrow(table(50), topic, key="customer")
            producer.send_many((topic, f"{number}") for number in range(50))
    found = read(node, topic, 2, isolation_level="read_committed")
    assert sum(len(records) for records in found.values()) == 100


def test_a_row_larger_than_a_request_is_refused(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic()
    with pytest.raises(RecordTooLarge, match="max_request_size"):
        producer.send_arrow(pa.table({"value": [b"x" * 2_000_000]}), topic)


def test_batches_that_the_topic_does_not_take_are_split(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic(configs={"max.message.bytes": "10000"})
    values = [b"%05d" % number + b"x" * 100 for number in range(2000)]
    producer.send_arrow(pa.table({"value": values}), topic).result(60)
    assert [value for _, value in pairs(read(node, topic, 1))[0]] == values


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"value": "valeu"}, "there is no column valeu; there are customer, value, shard, at"),
        ({"partition": 7}, "has no partition 7; it has 0 to 1"),
        ({"partition": "shard"}, "row 2 has partition 2 where there are 0 to 1"),
        ({"partition": pa.array([0, None] * 5)}, "has nulls"),
        ({"partition": True}, "partition is of type bool"),
        ({"key": pa.array([b"short"])}, "key is an array of 1 for 10 rows"),
        ({"value": pa.array([b"one less"] * 9)}, "value is an array of 9 for 10 rows"),
        ({"timestamp": pa.array([1] * 9)}, "timestamp is an array of 9 for 10 rows"),
        ({"partition": pa.array([1] * 9)}, "partition is an array of 9 for 10 rows"),
        ({"value": None}, "need a key column"),
        ({"value": "shard"}, "value is the column shard of type int64; expected bytes or text"),
        ({"value": [b"x"] * 10}, "value is of type list; expected the name of a column or an array"),
        ({"timestamp": datetime(2024, 1, 1)}, "timestamp is of type datetime; expected the name of a column, an int"),
        ({"timestamp": "value"}, "timestamp is the column value of type string; expected milliseconds"),
        ({"headers": "value"}, "headers is the column value of type string; expected lists"),
    ],
)
def test_a_row_that_cannot_be_sent_is_refused_with_the_reason(
    node: AnyCluster, producer: Producer, columns: dict[str, Any], reason: str
) -> None:
    with pytest.raises(BadSetting, match=reason):
        producer.send_arrow(table(10), node.topic(partitions=2), **columns)


def test_a_value_of_the_same_length_in_each_row_is_a_value(node: AnyCluster, producer: Producer) -> None:
    rows = pa.table({"value": pa.array([b"ab", b"cd"], pa.binary(2))})
    topic = node.topic(partitions=1)
    producer.send_arrow(rows, topic).result(30)
    assert pairs(read(node, topic, 1)) == {0: [(None, b"ab"), (None, b"cd")]}


def test_the_batches_of_a_reader_are_taken_one_after_the_other(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic(partitions=1)
    rows = table(10)
    reader = pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches(max_chunksize=3))
    assert producer.send_arrow(reader, topic, key="customer").result(30).record_count == 10
    assert [value for _, value in pairs(read(node, topic, 1))[0]] == [b"order %d" % number for number in range(10)]


def test_an_array_beside_a_reader_is_refused(node: AnyCluster, producer: Producer) -> None:
    rows = table(10)
    with pytest.raises(BadSetting, match="key is an array; for a RecordBatchReader, pass a column name"):
        producer.send_arrow(rows.to_reader(), node.topic(partitions=1), key=rows.column("customer"))


def test_a_partitioner_of_the_applications_own_decides_for_each_row(node: AnyCluster) -> None:
    topic = node.topic(partitions=3)

    def by_length(key: bytes | None, partitions: Any, available: Any) -> int:
        return len(key or b"") % 3

    rows = pa.table({"key": ["", "a", "bb", None, "dddd"], "value": ["0", "1", "2", "3", "4"]})
    with Producer(bootstrap_servers=node.bootstrap, partitioner=by_length) as producer:
        producer.send_arrow(rows, topic, key="key").result(30)
    found = pairs(read(node, topic, 3))
    assert {index: [value for _, value in found[index]] for index in found} == {
        0: [b"0", b"3"],
        1: [b"1", b"4"],
        2: [b"2"],
    }
