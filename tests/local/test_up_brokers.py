"""`cordwood up --brokers 3`: one command, several processes."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cordwood.local.folder import BadFolder, ClusterFolder
from cordwood.local.layout import Layout
from cordwood.registry import RegistryClient
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


def test_a_ready_cluster_is_one_line_of_json(tmp_path: Path) -> None:
    data = str(tmp_path / "cluster")
    with up("--brokers", "2", "--controllers", "1", "--port", "0", "--data", data, "--json") as cluster:
        ready = json.loads(cluster.await_line("{")[0])
        nodes = ready["nodes"]
        assert [node["roles"] for node in nodes].count("broker") == 2
        assert [node["roles"] for node in nodes].count("controller") == 1
        assert ready["bootstrap"].split(",") == [node["clients"] for node in nodes if node["clients"]]
        assert all(is_alive(node["pid"]) for node in nodes)
        assert ready["data"] == [data]
        assert cluster.end() == 0
        assert len([line for line in cluster.lines if line]) == 1


def test_a_ready_node_is_one_line_of_json() -> None:
    with up("--port", "0", "--ephemeral", "--metrics-port", "0", "--json") as node:
        ready = json.loads(node.await_line("{")[0])
        assert ready["metrics"].startswith("http://")
        assert ready["registries"] == []
        assert described(ready["bootstrap"])["clusterId"]


def test_each_broker_has_a_schema_registry_that_outlives_it() -> None:
    with up(*THREE, "--ephemeral", "--registry-port", "0") as cluster:
        urls = cluster.await_line("is ready")[0].rpartition("schema registries at ")[2].strip().split(",")
        assert len(set(urls)) == 3
        client = RegistryClient(",".join(urls))
        first = client.register("orders-value", '"int"')
        # Schemas written by one registry are returned by the others after the next write.
        for url in urls:
            assert RegistryClient(url).register("orders-value", '"long"').version == 2
            assert RegistryClient(url).version("orders-value", 1).id == first.id
        killed = pids(cluster)[2]
        os.kill(killed, signal.SIGKILL)
        await_end(killed)
        assert client.register("orders-value", '"double"').version == 3
        assert cluster.end() == 0


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
            told = "".join(cluster.errors)
    assert told.startswith(f"cordwood up: cannot listen on 127.0.0.1:{port}: Address already in use\nIs another node")
    assert not (tmp_path / "cluster").exists(), "the next start may ask for other ports"


def test_what_a_failed_start_of_one_node_leaves_does_not_keep_a_cluster_out(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    assert len(ClusterFolder.open_or_create(tmp_path, Layout(3), first_port=0).members) == 3


def test_a_node_that_has_lost_its_data_is_named_with_what_makes_it_begin_anew(tmp_path: Path) -> None:
    folder = ClusterFolder.open_or_create(tmp_path, Layout(3), first_port=0)
    lost = folder.members[1]
    shutil.rmtree(folder.data(lost))
    folder.data(lost).mkdir()
    (folder.data(lost) / ".lock").touch()
    with pytest.raises(BadFolder) as refused:
        ClusterFolder.open_or_create(tmp_path, Layout(3))
    assert str(refused.value).startswith(f"there is no data in {folder.data(lost)}, and there was.")
    command = shlex.split(str(refused.value).splitlines()[-1])
    subprocess.run([sys.executable, "-m", *command], check=True, stdout=subprocess.PIPE)
    ClusterFolder.open_or_create(tmp_path, Layout(3))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--host", "no.such.host.invalid"), "cannot listen on no.such.host.invalid:0"),
        (("--host", "0.0.0.0"), "--host '0.0.0.0' is not for --brokers"),
        (("--host", ""), "--host '' is not for --brokers"),
        (("--port", "65500"), "would need ports up to 65602"),
        (("--brokers", "101"), "more than 100 nodes of a kind"),
    ],
)
def test_a_bind_error_of_a_cluster_is_one_line(arguments: tuple[str, ...], told: str) -> None:
    with up(*THREE, "--ephemeral", *arguments) as cluster:
        assert cluster.process.wait(PATIENCE_S) == 2
        cluster.end()
        assert cluster.errors[0].startswith("cordwood up: ")
        assert told in cluster.errors[0]
        assert "Traceback" not in "".join(cluster.errors)


def test_a_cluster_that_is_there_keeps_its_host_and_ports(tmp_path: Path) -> None:
    data = str(tmp_path / "cluster")
    with up("--brokers", "1", "--port", "0", "--host", "::1", "--data", data) as cluster:
        where = bootstrap(cluster)
        assert where.startswith("[::1]:")
        assert described(where)["clusterId"]
        assert cluster.end() == 0
    for option in (("--port", "1"), ("--host", "localhost")):
        with up("--brokers", "1", *option, "--data", data) as other:
            assert other.process.wait(PATIENCE_S) == 2
            other.end()
            assert f"holds a cluster that listens on {where} and other ports" in "".join(other.errors)
    with up("--brokers", "1", "--data", data) as again:
        assert bootstrap(again) == where
        assert again.end() == 0


def test_one_node_does_not_take_the_folder_of_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "node-1").mkdir()
    (tmp_path / "node-1" / "server.properties").write_text("node.id=1\n")
    with up("--data", str(tmp_path), "--port", "0") as single:
        assert single.process.wait(PATIENCE_S) == 2
        single.end()
        assert "holds a cluster: start it with --brokers" in "".join(single.errors)


@pytest.mark.parametrize("arguments", [("--port", "0"), THREE], ids=["node", "cluster"])
def test_a_closed_terminal_stops_nodes_and_removes_temporary_data(arguments: tuple[str, ...]) -> None:
    with up(*arguments, "--ephemeral") as process:
        data = Path(process.await_line("is ready")[0].rpartition("data in ")[2].strip())
        assert data.is_dir()
        assert process.end(signal.SIGHUP) == 0
        assert not data.exists()
        assert process.errors == [""]


def test_a_node_that_was_told_to_ignore_hangups_continues() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = UpProcess("--port", "0", "--ephemeral")
    finally:
        signal.signal(signal.SIGHUP, before)
    try:
        where = bootstrap(process)
        process.process.send_signal(signal.SIGHUP)
        assert described(where)["clusterId"]
        assert process.end() == 0
    finally:
        process.end(signal.SIGKILL)
