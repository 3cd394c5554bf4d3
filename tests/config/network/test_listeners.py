"""`listeners`, `advertised.listeners` and `listener.security.protocol.map`."""

from __future__ import annotations

import pytest

from cordwood.config.errors import ConfigError
from cordwood.config.network.listeners import Endpoint, SecurityProtocol, parse_endpoints, parse_protocol_map
from tests.config.kafka_broker import told

PLAIN = {"A": SecurityProtocol.PLAINTEXT, "B": SecurityProtocol.PLAINTEXT, "C": SecurityProtocol.PLAINTEXT}


def endpoint(text: str) -> Endpoint:
    (parsed,) = parse_endpoints([text], PLAIN)
    return parsed


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("A://127.0.0.1:9092", "127.0.0.1", 9092),
        ("a://example.org:1", "example.org", 1),
        ("A://[::1]:9092", "::1", 9092),
        ("A://[fe80::1%eth0]:9092", "fe80::1%eth0", 9092),
        ("A://:9092", None, 9092),
        ("A://0.0.0.0:0", "0.0.0.0", 0),
    ],
)
def test_an_endpoint_has_a_name_a_host_and_a_port(text: str, host: str | None, port: int) -> None:
    assert endpoint(text) == Endpoint("A", host, port, SecurityProtocol.PLAINTEXT)


def test_an_endpoint_is_written_as_it_is_read() -> None:
    for text in ("A://127.0.0.1:9092", "A://[::1]:9092", "A://:0"):
        assert str(endpoint(text)) == text


@pytest.mark.parametrize(
    "text", ["A:9092", "A://host", "A://host:port", "A://ho st:1", "A://host:65536", "A://host:-1"]
)
def test_invalid_endpoints_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^Error creating broker listeners from .*Unable to parse"):
        endpoint(text)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (["A://:1", "a://:2"], "Each listener must have a different name"),
        (["A://:1", "B://:1"], "Each listener must have a different port"),
        (["A://x:1", "B://y:1"], "Each listener must have a different port"),
        (["A://127.0.0.1:1", "B://127.0.0.2:1"], "one needs to be IPv4 and the other IPv6"),
        (["A://127.0.0.1:1", "B://:1"], "one needs to be IPv4 and the other IPv6"),
        (["A://127.0.0.1:1", "B://[::1]:1", "C://:1"], "one needs to be IPv4 and the other IPv6"),
        (["A://127.0.0.1:1", "B://[::1]:1", "C://[::2]:1"], "unless exactly one listener has an IPv4 address"),
        (["D://:1"], "No security protocol defined for listener D"),
    ],
)
def test_endpoints_that_cannot_be_together_are_refused(entries: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_endpoints(entries, PLAIN)
    assert message in refused.value.message


def test_ipv4_and_ipv6_may_share_a_port_and_any_may_share_port_0() -> None:
    assert len(parse_endpoints(["A://127.0.0.1:1", "B://[::1]:1"], PLAIN)) == 2
    assert len(parse_endpoints(["A://:0", "B://:0"], PLAIN)) == 2


def test_the_map_is_read() -> None:
    assert parse_protocol_map(" inner:PLAINTEXT , OUTER:ssl") == {
        "INNER": SecurityProtocol.PLAINTEXT,
        "OUTER": SecurityProtocol.SSL,
    }


@pytest.mark.parametrize("text", ["A", "A:TLS", "A:"])
def test_a_bad_map_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"listener\.security\.protocol\.map"):
        parse_protocol_map(text)


def test_listeners_are_grouped_by_role() -> None:
    listeners = told({"advertised.listeners": "PLAINTEXT://a.example:9092"}).listeners
    assert [str(each) for each in listeners.broker_endpoints] == ["PLAINTEXT://:9092"]
    assert [str(each) for each in listeners.controller_endpoints] == ["CONTROLLER://:9093"]
    assert [str(each) for each in listeners.advertised_brokers] == ["PLAINTEXT://a.example:9092"]
    assert [str(each) for each in listeners.advertised_controllers] == ["CONTROLLER://:9093"]
    assert listeners.inter_broker == "PLAINTEXT"


def test_with_tls_in_use_a_controllers_listener_must_be_mapped() -> None:
    with pytest.raises(ConfigError, match="No security protocol defined for listener CONTROLLER"):
        told({"listeners": "SSL://:9092,CONTROLLER://:9093", "security.inter.broker.protocol": "SSL"})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "cannot use the nonroutable meta-address 0.0.0.0"),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://:9093"}, "nonroutable meta-address"),
        ({"listeners": "PLAINTEXT://:9092"}, "must contain at least one value appearing in the 'listeners'"),
        ({"listeners": "CONTROLLER://:9093"}, "There must be at least one broker advertised listener"),
        ({"inter.broker.listener.name": "SSL"}, "must be a listener name defined in advertised.listeners"),
        ({"inter.broker.listener.name": "OTHER"}, "not found in listener.security.protocol.map"),
        (
            {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.",
        ),
        (
            {"advertised.listeners": "PLAINTEXT://a:9092,SSL://a:9093"},
            "listener names must be equal to or a subset of the ones defined in listeners",
        ),
        ({"process.roles": "broker"}, "must not contain a value appearing in the 'listeners'"),
        ({"process.roles": "controller"}, "must only contain KRaft controller listeners"),
        ({"listeners": ""}, "Configuration 'listeners' must not be empty"),
    ],
)
def test_listeners_that_cannot_serve_are_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        told(settings)
    assert message in refused.value.message


def test_advertised_listeners_may_share_a_port() -> None:
    settings = {
        "listeners": "PLAINTEXT://:9092,SSL://:9094,CONTROLLER://:9093",
        "advertised.listeners": "PLAINTEXT://a:9092,SSL://b:9092",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
    }
    assert len(told(settings).listeners.advertised_brokers) == 2
