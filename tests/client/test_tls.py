"""The clients over TLS: Kafka's names of settings, with PEM."""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cordwood.testing
from cordwood import Admin, CannotReachCluster, Consumer, NewTopic, Producer
from cordwood.runtime.tls import KeyPair
from cordwood.runtime.transport.tls_connection import TlsConnection
from cordwood.testing.embedded import EmbeddedNode
from tests.net.certificates import Authority, authority


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("certificates"), "authority")


def store(ca: Authority, pair: KeyPair, name: str) -> str:
    """The key and the certificate in one file."""
    path = ca.folder / name
    path.write_text(Path(pair.key_file or "").read_text() + Path(pair.certificate_file).read_text())
    return str(path)


@pytest.fixture(scope="module")
def node(ca: Authority) -> Iterator[EmbeddedNode]:
    """Wants to see clients' certificates."""
    settings = {
        "listeners": "SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "SSL:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": store(ca, ca.issue("node"), "node.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": ca.ca_file,
        "ssl.client.auth": "required",
    }
    with cordwood.testing.node(settings=settings) as node:
        yield node


def ways_to_say_it(ca: Authority) -> dict[str, dict[str, Any]]:
    own = ca.issue("me", password="secret")
    assert own.key_file is not None
    return {
        "files": {
            "ssl.truststore.location": ca.ca_file,
            "ssl.keystore.location": store(ca, own, "me.pem"),
            "ssl.key.password": "secret",
        },
        "text": {
            "ssl.truststore.certificates": Path(ca.ca_file).read_text(),
            "ssl.keystore.certificate.chain": Path(own.certificate_file).read_text(),
            "ssl.keystore.key": Path(own.key_file).read_text(),
            "ssl.key.password": "secret",
        },
        "two files": {
            "ssl.truststore.location": ca.ca_file,
            "ssl.keystore.certificate.chain": own.certificate_file,
            "ssl.keystore.key": own.key_file,
            "ssl.key.password": "secret",
        },
    }


@pytest.mark.parametrize("way", ["files", "text", "two files"])
def test_all_clients_reach_a_node_that_wants_certificates(node: EmbeddedNode, ca: Authority, way: str) -> None:
    options = {
        "bootstrap.servers": node.bootstrap,
        "security.protocol": "SSL",
        **ways_to_say_it(ca)[way],
    }
    topic = f"t-{way.replace(' ', '-')}"
    with Admin(options) as admin:
        admin.create_topics([NewTopic(topic, partitions=1)])
        admin.until_topics_led([topic])
    with Producer(options) as producer:
        producer.send_and_wait(topic, "secret")
    with Consumer(topic, options=options, group_id="g", auto_offset_reset="earliest") as consumer:
        assert consumer.getone().value == b"secret"


def test_a_plaintext_client_gets_a_hint_about_tls(node: EmbeddedNode) -> None:
    with pytest.raises(CannotReachCluster, match="is it a TLS listener"):
        Producer(bootstrap_servers=node.bootstrap)


def test_an_untrusted_authority_is_reported(node: EmbeddedNode) -> None:
    with pytest.raises(CannotReachCluster, match="certificate cannot be verified"):
        Producer(bootstrap_servers=node.bootstrap, security_protocol="SSL")


def test_connections_of_two_threads_do_not_receive_into_one_buffer() -> None:
    """Each thread has its own loop: that of a node in a test, those of clients."""
    buffers: list[memoryview] = []

    def note() -> None:
        below: Any = None
        loop = asyncio.new_event_loop()
        context = ssl.create_default_context()
        connection = TlsConnection(loop, below, context, server_side=False, server_hostname="here")
        buffers.append(connection.buffer())
        assert connection.buffer() is buffers[-1]
        loop.close()

    for thread in (threading.Thread(target=note), threading.Thread(target=note)):
        thread.start()
        thread.join()
    assert len(buffers) == 2
    assert buffers[0] is not buffers[1]
