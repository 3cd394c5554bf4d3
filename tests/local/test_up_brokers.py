"""`cordwood up --brokers 3`: one command, several processes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.local.local_nodes import PATIENCE_S, UpProcess, free_ports, is_alive, up

THREE = ("--brokers", "3", "--port", "0")


def pids(cluster: UpProcess) -> dict[int, int]:
    """Node to process id, from the table."""
    rows = [line.split("\t") for line in cluster.await_line("node\t", 3)]
    return {int(row[1]): int(row[-1]) for row in rows}


def bootstrap(cluster: UpProcess) -> str:
    return cluster.await_line("is ready")[0].partition("bootstrap ")[2].partition(", data")[0]


def described(address: str) -> dict[str, object]:
    command = [sys.executable, "-m", "cordwood", "cluster", "describe", "--json", "--bootstrap", address]
    found: dict[str, object] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found


def await_end(pid: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while is_alive(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        os.sched_yield()


def test_a_cluster_resumes_after_a_stop(tmp_path: Path) -> None:
    data = str(tmp_path / "cluster")
    with up(*THREE, "--data", data) as first:
        where = bootstrap(first)
        cluster_id = described(where)["clusterId"]
        nodes = pids(first)
        assert sorted(nodes) == [1, 2, 3]
        assert first.end() == 0
        assert not any(is_alive(pid) for pid in nodes.values())
    with up(*THREE, "--data", data) as second:
        assert bootstrap(second) == where
        again = described(where)
        assert again["clusterId"] == cluster_id
        brokers = again["brokers"]
        assert isinstance(brokers, list)
        assert [(broker["id"], broker["rack"]) for broker in brokers] == [(1, "rack-1"), (2, "rack-2"), (3, "rack-3")]


def test_separate_controllers(tmp_path: Path) -> None:
    with up("--brokers", "1", "--controllers", "3", "--port", "0", "--ephemeral") as cluster:
        where = bootstrap(cluster)
        found = described(where)
        quorum = found["quorum"]
        assert isinstance(quorum, dict)
        roles = {replica["id"]: replica["role"] for replica in quorum["replicas"]}
        assert roles[1] == "observer"
        assert sorted(roles) == [1, 101, 102, 103]
        assert cluster.end() == 0


def test_a_node_that_dies_is_started_again() -> None:
    with up(*THREE, "--ephemeral") as cluster:
        before = pids(cluster)
        os.kill(before[2], signal.SIGKILL)
        cluster.await_line("node 2 (process", in_errors=True)
        assert "ended with signal SIGKILL; starting it again in 1 s" in "".join(cluster.errors)
        assert cluster.end() == 0


def test_no_node_outlives_a_supervisor_that_is_killed() -> None:
    with up(*THREE, "--ephemeral") as cluster:
        nodes = pids(cluster)
        cluster.process.kill()
        for pid in nodes.values():
            await_end(pid)


@pytest.mark.parametrize("arguments", [("--brokers", "2"), ("--brokers", "3", "--controllers", "1")])
def test_data_of_another_layout_is_refused(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    data = str(tmp_path / "cluster")
    with up(*THREE, "--data", data) as cluster:
        bootstrap(cluster)
        cluster.end()
    with up(*arguments, "--port", "0", "--data", data) as other:
        assert other.process.wait(PATIENCE_S) == 2
        other.end()
        assert "was made with --brokers 3: give the same, or another --data" in "".join(other.errors)


def test_a_port_that_is_taken_stops_the_start(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with up("--port", str(port), "--ephemeral") as single:
        single.await_line("is ready")
        with up("--brokers", "3", "--port", str(port), "--data", str(tmp_path / "cluster")) as cluster:
            assert cluster.process.wait(PATIENCE_S) == 2
            cluster.end()
            assert f"node 1: cannot listen on 127.0.0.1:{port}" in "".join(cluster.errors)
