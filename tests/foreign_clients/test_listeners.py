"""Listeners: TLS with and without client certificates, IPv6, and several at once."""

import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from cordwood.runtime.tls import KeyPair
from cordwood.wire.errors import ErrorCode
from tests.foreign_clients.kafka_client import Address, Client, ConfigChange, Record, Resource, Tls, read, refusal_of
from tests.foreign_clients.librdkafka_client import LibrdkafkaClient
from tests.foreign_clients.node_process import NodeProcess, free_port
from tests.net.certificates import Authority, authority

NAMES = ("librdkafka", "kafka-python", "aiokafka", "kcat", "cordwood")

StartNode = Callable[..., NodeProcess]
Connect = Callable[[str, Address], Client]


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return authority(tmp_path, "ca")


def tls_settings(ca: Authority, client_auth: str) -> dict[str, str]:
    """The key and the certificate stand in one PEM file, as in Kafka's key stores of that type."""
    pair = ca.issue("node")
    store = ca.folder / "node.pem"
    store.write_text(Path(pair.key_file or "").read_text() + Path(pair.certificate_file).read_text())
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": ca.ca_file,
        "ssl.client.auth": client_auth,
    }


def start_tls(own_node: StartNode, ca: Authority, client_auth: str) -> NodeProcess:
    listeners = {
        "listeners": "SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "SSL:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SSL",
    }
    return own_node(listeners | tls_settings(ca, client_auth), port=None)


def trusting(ca: Authority, pair: KeyPair | None = None) -> Tls:
    return Tls(ca.ca_file) if pair is None else Tls(ca.ca_file, pair.certificate_file, pair.key_file)


def round_trip(client: Client, topic: str) -> None:
    sent = [b"%d-%s" % (i, b"x" * 1000) for i in range(1000)]
    client.produce(topic, [Record(value) for value in sent])
    assert [record.value for record in read(client, topic, len(sent))] == sent


def test_every_client_writes_and_reads_under_tls(own_node: StartNode, ca: Authority, connect: Connect) -> None:
    node = start_tls(own_node, ca, "none")
    for name in NAMES:
        round_trip(connect(name, Address(node.bootstrap, trusting(ca))), f"by-{name}")


def test_every_client_is_let_in_by_its_certificate(own_node: StartNode, ca: Authority, connect: Connect) -> None:
    node = start_tls(own_node, ca, "required")
    pair = ca.issue("client")
    for name in NAMES:
        round_trip(connect(name, Address(node.bootstrap, trusting(ca, pair))), f"by-{name}")


@pytest.mark.parametrize("certified", ["not at all", "by somebody else"])
def test_a_client_without_a_certificate_that_is_trusted_is_kept_out(
    own_node: StartNode, ca: Authority, tmp_path: Path, certified: str
) -> None:
    node = start_tls(own_node, ca, "required")
    (tmp_path / "other").mkdir()
    pair = authority(tmp_path / "other", "other").issue("intruder") if certified == "by somebody else" else None
    intruder = LibrdkafkaClient(Address(node.bootstrap, trusting(ca, pair)))
    assert not intruder.is_reachable(within_s=2)
    assert LibrdkafkaClient(Address(node.bootstrap, trusting(ca, ca.issue("client")))).is_reachable(within_s=20)


def test_a_client_without_tls_gets_nothing_from_a_tls_listener(own_node: StartNode, ca: Authority) -> None:
    node = start_tls(own_node, ca, "none")
    assert not LibrdkafkaClient(Address(node.bootstrap)).is_reachable(within_s=1)
    assert LibrdkafkaClient(Address(node.bootstrap, trusting(ca))).is_reachable(within_s=20)


def is_let_in(node: NodeProcess, ca: Authority, pair: KeyPair | None = None) -> bool:
    """With TLS 1.2 a client learns in the handshake whether its certificate will do."""
    context = ssl.create_default_context(cafile=ca.ca_file)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    if pair is not None:
        context.load_cert_chain(pair.certificate_file, pair.key_file)
    try:
        with socket.create_connection(node.address) as plain, context.wrap_socket(plain, server_hostname="localhost"):
            return True
    except ssl.SSLError:
        return False


