"""A node that cannot start says what is wrong, and does no harm to the one that runs."""

from collections.abc import Callable
from pathlib import Path

import pytest
from kafka_client import Address, Record, read_all
from librdkafka_client import LibrdkafkaClient
from node_process import NodeProcess, refused_start

StartNode = Callable[..., NodeProcess]


def test_a_second_node_on_the_same_directory_is_refused(own_node: StartNode) -> None:
    node = own_node()
    client = LibrdkafkaClient(Address(node.bootstrap))
    client.produce("kept", [Record(b"before")])

    said = refused_start(node.data)

    assert str(node.data) in said
    assert "in use" in said
    client.produce("kept", [Record(b"after")])
    assert [record.value for record in read_all(client, "kept")] == [b"before", b"after"]


def test_a_port_that_is_taken_is_named(own_node: StartNode, tmp_path: Path) -> None:
    port = own_node().address[1]
    said = refused_start(tmp_path / "other", port=port)
    assert str(port) in said
    assert "--port" in said


@pytest.mark.usefixtures("own_node")
@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("no.such.key", "1", ["no.such.key"]),
        ("log.retention.ms", "a while", ["log.retention.ms", "a while"]),
        ("num.partitions", "0", ["num.partitions", "0"]),
        ("log.cleanup.policy", "burn", ["log.cleanup.policy", "burn", "compact", "delete"]),
    ],
)
def test_a_bad_setting_is_named_with_what_is_wrong(key: str, value: str, expected: list[str], tmp_path: Path) -> None:
    said = refused_start(tmp_path / "data", {key: value})
    assert [word for word in expected if word not in said] == []


@pytest.mark.usefixtures("own_node")
def test_a_tls_listener_without_a_certificate_is_named(tmp_path: Path) -> None:
    data = tmp_path / "data"
    said = refused_start(data, {"listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT"})
    assert "ssl.keystore" in said
