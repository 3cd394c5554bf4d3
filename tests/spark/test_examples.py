"""The examples of pipelines do what they say."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from cordwood.spark.pipelines.pipeline_file import load_pipeline
from cordwood.spark.sessions import session_settings
from tests.foreign_clients.node_process import NodeProcess
from tests.spark.topic_records import Sent, consumed, produce, topics

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "spark"

ATTEMPTS = 5

Run = Callable[..., None]

# Tests the parts of pandas that the examples use.
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


@pytest.fixture(autouse=True)
def _settings_of_pipelines(spark: SparkSession) -> Iterator[None]:
    """As `cordwood pipeline run` has them, as far as a session can still be given them."""
    own = {name: value for name, value in session_settings().items() if name.startswith("spark.sql.streaming.")}
    before = {name: spark.conf.get(name, None) for name in own}
    for name, value in own.items():
        spark.conf.set(name, value)
    yield
    for name, earlier in before.items():
        if earlier is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, earlier)


@pytest.fixture
def run(spark: SparkSession, node: NodeProcess, tmp_path: Path) -> Run:
    """Runs an example until it has read all there is. Called again, it continues from there."""

    def run_example(name: str, **arguments: str) -> None:
        pipeline = load_pipeline(EXAMPLES / name)
        for _ in range(ATTEMPTS):
            query: Any = pipeline(spark, bootstrap=node.bootstrap, checkpoint=str(tmp_path / "checkpoint"), **arguments)
            try:
                query.processAllAvailable()
            except StreamingQueryException as error:
                # Spark gives Python ten seconds to start, and a busy machine may need more.
                if "failed to connect back" not in str(error):
                    raise
            else:
                return
            finally:
                query.stop()
        raise AssertionError(f"Python was not started in time, {ATTEMPTS} times")

    return run_example


def test_windows_of_an_hour_are_counted_by_the_orders_own_time(node: NodeProcess, run: Run, topic: str) -> None:
    source, target = topics(node, topic, "orders", "totals")
    orders = [order(1, "10:05", 20), order(2, "10:55", 30), order(3, "11:10", 5), order(4, "14:00", 1)]
    # One that is not in order, and one that is none.
    produce(node, source, [orders[0], orders[2], orders[1], Sent(b"two candles, please"), orders[3]])
    run("order_windows.py", source=source, target=target)
    totals = [json.loads(record.value or b"") for record in consumed(node, target)]
    assert sorted((total["start"][11:16], total["orders"], total["amount"]) for total in totals) == [
        ("10:00", 2, 50),
        ("11:00", 1, 5),
    ]


def test_orders_within_half_an_hour_are_one_visit(node: NodeProcess, run: Run, topic: str) -> None:
    source, target = topics(node, topic, "orders", "visits")
    produce(node, source, [order(1, "10:00", 20), order(2, "10:20", 30), order(3, "11:30", 5)])
    produce(node, source, [order(4, "16:00", 1, customer="late")])
    run("customer_sessions.py", source=source, target=target)
    visits = [json.loads(record.value or b"") for record in consumed(node, target)]
    assert sorted(
        (visit["begin"][11:16], visit["end"][11:16], visit["orders"], visit["amount"]) for visit in visits
    ) == [
        ("10:00", "10:20", 2, 50),
        ("11:30", "11:30", 1, 5),
    ]


def test_orders_get_the_city_that_their_customer_has_by_then(node: NodeProcess, run: Run, topic: str) -> None:
    source, table, target = topics(node, topic, "orders", "customers", "enriched")
    produce(node, table, [Sent(b'{"city": "Oslo"}', b"ann"), Sent(b'{"city": "Graz"}', b"bob")])
    produce(node, source, [order(1, "10:00", 1, customer="ann"), order(2, "10:00", 1, customer="bob")])
    run("enrichment.py", source=source, table=table, target=target)
    produce(node, table, [Sent(b'{"city": "Riga"}', b"ann"), Sent(None, b"bob")])
    produce(node, source, [order(3, "10:00", 1, customer="ann"), order(4, "10:00", 1, customer="bob")])
    run("enrichment.py", source=source, table=table, target=target)
    enriched = [json.loads(record.value or b"") for record in consumed(node, target)]
    assert {row["order"]: row.get("city") for row in enriched} == {1: "Oslo", 2: "Graz", 3: "Riga", 4: None}
    assert len(enriched) == 4


def test_orders_are_joined_with_payments_or_reported_as_unpaid(node: NodeProcess, run: Run, topic: str) -> None:
    orders, payments, target = topics(node, topic, "orders", "payments", "joined")
    produce(node, orders, [order(1, "10:00", 20), order(2, "10:01", 30), order(9, "20:00", 1)])
    produce(node, payments, [payment(1, "10:30", 20), payment(2, "11:45", 30), payment(8, "20:00", 1)])
    run("stream_join.py", orders=orders, payments=payments, target=target)
    joined = [json.loads(record.value or b"") for record in consumed(node, target)]
    # The second was paid too late; whether the last will be is not known yet.
    assert sorted((row["order"], row["paid"]) for row in joined) == [(1, 20), (2, 0)]


def test_a_duplicate_order_is_forwarded_once(node: NodeProcess, run: Run, topic: str) -> None:
    source, target = topics(node, topic, "orders", "once")
    produce(node, source, [order(1, "10:00", 20), order(2, "10:01", 30), order(1, "10:00", 20)])
    run("deduplication.py", source=source, target=target)
    produce(node, source, [order(2, "10:01", 30), order(3, "10:02", 5)])
    run("deduplication.py", source=source, target=target)
    assert sorted(json.loads(record.value or b"")["order"] for record in consumed(node, target)) == [1, 2, 3]


def test_invalid_orders_go_to_the_dead_letter_topic_unchanged(node: NodeProcess, run: Run, topic: str) -> None:
    source, good, bad = topics(node, topic, "orders", "good", "bad")
    letters = [Sent(b"two candles, please", b"ann"), Sent(b'{"order": 2}', b"bob"), Sent(b'{"amount": 3}', b"cid")]
    produce(node, source, [order(1, "10:00", 20), *letters])
    run("dead_letters.py", source=source, good=good, bad=bad)
    assert [json.loads(record.value or b"")["order"] for record in consumed(node, good)] == [1]
    assert sorted((record.key, record.value, dict(record.headers)) for record in consumed(node, bad)) == [
        (b"ann", b"two candles, please", {"reason": b"no JSON of an order", "source": f"{source}/0/1".encode()}),
        (b"bob", b'{"order": 2}', {"reason": b"no amount", "source": f"{source}/0/2".encode()}),
        (b"cid", b'{"amount": 3}', {"reason": b"no order number", "source": f"{source}/0/3".encode()}),
    ]


def test_a_topic_becomes_a_table_of_files(
    spark: SparkSession, node: NodeProcess, run: Run, topic: str, tmp_path: Path
) -> None:
    (source,) = topics(node, topic, "orders")
    for number in (1, 2):
        produce(node, source, [order(number, "10:00", 20)])
        run("topic_to_table.py", source=source, table=str(tmp_path / "table"))
    rows = spark.read.parquet(str(tmp_path / "table")).orderBy("order").collect()
    assert [(row.order, row.amount, str(row.day)) for row in rows] == [(1, 20, "2026-01-01"), (2, 20, "2026-01-01")]


def test_files_become_a_topic(node: NodeProcess, run: Run, topic: str, tmp_path: Path) -> None:
    (target,) = topics(node, topic, "from-files")
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    for number in (1, 2):
        (inbox / f"{number}.json").write_text(f'{{"order": {number}, "customer": "ann", "amount": 20}}\n')
        run("files_to_topic.py", folder=str(inbox), target=target)
    records = consumed(node, target)
    assert [(record.key, json.loads(record.value or b"")["order"]) for record in records] == [(b"ann", 1), (b"ann", 2)]


def order(number: int, at: str, amount: int, *, customer: str = "ann") -> Sent:
    fields = {"order": number, "customer": customer, "item": "candles", "amount": amount, "placed_at": time(at)}
    return Sent(json.dumps(fields).encode(), customer.encode())


def payment(number: int, at: str, paid: int) -> Sent:
    return Sent(json.dumps({"order": number, "paid": paid, "paid_at": time(at)}).encode(), str(number).encode())


def time(of_day: str) -> str:
    return f"2026-01-01T{of_day}:00Z"
