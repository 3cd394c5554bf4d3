"""The source against Spark's own Kafka connector, on the same topics of the same node."""

import json
from pathlib import Path

import pytest

from cordwood import Admin, NewTopic, Producer, TopicPartition
from tests.foreign_clients.node_process import NodeProcess
from tests.spark.connector_fixtures import Both
from tests.spark.connector_program import Told
from tests.spark.source_reading import create

T0_MS = 1_700_000_000_000


def same(ours_and_theirs: tuple[Told, Told]) -> Told:
    """The common result of both, which must not be an error."""
    ours, theirs = ours_and_theirs
    assert "refused" not in ours, ours["refused"]
    assert "refused" not in theirs, theirs["refused"]
    # A range without records is a task of the connector's, and none here.
    assert {**ours, "tasks": None} == {**theirs, "tasks": None}
    return ours


def values(rows: list[Told]) -> list[str]:
    return [bytes.fromhex(row["value"]).decode() for row in rows]


@pytest.fixture
def numbered(admin: Admin, producer: Producer, topic: str) -> str:
    """A topic of two partitions with ten records each, a second apart."""
    create(admin, topic, 2)
    for number in range(20):
        producer.send(topic, f"v{number}", partition=number % 2, timestamp_ms=T0_MS + 1_000 * (number // 2))
    producer.flush()
    return topic


def test_columns_have_the_connectors_names_types_and_order(both: Both, numbered: str) -> None:
    told = same(both.read({"subscribe": numbered}))
    assert [field["name"] for field in told["schema"]["fields"]] == [
        *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType"),
    ]


def test_headers_have_the_connectors_type(both: Both, numbered: str) -> None:
    told = same(both.read({"subscribe": numbered, "includeHeaders": "true"}))
    assert told["schema"]["fields"][-1]["name"] == "headers"


def test_values_are_the_connectors(both: Both, admin: Admin, producer: Producer, topic: str) -> None:
    create(admin, topic)
    producer.send(topic, b"v", key=b"k", timestamp_ms=T0_MS + 123)
    producer.send(topic, None, key=b"tombstone", timestamp_ms=T0_MS)
    producer.send(topic, b"", key=b"", timestamp_ms=0)
    producer.send(topic, bytes(range(256)), timestamp_ms=T0_MS)
    producer.flush()
    told = same(both.read({"subscribe": topic}))
    assert [row["key"] for row in told["rows"]] == [b"k".hex(), b"tombstone".hex(), "", None]
    assert [row["value"] for row in told["rows"]] == [b"v".hex(), None, "", bytes(range(256)).hex()]


def test_headers_are_the_connectors(both: Both, admin: Admin, producer: Producer, topic: str) -> None:
    create(admin, topic)
    producer.send(topic, b"none")
    producer.send(topic, b"some", headers=[("a", b"1"), ("a", b"2"), ("ä", b""), ("null", None)])
    producer.flush()
    told = same(both.read({"subscribe": topic, "includeHeaders": "true"}))
    assert [row["headers"] is None for row in told["rows"]] == [True, False]


def test_log_append_time_is_reported_as_by_the_connector(
    both: Both, admin: Admin, producer: Producer, topic: str
) -> None:
    admin.create_topics([NewTopic(topic, 1, configs={"message.timestamp.type": "LogAppendTime"})])
    producer.send(topic, b"v", timestamp_ms=T0_MS)
    producer.flush()
    told = same(both.read({"subscribe": topic}))
    assert [row["timestampType"] for row in told["rows"]] == [1]


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 20),
        ({"startingOffsets": "earliest", "endingOffsets": "latest"}, 20),
        ({"startingOffsets": '{"T": {"0": 3, "1": -2}}', "endingOffsets": '{"T": {"0": -1, "1": 5}}'}, 12),
        ({"startingTimestamp": str(T0_MS + 3_000)}, 14),
        ({"startingTimestamp": str(T0_MS + 2_500), "endingTimestamp": str(T0_MS + 4_000)}, 2),
        ({"endingTimestamp": str(T0_MS + 90_000)}, 20),
        ({"startingOffsetsByTimestamp": f'{{"T": {{"0": {T0_MS + 9_000}, "1": {T0_MS}}}}}'}, 11),
        ({"endingOffsetsByTimestamp": f'{{"T": {{"0": {T0_MS + 1_000}, "1": {T0_MS}}}}}'}, 1),
        ({"startingTimestamp": str(T0_MS + 90_000), "startingOffsetsByTimestampStrategy": "latest"}, 0),
        ({"startingTimestamp": str(T0_MS + 5_000), "startingOffsets": "earliest"}, 10),
    ],
    ids=lambda value: None if isinstance(value, int) else "-".join(value) or "nothing",
)
def test_a_batch_read_begins_and_ends_where_the_connectors_does(
    both: Both, numbered: str, options: dict[str, str], count: int
) -> None:
    chosen = {name: value.replace('"T"', f'"{numbered}"') for name, value in options.items()}
    assert len(same(both.read({"subscribe": numbered, **chosen}))["rows"]) == count


