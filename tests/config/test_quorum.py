"""The quorum that a configuration names, and the rules of the three kinds of nodes.

The outcomes are those of KafkaConfig in Kafka 4.3.1.
"""

from __future__ import annotations

import pytest

from cordwood.config.broker import BrokerConfig
from cordwood.config.errors import ConfigError
from cordwood.config.layers import Layer
from cordwood.raft.config import QuorumConfig
from cordwood.runtime.network import Address

BROKER = {"process.roles": "broker", "listeners": "PLAINTEXT://:9092"}
CONTROLLER = {"process.roles": "controller", "listeners": "CONTROLLER://:9093"}
COMBINED = {"process.roles": "broker,controller", "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"}
VOTER = {"controller.quorum.voters": "1@a:1"}
FOUND = {"controller.quorum.bootstrap.servers": "h:9093"}


def node(*settings: dict[str, str]) -> BrokerConfig:
    named = {"node.id": "1", "controller.listener.names": "CONTROLLER"}
    return BrokerConfig.from_layers(
        Layer("server.properties", {**named, **{k: v for s in settings for k, v in s.items()}})
    )


def test_static_voters_are_read_in_the_order_of_their_ids() -> None:
    quorum = node(CONTROLLER, {"controller.quorum.voters": "2@b.example:9094,1@a:9093,3@[::1]:9095"}).quorum
    assert list(quorum.static_voters.items()) == [
        (1, Address("a", 9093)),
        (2, Address("b.example", 9094)),
        (3, Address("::1", 9095)),
    ]
    assert quorum.is_static
    assert quorum.contacts == tuple(quorum.static_voters.values())
    assert quorum.listener == "CONTROLLER"


def test_a_dynamic_quorum_is_found_through_its_bootstrap_servers() -> None:
    quorum = node(BROKER, {"controller.quorum.bootstrap.servers": "a:9093,[::1]:9094"}).quorum
    assert not quorum.is_static
    assert quorum.bootstrap_servers == quorum.contacts == (Address("a", 9093), Address("::1", 9094))


def test_the_last_address_of_a_voter_counts() -> None:
    assert node(COMBINED, {"controller.quorum.voters": "1@a:1,1@b:2"}).quorum.static_voters == {1: Address("b", 2)}


def test_raft_uses_the_settings_of_the_quorum() -> None:
    assert QuorumConfig.of(node(COMBINED, VOTER)) == QuorumConfig()
    settings = {
        "election.timeout.ms": "1",
        "fetch.timeout.ms": "2",
        "election.backoff.max.ms": "3",
        "request.timeout.ms": "4",
        "retry.backoff.ms": "5",
        "fetch.max.bytes": "6",
        "fetch.snapshot.max.bytes": "7",
        "append.linger.ms": "8",
        "auto.join.enable": "true",
    }
    set_all = {f"controller.quorum.{name}": value for name, value in settings.items()}
    assert QuorumConfig.of(node(COMBINED, FOUND, set_all)) == QuorumConfig(
        election_timeout_ms=1,
        fetch_timeout_ms=2,
        election_backoff_max_ms=3,
        request_timeout_ms=4,
        retry_backoff_ms=5,
        fetch_max_bytes=6,
        fetch_snapshot_max_bytes=7,
        append_linger_ms=8,
        auto_join_enable=True,
    )