@pytest.mark.parametrize("client_auth", ["none", "requested", "required"])
def test_client_certificates_are_requested_as_the_listener_says(
    own_node: StartNode, ca: Authority, tmp_path: Path, client_auth: str
) -> None:
    settings = tls_settings(ca, "none" if client_auth == "required" else "required")
    node = own_node(
        settings | {"listeners": "SSL://127.0.0.1:0", "listener.name.ssl.ssl.client.auth": client_auth}, port=None
    )
    (tmp_path / "other").mkdir()
    foreign = authority(tmp_path / "other", "other").issue("intruder")
    assert is_let_in(node, ca, ca.issue("client"))
    assert is_let_in(node, ca) == (client_auth != "required")
    assert is_let_in(node, ca, foreign) == (client_auth == "none")


def test_client_certificates_can_be_required_while_the_node_runs(own_node: StartNode, ca: Authority) -> None:
    settings = tls_settings(ca, "none")
    node = own_node(settings | {"listeners": "SSL://127.0.0.1:0"}, port=None)
    pair = ca.issue("client")
    admin = LibrdkafkaClient(Address(node.bootstrap, trusting(ca, pair)))
    broker = Resource("broker", "1")

    def set_key(name: str, value: str) -> None:
        admin.change_configs(broker, [ConfigChange("set", f"listener.name.ssl.{name}", value)])

    assert refusal_of(lambda: set_key("ssl.keystore.location", "/nowhere.pem")) == ErrorCode.INVALID_REQUEST
    assert is_let_in(node, ca)
    set_key("ssl.client.auth", "required")
    assert not is_let_in(node, ca)
    assert is_let_in(node, ca, pair)
    assert node.stop() == 0
    node.start()
    assert not is_let_in(node, ca)
    assert is_let_in(node, ca, pair)


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_every_client_writes_and_reads_over_ipv6(own_node: StartNode, connect: Connect) -> None:
    node = own_node({"listeners": "PLAINTEXT://[::1]:0,CONTROLLER://127.0.0.1:0"}, port=None)
    assert node.bootstrap.startswith("[::1]:")
    for name in NAMES:
        round_trip(connect(name, Address(node.bootstrap)), f"by-{name}")


def test_clients_of_several_listeners_meet(own_node: StartNode, ca: Authority, connect: Connect) -> None:
    """Each client gets the address of the listener that it uses, so that it stays there."""
    inside, secure, outside = free_port(), free_port(), free_port()
    node = own_node(
        {
            "listeners": f"INSIDE://127.0.0.1:{inside},SECURE://127.0.0.1:{secure},OUTSIDE://127.0.0.1:{outside},"
            "CONTROLLER://127.0.0.1:0",
            "advertised.listeners": f"INSIDE://127.0.0.1:{inside},SECURE://127.0.0.1:{secure},"
            f"OUTSIDE://localhost:{outside}",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,SECURE:SSL,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INSIDE",
        }
        | tls_settings(ca, "none"),
        port=None,
    )
    assert node.bootstrap == f"127.0.0.1:{inside}"
    addresses = [
        Address(f"127.0.0.1:{inside}"),
        Address(f"127.0.0.1:{secure}", trusting(ca)),
        Address(f"127.0.0.1:{outside}"),
    ]
    for number, address in enumerate(addresses):
        writer = connect("librdkafka", address)
        assert writer.produce("common", [Record(b"%d" % number)]) == [number]
    for address in addresses:
        for name in NAMES:
            assert [record.value for record in read(connect(name, address), "common", 3)] == [b"0", b"1", b"2"]


def test_metadata_names_the_listener_that_was_asked(own_node: StartNode) -> None:
    inside, outside = free_port(), free_port()
    own_node(
        {
            "listeners": f"INSIDE://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{outside},CONTROLLER://127.0.0.1:0",
            "advertised.listeners": f"INSIDE://127.0.0.1:{inside},OUTSIDE://localhost:{outside}",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INSIDE",
        },
        port=None,
    )
    assert LibrdkafkaClient(Address(f"127.0.0.1:{inside}")).brokers() == {f"127.0.0.1:{inside}"}
    assert LibrdkafkaClient(Address(f"127.0.0.1:{outside}")).brokers() == {f"localhost:{outside}"}
