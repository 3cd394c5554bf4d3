"""Ranges read as tasks read them, from a real node."""

import weakref
from datetime import UTC, datetime

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from pyspark.sql.datasource import DataSourceReader, Filter, GreaterThanOrEqual, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, MapType, StringType, StructType

from cordwood import Admin, Producer, TopicPartition
from cordwood.spark.errors import BadOption, CannotRead, DataLoss
from cordwood.spark.local_master import CORES_VARIABLE
from cordwood.spark.source import reading
from cordwood.spark.source.options import batch_options
from cordwood.spark.source.table import default_schema
from tests.foreign_clients.node_process import NodeProcess
from tests.spark.source_reading import batch_reader, create, fill, numbered, rows, task_of, until_ended, values

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def test_a_record_has_the_connectors_columns(node: NodeProcess, admin: Admin, producer: Producer, topic: str) -> None:
    create(admin, topic, 2)
    producer.send(
        topic, b"v", key=b"k", partition=1, timestamp_ms=1_700_000_000_123, headers=[("h", b"1"), ("h", None)]
    )
    producer.send(topic, None, partition=1, timestamp_ms=1_700_000_000_124)
    producer.flush()
    first, second = rows(batch_reader(node.bootstrap, topic, includeHeaders="true"))
    assert first == {
        "key": b"k",
        "value": b"v",
        "topic": topic,
        "partition": 1,
        "offset": 0,
        "timestamp": datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC),
        "timestampType": 0,
        "headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
    }
    assert (second["key"], second["value"], second["headers"]) == (None, None, None)


def test_arrays_have_the_types_that_spark_expects(
    node: NodeProcess, admin: Admin, producer: Producer, topic: str
) -> None:
    create(admin, topic)
    fill(producer, topic, 3)
    reader = batch_reader(node.bootstrap, topic, includeHeaders="true")
    (batch,) = [batch for wanted in reader.partitions() for batch in reader.read(wanted)]
    schema = default_schema(batch_options({**SERVERS, "subscribe": topic, "includeHeaders": "true"}))
    assert isinstance(schema, StructType)
    assert batch.schema.equals(to_arrow_schema(schema, timezone="UTC"))
    batch.validate(full=True)


def test_broker_timestamps_are_distinguished_from_producer_timestamps(
    node: NodeProcess, admin: Admin, producer: Producer, topic: str
) -> None:
    create(admin, topic, message_timestamp_type="LogAppendTime")
    producer.send(topic, b"v", timestamp_ms=5).result()
    (row,) = rows(batch_reader(node.bootstrap, topic))
    assert row["timestampType"] == 1
    assert row["timestamp"].year > 2000


def test_splits_of_a_partition_hold_each_record_once(
    node: NodeProcess, admin: Admin, producer: Producer, topic: str
) -> None:
    create(admin, topic, 2)
    fill(producer, topic, 97)
    fill(producer, topic, 3, partition=1, first=97)
    reader = batch_reader(node.bootstrap, topic, minPartitions="7")
    assert len(reader.partitions()) == 7
    assert values(reader) == numbered(100)


def test_an_answer_in_small_pieces_is_read_whole(
    node: NodeProcess, admin: Admin, producer: Producer, topic: str
) -> None:
    create(admin, topic)
    for first in range(0, 200, 10):
        fill(producer, topic, 10, first=first)
    assert values(batch_reader(node.bootstrap, topic, maxBytesPerBatch="500")) == numbered(200)


