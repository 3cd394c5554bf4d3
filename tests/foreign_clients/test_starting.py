"""A node that cannot start says what is wrong, and does no harm to the one that runs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.foreign_clients.clients_fixtures import one_node
from tests.foreign_clients.kafka_client import Address, Record, read_all
from tests.foreign_clients.librdkafka_client import LibrdkafkaClient
from tests.foreign_clients.node_process import NodeProcess, refused_start

StartNode = Callable[..., NodeProcess]
pytestmark = one_node


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
    ("listener", "hint"),
    [
        # Nobody's, by RFC 5737.
        ("PLAINTEXT://192.0.2.1:0", "This machine has no network interface with the address 192.0.2.1."),
        ("PLAINTEXT://a..b:0", "The name a..b has no address."),
    ],
)
def test_an_address_that_cannot_be_listened_on_is_explained(listener: str, hint: str, tmp_path: Path) -> None:
    said = refused_start(tmp_path / "data", {"listeners": listener}, port=None)
    assert "cannot listen on" in said
    assert hint in said
    assert "Is another node running?" not in said


@pytest.mark.usefixtures("own_node")
@pytest.mark.parametrize(
    "settings",
    [
        {"listeners": "SASL_PLAINTEXT://127.0.0.1:0"},
        {"listeners": "SASL_SSL://127.0.0.1:0"},
        {"listeners": "IN://127.0.0.1:0", "listener.security.protocol.map": "IN:SASL_PLAINTEXT"},
        {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"},
    ],
    ids=lambda settings: ",".join(settings.values()),
)
def test_settings_for_missing_protection_are_refused(settings: dict[str, str], tmp_path: Path) -> None:
    said = refused_start(tmp_path / "data", settings, port=None)
    assert "not supported yet" in said
    assert "docs/security.md" in said


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
def test_an_invalid_setting_is_named_with_the_reason(key: str, value: str, expected: list[str], tmp_path: Path) -> None:
    said = refused_start(tmp_path / "data", {key: value})
    assert [word for word in expected if word not in said] == []


@pytest.mark.usefixtures("own_node")
def test_a_tls_listener_without_a_certificate_is_named(tmp_path: Path) -> None:
    data = tmp_path / "data"
    said = refused_start(data, {"listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT"})
    assert "ssl.keystore" in said