@pytest.mark.parametrize(
    ("settings", "controllers"),
    [
        ({**BROKER, "controller.quorum.voters": "2@a:1"}, []),
        # A broker may advertise a controller listener that it doesn't have.
        (
            {**BROKER, **FOUND, "advertised.listeners": "PLAINTEXT://h:9092,CONTROLLER://h:9093"},
            ["CONTROLLER://h:9093"],
        ),
        ({**BROKER, **FOUND, "controller.listener.names": "A,B"}, []),
        ({**CONTROLLER, **FOUND}, ["CONTROLLER://:9093"]),
        ({**CONTROLLER, **FOUND, "advertised.listeners": "CONTROLLER://h:9093"}, ["CONTROLLER://h:9093"]),
        ({**CONTROLLER, **FOUND, "listeners": "CONTROLLER://0.0.0.0:9093"}, ["CONTROLLER://:9093"]),
        # A listener without a host is reached where controller.quorum.voters says, if it is the first.
        ({**CONTROLLER, **VOTER}, ["CONTROLLER://a:1"]),
        ({**CONTROLLER, **VOTER, **FOUND}, ["CONTROLLER://a:1"]),
        ({**CONTROLLER, **VOTER, "listeners": "CONTROLLER://x:9093"}, ["CONTROLLER://x:9093"]),
        ({**CONTROLLER, **VOTER, "listeners": "CONTROLLER://0.0.0.0:9093"}, ["CONTROLLER://a:1"]),
        ({**CONTROLLER, **VOTER, "advertised.listeners": "CONTROLLER://y:5"}, ["CONTROLLER://y:5"]),
        (
            {
                **CONTROLLER,
                **VOTER,
                "controller.listener.names": "CONTROLLER,SECOND",
                "listeners": "CONTROLLER://:9093,SECOND://:9094",
            },
            ["CONTROLLER://a:1", "SECOND://:9094"],
        ),
        (
            {
                **CONTROLLER,
                **VOTER,
                "controller.listener.names": "CONTROLLER,SECOND",
                "listeners": "CONTROLLER://:9093,SECOND://q:9094",
                "advertised.listeners": "SECOND://z:7",
            },
            ["CONTROLLER://a:1", "SECOND://z:7"],
        ),
    ],
)
def test_controllers_are_reached_where_kafka_says(settings: dict[str, str], controllers: list[str]) -> None:
    assert [str(endpoint) for endpoint in node(settings).listeners.advertised_controllers] == controllers


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({**BROKER, **VOTER}, "the node id 1 must not be included in the set of voters"),
        (
            {**BROKER, **FOUND, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"},
            "Controller listener with name CONTROLLER defined in controller.listener.names not found in "
            "listener.security.protocol.map",
        ),
        (
            {**BROKER, **FOUND, "listeners": COMBINED["listeners"]},
            "must not contain a value appearing in the 'listeners'",
        ),
        (BROKER, "either controller.quorum.bootstrap.servers must contain"),
        (
            {**BROKER, **FOUND, "controller.quorum.auto.join.enable": "true"},
            "only supported when process.roles contains",
        ),
        ({**CONTROLLER, "controller.quorum.voters": "2@a:1"}, "the node id 1 must be included in the set of voters"),
        ({**CONTROLLER, **VOTER, "listeners": COMBINED["listeners"]}, "must only contain KRaft controller listeners"),
        (
            {**CONTROLLER, **VOTER, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"},
            "No security protocol defined for listener CONTROLLER",
        ),
        (
            {**CONTROLLER, **VOTER, "controller.listener.names": "CONTROLLER,B"},
            "must only contain values appearing in the 'listeners'",
        ),
        (
            {**CONTROLLER, **VOTER, "advertised.listeners": "CONTROLLER://0.0.0.0:9093"},
            "cannot use the nonroutable meta-address",
        ),
        ({**COMBINED, "controller.quorum.voters": "1@a:1,2@0.0.0.0:4"}, "Host string (0.0.0.0) is not routeable"),
        ({**COMBINED, "controller.quorum.voters": "1@a"}, "should be in the form `{id}@{host}:{port}`"),
        ({**COMBINED, "controller.quorum.voters": "x@a:1"}, "should be in the form `{id}@{host}:{port}`"),
        ({**COMBINED, "controller.quorum.bootstrap.servers": "h"}, "should be in the form `{host}:{port}`"),
        ({**COMBINED, **VOTER, "advertised.listeners": "CONTROLLER://x:1"}, "at least one broker advertised listener"),
        (
            {**COMBINED, **VOTER, "inter.broker.listener.name": "CONTROLLER"},
            "inter.broker.listener.name must be a listener name defined in advertised.listeners",
        ),
    ],
)
def test_a_node_that_kafka_would_not_start_is_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        node(settings)
    assert message in refused.value.message
