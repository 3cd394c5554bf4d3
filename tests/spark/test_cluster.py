"""Pipelines on a cluster, through Spark Connect, and as Declarative Pipelines: Spark's own servers, all on loopback."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.foreign_clients.node_process import NodeProcess, free_port
from tests.spark.spark_processes import connect_server, spark_environment, standalone_cluster
from tests.spark.topic_records import Sent, consumed, produce, topics

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "spark"


@pytest.fixture
def orders(node: NodeProcess, topic: str) -> tuple[str, str]:
    """A topic with orders of three hours, the last of which is not over, and one for their totals."""
    source, target = topics(node, topic, "orders", "totals")
    times = [f"2026-01-01T{hour}:{minute:02d}:00Z" for hour in (10, 11) for minute in range(60)]
    times.append("2026-01-01T13:00:00Z")
    values = [{"item": "candles", "amount": 2, "placed_at": time} for time in times]
    produce(node, source, [Sent(json.dumps(value).encode()) for value in values])
    return source, target


def run_windows(node: NodeProcess, master: str, orders: tuple[str, str], folder: Path, *more: str) -> None:
    source, target = orders
    command = [sys.executable, "-m", "cordwood", "pipeline", "run", str(EXAMPLES / "order_windows.py")]
    command += ["--bootstrap", node.bootstrap, "--master", master, "--set", f"checkpoint={folder / 'checkpoint'}"]
    command += ["--set", f"source={source}", "--set", f"target={target}", "--set", "available_now=true", *more]
    done = subprocess.run(command, env=spark_environment(folder), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    totals = [json.loads(record.value or b"") for record in consumed(node, target)]
    # Windows come from several tasks, and their order of completion is arbitrary.
    assert sorted((total["start"][11:16], total["orders"]) for total in totals) == [("10:00", 60), ("11:00", 60)]


def test_a_pipeline_runs_on_a_standalone_cluster_with_two_workers(
    node: NodeProcess, orders: tuple[str, str], tmp_path: Path
) -> None:
    with standalone_cluster(tmp_path, workers=2) as (address, master):
        settings = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "1g",
            "spark.executor.memory": "512m",
            # Both workers have to take part.
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.sql.shuffle.partitions": "2",
        }
        run_windows(
            node, address, orders, tmp_path, *(word for pair in settings.items() for word in ("--conf", "=".join(pair)))
        )
        master.until_said(r"Launching executor \S+ on worker (\S+)", times=2)


def test_a_pipeline_runs_through_spark_connect(node: NodeProcess, orders: tuple[str, str], tmp_path: Path) -> None:
    with connect_server(tmp_path, free_port()) as address:
        run_windows(node, address, orders, tmp_path)


def test_a_declarative_pipeline_has_topics_at_both_ends(node: NodeProcess, topic: str, tmp_path: Path) -> None:
    source, target = topics(node, topic, "orders", "large")
    project = tmp_path / "declarative"
    shutil.copytree(EXAMPLES / "declarative", project)
    adapt(project / "spark-pipeline.yml", "file:///tmp/cordwood-large-orders", f"file://{tmp_path}/storage")
    adapt(project / "transformations" / "large_orders.py", '"orders", "large-orders"', f'"{source}", "{target}"')
    amounts = [20, 50, 70]
    produce(node, source, [Sent(json.dumps({"order": amount, "amount": amount}).encode()) for amount in amounts])
    command = [sys.executable, "-m", "cordwood", "pipeline", "run", str(project / "spark-pipeline.yml")]
    command += ["--bootstrap", node.bootstrap, "--master", "local[2]"]
    done = subprocess.run(command, cwd=tmp_path, env=spark_environment(tmp_path), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(json.loads(record.value or b"")["order"] for record in consumed(node, target)) == [50, 70]


def adapt(file: Path, old: str, new: str) -> None:
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
