"""The sink against Spark's own Kafka connector: both write the same rows, each to its own topic."""

import pytest

from cordwood import Admin
from tests.foreign_clients.node_process import NodeProcess
from tests.spark.connector_fixtures import Both
from tests.spark.sink_topics import committed
from tests.spark.source_reading import create

PARTITIONS = 3
WRITTEN = {"written": True}


@pytest.fixture
def ours(admin: Admin, topic: str) -> str:
    create(admin, f"{topic}-ours", PARTITIONS)
    return f"{topic}-ours"


@pytest.fixture
def theirs(admin: Admin, topic: str) -> str:
    create(admin, f"{topic}-theirs", PARTITIONS)
    return f"{topic}-theirs"


def records(node: NodeProcess, topic: str) -> list[tuple[object, ...]]:
    found = committed(node.bootstrap, topic, PARTITIONS)
    return sorted((each.partition, repr(each.key), repr(each.value), repr(each.headers)) for each in found)


@pytest.mark.parametrize(
    "rows",
    [
        "SELECT cast(id AS string) key, concat('v', id) value FROM range(100)",
        "SELECT cast(cast(id AS string) AS binary) key, cast(concat('v', id) AS binary) value FROM range(100)",
        "SELECT 'v' value, cast(id % 3 AS int) partition FROM range(10)",
        "SELECT cast(id AS string) key, 'v' value, cast(if(id % 2 = 0, 1, null) AS int) partition FROM range(20)",
        "SELECT cast(null AS string) value, cast(id AS string) key FROM range(3)",
        "SELECT 'k' key, 'v' value, array(named_struct('key', 'h', 'value', cast('1' AS binary))) headers",
        "SELECT 'k' key, 'v' value, cast(null AS array<struct<key: string, value: binary>>) headers",
        "SELECT 'k' key, 'v' value, 1 another",
    ],
)
def test_rows_become_the_records_that_the_connector_writes(
    both: Both, node: NodeProcess, ours: str, theirs: str, rows: str
) -> None:
    assert both.write(rows, {"topic": ours}, {"topic": theirs}) == (WRITTEN, WRITTEN)
    assert records(node, ours) == records(node, theirs) != []


def test_the_option_topic_goes_before_the_column_as_in_the_connector(
    both: Both, node: NodeProcess, ours: str, theirs: str
) -> None:
    rows = "SELECT 'k' key, 'v' value, 'elsewhere' topic"
    assert both.write(rows, {"topic": ours}, {"topic": theirs}) == (WRITTEN, WRITTEN)
    assert records(node, ours) == records(node, theirs) != []


def test_the_column_topic_says_where_each_row_goes_as_in_the_connector(
    both: Both, node: NodeProcess, admin: Admin, topic: str
) -> None:
    names = [f"{topic}-{number}" for number in range(2)]
    for name in names:
        create(admin, name, PARTITIONS)
    rows = f"SELECT concat('{topic}-', id % 2) topic, cast(id AS string) key, 'v' value FROM range(10)"
    assert both.write(rows, {}, {}) == (WRITTEN, WRITTEN)
    for name in names:
        found = records(node, name)
        # Each of both has written them all.
        assert len(found) == 10
        assert found[::2] == found[1::2]


@pytest.mark.parametrize(
    ("rows", "has_topic"),
    [
        ("SELECT 'k' key", True),
        ("SELECT 1 value", True),
        ("SELECT 'v' value, 1 key", True),
        ("SELECT 'v' value, 'p' partition", True),
        ("SELECT 'v' value, array('h') headers", True),
        ("SELECT 'v' value", False),
        ("SELECT 'v' value, 1 topic", False),
        ("SELECT 'v' value, cast(null AS string) topic", False),
    ],
)
def test_rows_that_the_connector_refuses_are_refused(
    both: Both, ours: str, theirs: str, rows: str, has_topic: bool
) -> None:
    ours_said, theirs_said = both.write(
        rows, {"topic": ours} if has_topic else {}, {"topic": theirs} if has_topic else {}
    )
    assert "refused" in theirs_said
    assert "refused" in ours_said


@pytest.mark.parametrize("name", ["kafka.key.serializer", "kafka.value.serializer"])
def test_settings_that_the_connector_refuses_are_refused(both: Both, ours: str, theirs: str, name: str) -> None:
    said = both.write("SELECT 'v' value", {"topic": ours, name: "a.b.C"}, {"topic": theirs, name: "a.b.C"})
    assert ["refused" in each for each in said] == [True, True]