def test_topics_are_chosen_as_by_the_connector(both: Both, admin: Admin, producer: Producer, topic: str) -> None:
    names = [f"{topic}-a", f"{topic}-b", f"{topic}-bb"]
    for name in names:
        create(admin, name, 2)
        producer.send(name, name, partition=1)
    producer.flush()
    assert values(same(both.read({"subscribe": f"{names[0]}, {names[2]}"}))["rows"]) == [names[0], names[2]]
    assert values(same(both.read({"subscribePattern": f"{topic}-b"}))["rows"]) == names[1:]
    assert values(same(both.read({"subscribePattern": f"^{topic}-[ab]$"}))["rows"]) == names[:2]
    assigned = json.dumps({names[0]: [0], names[1]: [0, 1]})
    assert values(same(both.read({"assign": assigned}))["rows"]) == [names[1]]


@pytest.mark.parametrize(("options", "tasks"), [({}, 2), ({"minPartitions": "7"}, 8), ({"minPartitions": "1"}, 2)])
def test_partitions_are_split_into_as_many_tasks_as_by_the_connector(
    both: Both, numbered: str, options: dict[str, str], tasks: int
) -> None:
    ours, theirs = both.read({"subscribe": numbered, **options})
    assert ours == theirs
    assert ours["tasks"] == tasks


def test_a_streams_batches_contain_what_the_connectors_contain(both: Both, numbered: str) -> None:
    told = same(both.read_stream({"subscribe": numbered, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "6"}))
    assert [len(rows) for rows in told["batches"]] == [6, 6, 6, 2]
    assert told["end"] == {numbered: {"0": 10, "1": 10}}


def test_a_limit_is_shared_by_partitions_as_by_the_connector(
    both: Both, admin: Admin, producer: Producer, topic: str
) -> None:
    create(admin, topic, 3)
    for partition, count in enumerate((1, 10, 40)):
        for _ in range(count):
            producer.send(topic, b"v", partition=partition)
    producer.flush()
    same(both.read_stream({"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "17"}))


def test_committed_records_are_those_of_the_connector(both: Both, node: NodeProcess, admin: Admin, topic: str) -> None:
    create(admin, topic)
    with Producer(bootstrap_servers=node.bootstrap, transactional_id=topic) as producer:
        producer.init_transactions()
        for is_committed in (True, False, True):
            producer.begin_transaction()
            producer.send(topic, f"committed {is_committed}").result()
            producer.commit_transaction() if is_committed else producer.abort_transaction()
    chosen = {"subscribe": topic, "kafka.isolation.level": "read_committed"}
    assert values(same(both.read(chosen))["rows"]) == ["committed True"] * 2
    told = same(both.read({**chosen, "kafka.isolation.level": "read_uncommitted"}))
    assert values(told["rows"]) == ["committed True", "committed False", "committed True"]


def test_records_deleted_by_retention_are_skipped_as_by_the_connector(both: Both, admin: Admin, numbered: str) -> None:
    admin.delete_records({TopicPartition(numbered, 0): 4})
    assert len(same(both.read({"subscribe": numbered}))["rows"]) == 16
    told = same(both.read_stream({"subscribe": numbered, "startingOffsets": "earliest"}))
    assert sum(map(len, told["batches"])) == 16


def test_a_query_resumes_from_a_checkpoint_of_the_connector(
    both: Both, producer: Producer, numbered: str, tmp_path: Path
) -> None:
    options = {"subscribe": numbered, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "8"}
    theirs = both.their_stream(options, str(tmp_path))
    assert sum(map(len, theirs["batches"])) == 20
    producer.send(numbered, "new", partition=1)
    producer.flush()
    ours = both.our_stream(options, str(tmp_path))
    assert [values(rows) for rows in ours["batches"]] == [["new"]]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"subscribe": "T", "subscribePattern": "T.*"},
        {"subscribe": ""},
        {"assign": "nonsense"},
        {"subscribe": "T", "startingOffsets": "latest"},
        {"subscribe": "T", "endingOffsets": "earliest"},
        {"subscribe": "T", "startingOffsets": '{"T": {"0": 0}}'},
        {"subscribe": "T", "startingOffsets": '{"T": {"0": -1, "1": 0}}'},
        {"subscribe": "T", "startingTimestamp": str(T0_MS + 90_000)},
        {"subscribe": "T", "kafka.auto.offset.reset": "earliest"},
        {"subscribe": "T", "kafka.key.deserializer": "a.b.C"},
        {"subscribe": "T", "kafka.value.deserializer": "a.b.C"},
        {"subscribe": "T", "kafka.enable.auto.commit": "true"},
        {"subscribe": "T", "kafka.interceptor.classes": "a.b.C"},
        {"subscribe": "T", "minPartitions": "0"},
        {"subscribe": "there-is-no-such-topic"},
    ],
    ids=str,
)
def test_batch_options_that_the_connector_refuses_are_refused(
    both: Both, numbered: str, options: dict[str, str]
) -> None:
    ours, theirs = both.read({name: value.replace("T", numbered) for name, value in options.items()})
    assert "refused" in theirs
    assert "refused" in ours


@pytest.mark.parametrize(
    "options",
    [
        {"endingOffsets": "latest"},
        {"endingOffsetsByTimestamp": '{"T": {"0": 1}}'},
        {"startingOffsets": "nonsense"},
        {"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "5"},
    ],
    ids=str,
)
def test_stream_options_that_the_connector_refuses_are_refused(
    both: Both, numbered: str, options: dict[str, str]
) -> None:
    chosen = {name: value.replace('"T"', f'"{numbered}"') for name, value in options.items()}
    ours, theirs = both.read_stream({"subscribe": numbered, **chosen})
    assert "refused" in theirs
    assert "refused" in ours
