"""Errors that keep a node of a cluster from starting."""

import signal
from pathlib import Path

import pytest

from tests.local.local_nodes import CLUSTER_ID, PATIENCE_S, ThreeNodes, free_ports, run_cordwood, up


def refusal(*arguments: str) -> str:
    with up(*arguments) as process:
        assert process.process.wait(PATIENCE_S) == 2
        process.end()
        return "".join(process.errors)


def test_an_unformatted_directory_is_not_formatted_and_says_how(tmp_path: Path) -> None:
    nodes = ThreeNodes(tmp_path, is_static=False)
    told = refusal("--config", str(nodes.file(1)))
    assert "data-1 is not formatted" in told
    assert "cordwood format --config FILE --cluster-id ID" in told
    assert "--initial-controllers" in told
    assert not (tmp_path / "data-1" / "meta.properties").exists()


def test_a_node_id_that_is_not_the_directorys(tmp_path: Path) -> None:
    nodes = ThreeNodes(tmp_path, is_static=False)
    nodes.format(1)
    text = nodes.file(1).read_text().replace("node.id=1", "node.id=2")
    nodes.file(1).write_text(text)
    assert "data-1 belongs to node 1, and this node's node.id is 2" in refusal("--config", str(nodes.file(1)))


def test_directories_of_two_clusters(tmp_path: Path) -> None:
    nodes = ThreeNodes(tmp_path, is_static=True)
    nodes.format(1)
    other = tmp_path / "other"
    other.mkdir()
    (other / "meta.properties").write_text("version=1\ncluster.id=another\nnode.id=1\n")
    told = refusal("--config", str(nodes.file(1)), "--set", f"log.dirs={tmp_path / 'data-1'},{other}")
    assert f"is of cluster {CLUSTER_ID}" in told
    assert "is of cluster another" in told


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("process.roles=broker", "must not contain a value appearing in the 'listeners' configuration"),
        ("process.roles=controller", "must only contain KRaft controller listeners"),
        ("listener.security.protocol.map=PLAINTEXT:PLAINTEXT", "No security protocol defined for listener CONTROLLER"),
        ("controller.quorum.voters=2@127.0.0.1:1", "the node id 1 must be included in the set of voters"),
    ],
)
def test_roles_and_listeners_that_do_not_fit(tmp_path: Path, setting: str, told: str) -> None:
    nodes = ThreeNodes(tmp_path, is_static=False)
    assert told in refusal("--config", str(nodes.file(1)), "--set", setting)


def test_port_and_host_are_not_for_nodes_of_a_cluster(tmp_path: Path) -> None:
    nodes = ThreeNodes(tmp_path, is_static=False)
    (port,) = free_ports(1)
    assert "--port and listeners exclude each other" in refusal("--config", str(nodes.file(1)), "--port", str(port))


def test_controllers_that_cannot_be_reached_are_named(tmp_path: Path) -> None:
    nodes = ThreeNodes(tmp_path, is_static=True)
    nodes.format(1)
    with up("--config", str(nodes.file(1))) as alone:
        (line, *_) = alone.await_line("Controllers cannot be reached", in_errors=True)
        assert "controller.quorum.voters" in line


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_start_can_be_called_off(tmp_path: Path, number: signal.Signals) -> None:
    nodes = ThreeNodes(tmp_path, is_static=True)
    nodes.format(1)
    with up("--config", str(nodes.file(1))) as alone:
        alone.await_line("Controllers cannot be reached", in_errors=True)
        assert alone.end(number) == 128 + number
        assert "Traceback" not in "".join(alone.errors)


@pytest.mark.parametrize("is_static", [True, False])
def test_a_node_of_another_cluster_stops_with_advice(tmp_path: Path, is_static: bool) -> None:
    nodes = ThreeNodes(tmp_path, is_static=is_static)
    for node_id in (1, 2, 3):
        nodes.format(node_id)
    meta = tmp_path / "data-3" / "meta.properties"
    meta.write_text(meta.read_text().replace(CLUSTER_ID, "another-cluster-with-id"))
    try:
        nodes.start(1, 2)
        told = refusal("--config", str(nodes.file(3)))
    finally:
        for node_id in (1, 2):
            nodes.kill(node_id)
    assert "this node's cluster.id is another-cluster-with-id, and the controllers at" in told
    assert "cordwood format --config FILE --cluster-id ID" in told


def test_a_broker_with_the_id_of_the_leading_controller_stops_with_a_message(tmp_path: Path) -> None:
    port, taken_port = free_ports(2)
    quorum = {
        "node.id": "1",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{port}",
        "controller.quorum.fetch.timeout.ms": "400",
        "controller.quorum.election.timeout.ms": "200",
        "controller.listener.names": "CONTROLLER",
    }
    controller = quorum | {"process.roles": "controller", "listeners": f"CONTROLLER://127.0.0.1:{port}"}
    broker = quorum | {"process.roles": "broker", "listeners": f"PLAINTEXT://127.0.0.1:{taken_port}"}
    for name, settings, option in (("c", controller, "--standalone"), ("b", broker, None)):
        settings["log.dirs"] = str(tmp_path / name)
        file = tmp_path / f"{name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        options = ["--config", str(file), "--cluster-id", CLUSTER_ID]
        run_cordwood("format", *options, *([option] if option else []))
    with up("--config", str(tmp_path / "c.properties")) as process:
        process.await_line("is ready")
        told = refusal("--config", str(tmp_path / "b.properties"))
    assert f"node.id 1 is in use: the controller at 127.0.0.1:{port} leads the metadata quorum with it" in told
    assert told.count("Ignoring the claim that node 1 leads") == 1
