"""Settings that a standalone node does not need."""

import pytest

from cordwood.broker.start.standalone import standalone_config
from cordwood.config.layers import Layer


def listeners_of(**settings: str) -> tuple[list[str], list[str], str]:
    """For clients, for the quorum, and the one between brokers."""
    said = {name.replace("_", "."): value for name, value in settings.items()}
    listeners = standalone_config(Layer("test", said), port=9092).listeners
    clients, quorum = listeners.broker_endpoints, listeners.controller_endpoints
    return [str(end) for end in clients], [str(end) for end in quorum], listeners.inter_broker


QUORUM = ["CONTROLLER://127.0.0.1:0"]


def test_nothing_at_all() -> None:
    assert listeners_of() == (["PLAINTEXT://127.0.0.1:9092"], QUORUM, "PLAINTEXT")


@pytest.mark.parametrize("said", ["SSL://127.0.0.1:0", "SSL://127.0.0.1:0,PLAINTEXT://[::1]:0"])
def test_a_quorum_listener_is_added_to_client_listeners(said: str) -> None:
    assert listeners_of(listeners=said) == (said.split(","), QUORUM, "SSL")


def test_a_map_of_protocols_need_not_name_the_quorums_listener() -> None:
    found = listeners_of(
        listeners="IN://127.0.0.1:0,OUT://127.0.0.1:0", listener_security_protocol_map="IN:PLAINTEXT,OUT:SSL"
    )
    assert found == (["IN://127.0.0.1:0", "OUT://127.0.0.1:0"], QUORUM, "IN")


def test_explicit_quorum_settings_are_used() -> None:
    found = listeners_of(
        listeners="PLAINTEXT://127.0.0.1:1,Q://127.0.0.1:2",
        controller_listener_names="Q",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,Q:PLAINTEXT",
    )
    assert found == (["PLAINTEXT://127.0.0.1:1"], ["Q://127.0.0.1:2"], "PLAINTEXT")


@pytest.mark.parametrize(
    ("listeners", "protocol"),
    [
        ("IN://127.0.0.1:0,OUT://127.0.0.1:0", "SSL"),
        ("IN://127.0.0.1:0,OPEN://127.0.0.1:0", "PLAINTEXT"),
        ("OPEN://127.0.0.1:0", "PLAINTEXT"),
    ],
)
def test_the_quorums_listener_is_as_closed_as_those_of_clients(listeners: str, protocol: str) -> None:
    """It takes administrators' requests too."""
    said = {
        "listeners": listeners,
        "listener.security.protocol.map": "IN:SSL,OUT:SSL,OPEN:PLAINTEXT",
        "listener.name.in.ssl.client.auth": "required",
    }
    if protocol == "PLAINTEXT":
        del said["listener.name.in.ssl.client.auth"]
    config = standalone_config(Layer("test", said))
    assert [endpoint.protocol.name for endpoint in config.listeners.controller_endpoints] == [protocol]
    expected = "required" if protocol == "SSL" else "none"
    assert config.for_listener("CONTROLLER", "ssl.client.auth") == expected