def test_rows_come_in_batches_of_bounded_size(
    node: NodeProcess, admin: Admin, producer: Producer, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(admin, topic)
    for first in range(0, 100, 10):
        fill(producer, topic, 10, first=first)
    monkeypatch.setattr(reading, "_MAX_ROWS", 25)
    reader = batch_reader(node.bootstrap, topic)
    sizes = [batch.num_rows for wanted in reader.partitions() for batch in reader.read(wanted)]
    assert sizes == [20, 20, 20, 20, 20]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_are_read(node: NodeProcess, admin: Admin, topic: str, codec: str) -> None:
    create(admin, topic)
    with Producer({"bootstrap.servers": node.bootstrap, "compression.type": codec}) as producer:
        fill(producer, topic, 50)
    assert values(batch_reader(node.bootstrap, topic)) == numbered(50)


def test_only_committed_records_are_read(node: NodeProcess, admin: Admin, topic: str) -> None:
    create(admin, topic)
    with Producer(bootstrap_servers=node.bootstrap, transactional_id=f"{topic}-1") as producer:
        producer.init_transactions()
        for first, commits in ((0, True), (10, False), (20, True)):
            producer.begin_transaction()
            fill(producer, topic, 10, first=first)
            producer.commit_transaction() if commits else producer.abort_transaction()
        producer.begin_transaction()
        fill(producer, topic, 10, first=30)
        reader = batch_reader(node.bootstrap, topic)
        assert values(reader) == numbered(10) + numbered(10, first=20)
        everything = batch_reader(node.bootstrap, topic, isolation="read_uncommitted")
        assert values(everything) == numbered(40)
        producer.abort_transaction()
    # It ends with a marker now, and the records before that are gone.
    assert values(batch_reader(node.bootstrap, topic)) == numbered(10) + numbered(10, first=20)


def test_small_partitions_share_tasks_where_spark_runs_on_this_machine(
    node: NodeProcess, admin: Admin, producer: Producer, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(admin, topic, 5)
    for partition in range(5):
        fill(producer, topic, 3, partition)
    monkeypatch.setenv(CORES_VARIABLE, "2")
    reader = batch_reader(node.bootstrap, topic)
    tasks = reader.partitions()
    assert [task.size for task in tasks] == [9, 6]
    found = [(row["partition"], row["value"]) for row in rows(reader, tasks)]
    assert sorted(found) == [(partition, value) for partition in range(5) for value in numbered(3)]


def test_gaps_at_the_end_of_a_range_are_no_loss(node: NodeProcess, admin: Admin, topic: str) -> None:
    create(admin, topic)
    with Producer(bootstrap_servers=node.bootstrap, transactional_id=f"{topic}-1") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        fill(producer, topic, 5)
        producer.abort_transaction()
    until_ended(admin, f"{topic}-1")
    reader = batch_reader(node.bootstrap, topic, minPartitions="3")
    assert sum(wanted.size for wanted in reader.partitions()) == 6
    assert values(reader) == []


def test_records_that_retention_took_are_reported_with_both_offsets(
    node: NodeProcess, admin: Admin, producer: Producer, topic: str
) -> None:
    create(admin, topic)
    fill(producer, topic, 20)
    admin.delete_records({TopicPartition(topic, 0): 12})
    lost = [task_of(topic, 5, 20)]
    with pytest.raises(DataLoss, match=f"topic {topic} partition 0: records from offset 5 to 12 were deleted"):
        values(batch_reader(node.bootstrap, topic), lost)
    assert values(batch_reader(node.bootstrap, topic, failOnDataLoss="false"), lost) == numbered(8, first=12)


def test_a_log_that_ends_too_early_is_reported_with_both_offsets(
    node: NodeProcess, admin: Admin, producer: Producer, topic: str
) -> None:
    create(admin, topic)
    fill(producer, topic, 3)
    lost = [task_of(topic, 10, 20)]
    with pytest.raises(DataLoss, match=f"{topic} partition 0: it ends at offset 3, but offset 10 was already read"):
        values(batch_reader(node.bootstrap, topic), lost)
    assert values(batch_reader(node.bootstrap, topic, failOnDataLoss="false"), lost) == []


def test_a_range_that_stays_unread_is_an_error_after_the_poll_timeout(
    node: NodeProcess, admin: Admin, producer: Producer, topic: str
) -> None:
    create(admin, topic)
    fill(producer, topic, 3)
    beyond = [task_of(topic, 3, 4)]
    with pytest.raises(CannotRead, match="nothing came from offset 3 on within 1 ms"):
        values(batch_reader(node.bootstrap, topic, kafkaConsumer__pollTimeoutMs="1"), beyond)


def test_a_read_respects_its_bounds(node: NodeProcess, admin: Admin, producer: Producer, topic: str) -> None:
    create(admin, topic)
    fill(producer, topic, 10)
    edges = {"startingOffsets": f'{{"{topic}":{{"0":3}}}}', "endingOffsets": f'{{"{topic}":{{"0":7}}}}'}
    assert values(batch_reader(node.bootstrap, topic, **edges)) == numbered(4, first=3)


@pytest.mark.parametrize("edge", ["starting", "ending"])
def test_a_missing_offset_fails_when_it_is_planned(
    node: NodeProcess, admin: Admin, producer: Producer, topic: str, edge: str
) -> None:
    create(admin, topic)
    fill(producer, topic, 10)
    beyond = {f"{edge}Offsets": f'{{"{topic}":{{"0":11}}}}'}
    with pytest.raises(DataLoss, match=f"{edge}Offsets has offset 11 of topic {topic} partition 0, .* from 0 to 10"):
        batch_reader(node.bootstrap, topic, **beyond).partitions()
    lenient = batch_reader(node.bootstrap, topic, failOnDataLoss="false", **beyond)
    assert values(lenient) == (numbered(10) if edge == "ending" else [])


def test_offsets_that_end_before_they_begin_are_a_mistake(
    node: NodeProcess, admin: Admin, producer: Producer, topic: str
) -> None:
    create(admin, topic)
    fill(producer, topic, 10)
    edges = {"startingOffsets": f'{{"{topic}":{{"0":7}}}}', "endingOffsets": f'{{"{topic}":{{"0":3}}}}'}
    with pytest.raises(
        CannotRead, match=f"startingOffsets has offset 7 of {topic}-0, which is after 3 of endingOffsets"
    ):
        batch_reader(node.bootstrap, topic, **edges).partitions()


def test_times_become_offsets(node: NodeProcess, admin: Admin, producer: Producer, topic: str) -> None:
    create(admin, topic)
    for time_ms in (1_000, 2_000, 3_000, 4_000):
        producer.send(topic, b"%d" % time_ms, timestamp_ms=time_ms).result()
    between = batch_reader(node.bootstrap, topic, startingTimestamp="1500", endingTimestamp="3500")
    assert values(between) == [b"2000", b"3000"]
    by_partition = batch_reader(node.bootstrap, topic, startingOffsetsByTimestamp=f'{{"{topic}":{{"0":3000}}}}')
    assert values(by_partition) == [b"3000", b"4000"]
    to_the_end = batch_reader(node.bootstrap, topic, endingTimestamp="9000")
    assert len(values(to_the_end)) == 4


def test_a_time_after_all_records_is_an_error_or_the_end_by_strategy(
    node: NodeProcess, admin: Admin, producer: Producer, topic: str
) -> None:
    create(admin, topic)
    producer.send(topic, b"v", timestamp_ms=1_000).result()
    with pytest.raises(CannotRead, match=f"startingTimestamp: no record of {topic}-0 is of 5000 or later"):
        batch_reader(node.bootstrap, topic, startingTimestamp="5000").partitions()
    strategy = {"startingTimestamp": "5000", "startingOffsetsByTimestampStrategy": "latest"}
    assert values(batch_reader(node.bootstrap, topic, **strategy)) == []


def test_topics_are_found_by_a_pattern_that_matches_anywhere_in_their_name(
    node: NodeProcess, admin: Admin, producer: Producer, topic: str
) -> None:
    for name in (f"{topic}-a", f"{topic}-b", f"{topic}-ab"):
        create(admin, name)
        producer.send(name, name.encode()).result()
    reader = batch_reader(node.bootstrap, None, subscribePattern=f"{topic[1:]}-a")
    assert sorted(values(reader), key=str) == [f"{topic}-a".encode(), f"{topic}-ab".encode()]
    reader = batch_reader(node.bootstrap, None, subscribePattern=f"^{topic}-.$")
    assert sorted(values(reader), key=str) == [f"{topic}-a".encode(), f"{topic}-b".encode()]


def test_a_missing_topic_and_a_wrong_address_are_one_sentence(node: NodeProcess, topic: str) -> None:
    with pytest.raises(
        CannotRead, match=f"^topic {topic} does not exist or cannot be read; create it, or check the name$"
    ):
        batch_reader(node.bootstrap, topic).partitions()
    with pytest.raises(Exception, match=r"Connection refused; check kafka\.bootstrap\.servers"):
        batch_reader("127.0.0.1:1", topic).partitions()


def test_a_filter_on_time_narrows_the_range(node: NodeProcess, admin: Admin, producer: Producer, topic: str) -> None:
    create(admin, topic, 2)
    for time_s in (1, 2, 3):
        producer.send(topic, b"%d" % time_s, partition=0, timestamp_ms=time_s * 1000).result()
    producer.send(topic, b"old", partition=1, timestamp_ms=500).result()
    reader = batch_reader(node.bootstrap, topic)
    filters: list[Filter] = [GreaterThanOrEqual(("timestamp",), datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC))]
    assert list(reader.pushFilters(filters)) == filters
    assert reader.partitions() == [task_of(topic, 1, 3)]


def test_spark_accepts_the_reader_without_pushdown(node: NodeProcess, topic: str) -> None:
    reader = batch_reader(node.bootstrap, topic)
    assert getattr(reader.pushFilters, "__func__", None) is DataSourceReader.pushFilters


def test_a_task_without_a_range_reads_nothing(node: NodeProcess, topic: str) -> None:
    assert list(batch_reader(node.bootstrap, topic).read(InputPartition(None))) == []


JSON_SCHEMA = (
    StructType()
    .add("id", LongType())
    .add("_offset", LongType())
    .add("_corrupt_record", StringType())
    .add("_key", "binary")
)


def fill_json(admin: Admin, producer: Producer, topic: str) -> None:
    create(admin, topic)
    for value in (b'{"id":1}', b"nonsense", None, b'{"id":4}'):
        producer.send(topic, value, key=b"k")
    producer.flush()


def test_json_values_become_columns_beside_those_of_the_record(
    node: NodeProcess, admin: Admin, producer: Producer, topic: str
) -> None:
    fill_json(admin, producer, topic)
    assert rows(batch_reader(node.bootstrap, topic, JSON_SCHEMA, valueFormat="json")) == [
        {"id": 1, "_offset": 0, "_corrupt_record": None, "_key": b"k"},
        {"id": None, "_offset": 1, "_corrupt_record": "nonsense", "_key": b"k"},
        {"id": None, "_offset": 2, "_corrupt_record": None, "_key": b"k"},
        {"id": 4, "_offset": 3, "_corrupt_record": None, "_key": b"k"},
    ]


def test_malformed_values_are_dropped_or_fail_by_mode(
    node: NodeProcess, admin: Admin, producer: Producer, topic: str
) -> None:
    fill_json(admin, producer, topic)
    dropping = batch_reader(node.bootstrap, topic, JSON_SCHEMA, valueFormat="json", mode="dropMalformed")
    assert [row["_offset"] for row in rows(dropping)] == [0, 2, 3]
    failing = batch_reader(node.bootstrap, topic, JSON_SCHEMA, valueFormat="json", mode="FAILFAST")
    with pytest.raises(CannotRead, match=f"{topic}-0: the value at offset 1 is not a JSON object"):
        rows(failing)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (StructType().add("id", MapType(StringType(), StringType())), "column id has the type map<string,string>"),
        (StructType().add("id", LongType(), nullable=False), "column id is declared as never null"),
        (StructType().add("_offset", StringType()), "column _offset is bigint, not string"),
    ],
)
def test_a_schema_that_values_cannot_have_is_refused(topic: str, schema: StructType, said: str) -> None:
    with pytest.raises(BadOption, match=said):
        batch_reader("localhost:9092", topic, schema, valueFormat="json")


def test_without_a_value_format_only_the_connectors_columns_can_be_requested(topic: str) -> None:
    with pytest.raises(BadOption, match="a topic has no column id"):
        batch_reader("localhost:9092", topic, StructType().add("id", LongType()))


def test_a_schema_in_text_gets_the_records_own_columns_beside_it() -> None:
    given = {**SERVERS, "subscribe": "t", "valueFormat": "json"}
    text = default_schema(batch_options({**given, "valueSchema": "id BIGINT", "metadataColumns": "_key,_timestamp"}))
    assert text == "id BIGINT, _key binary, _timestamp timestamp"


def test_memory_of_a_task_stays_flat_over_many_fetches(
    node: NodeProcess, admin: Admin, producer: Producer, topic: str
) -> None:
    create(admin, topic)
    table = pa.table({"value": pa.array([bytes(1_000)] * 1_000)})
    for _ in range(40):
        producer.send_arrow(table, topic)
    producer.flush()
    reader = batch_reader(node.bootstrap, topic, maxBytesPerBatch="1000000")
    (wanted,) = reader.partitions()
    alive = []
    for batch in reader.read(wanted):
        alive.append(weakref.ref(batch))
        assert sum(each() is not None for each in alive) <= 2
    assert len(alive) >= 40
