"""A setting that promises protection which is not there is refused, before a start and while a node runs."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from cordwood.config.broker import BrokerConfig
from cordwood.config.definition import ResourceType
from cordwood.config.definitions.broker import BROKER
from cordwood.config.effects import BROKER_SECTION, Effect
from cordwood.config.errors import BadConfiguration, ConfigError
from cordwood.config.layers import Layer, file_layer
from cordwood.config.requests.alter import alter_incrementally, replace_settings
from cordwood.config.requests.changes import Altered, Change, Operation, Resource
from cordwood.config.validation.values import Type
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from tests.config.kafka_broker import MINIMAL, broker, told

REFUSED = [name for name in BROKER if BROKER_SECTION.rule_of(name).effect is Effect.REFUSED]
# A value that is not the default, by type.
OTHER = {Type.INT: "7", Type.LONG: "7", Type.BOOLEAN: "true", Type.CLASS: "org.example.Other"}
THIS_BROKER, ALL_BROKERS = Resource(ResourceType.BROKER, "1"), Resource(ResourceType.BROKER, "")


def other_value(name: str) -> str:
    return OTHER.get(BROKER[name].type, "other")


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_key_stops_the_start_and_is_named(name: str) -> None:
    with pytest.raises(BadConfiguration) as refused:
        told({name: other_value(name)})
    shown = "[hidden]" if BROKER[name].sensitive else other_value(name)
    assert refused.value.problems[0].startswith(f"server.properties: {name}={shown}: ")
    assert "docs/security.md" in refused.value.problems[-1]


@pytest.mark.parametrize("name", REFUSED)
def test_kafkas_default_of_a_refused_key_is_accepted(name: str) -> None:
    default = BROKER[name].default_spelling
    if default is not None:
        assert told({name: default})[name] == BROKER[name].default


@pytest.mark.parametrize("name", [name for name in REFUSED if BROKER[name].dynamic])
def test_a_refused_key_cannot_be_set_while_a_node_runs(name: str) -> None:
    changes = [Change(name, Operation.SET, other_value(name))]
    for answer in (
        alter_incrementally(broker(), THIS_BROKER, {}, changes),
        replace_settings(broker(), THIS_BROKER, {}, [(name, other_value(name))]),
    ):
        assert isinstance(answer, Refusal)
        assert answer.error is ErrorCode.INVALID_REQUEST
        assert str(answer).startswith(f"{name} cannot be set: ")


@pytest.mark.parametrize("resource", [THIS_BROKER, ALL_BROKERS])
def test_a_connection_rate_that_would_not_limit_anything_cannot_be_set(resource: Resource) -> None:
    answer = alter_incrementally(broker(), resource, {}, [Change("max.connection.creation.rate", Operation.SET, "10")])
    assert isinstance(answer, Refusal)
    assert "nothing would be limited" in str(answer)


def test_a_refused_key_that_was_stored_is_ignored_and_named() -> None:
    config = broker().with_dynamic({"max.connection.creation.rate": "10", "log.retention.ms": "5"}, {})
    assert config.dynamic_default == {"log.retention.ms": "5"}
    assert config.left_out == [
        "max.connection.creation.rate is ignored, since this quota is not supported yet: nothing would be limited"
    ]


def test_a_refused_key_that_was_stored_can_be_removed() -> None:
    stored = {"max.connection.creation.rate": "10"}
    config = broker().with_dynamic(stored, {})
    removal = [Change("max.connection.creation.rate", Operation.DELETE, None)]
    answer = alter_incrementally(config, ALL_BROKERS, stored, removal)
    assert answer == Altered({}, (("max.connection.creation.rate", None),))


@pytest.mark.parametrize(
    "name", ["listener.name.plaintext.plain.sasl.jaas.config", "listener.name.plaintext.sasl.enabled.mechanisms"]
)
def test_a_refused_key_of_one_listener_is_refused_too(name: str) -> None:
    with pytest.raises(BadConfiguration, match=f"{name}=.*SASL is not supported yet"):
        told({name: "PLAIN"})
    answer = alter_incrementally(broker(), THIS_BROKER, {}, [Change(name, Operation.SET, "PLAIN")])
    assert isinstance(answer, Refusal)


@pytest.mark.parametrize("name", ["super.users", "allow.everyone.if.no.acl.found"])
def test_the_keys_of_kafkas_authorizer_are_refused(name: str) -> None:
    with pytest.raises(BadConfiguration, match=f"{name}=.*ACLs are not supported yet"):
        told({name: "true"})
    answer = alter_incrementally(broker(), THIS_BROKER, {}, [Change(name, Operation.SET, "true")])
    assert isinstance(answer, Refusal)
    assert "ACLs are not supported yet" in str(answer)


@pytest.mark.parametrize("text", ["", " "])
def test_an_empty_list_of_super_users_is_accepted(text: str) -> None:
    told({"super.users": text})


def test_all_refused_settings_are_reported_at_once_with_the_listener() -> None:
    with pytest.raises(BadConfiguration) as refused:
        told(
            {
                "listeners": "SASL_SSL://:9092,CONTROLLER://:9093",
                "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
                "inter.broker.listener.name": "SASL_SSL",
                "sasl.enabled.mechanisms": "PLAIN",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            }
        )
    assert [problem.partition("=")[0] for problem in refused.value.problems[:2]] == [
        "server.properties: sasl.enabled.mechanisms",
        "server.properties: authorizer.class.name",
    ]
    assert refused.value.problems[2].startswith("listeners: SASL_SSL: SASL is not supported yet")


def test_a_later_layer_can_remove_a_refused_setting() -> None:
    file = file_layer("authorizer.class.name=org.example.Authorizer", "server.properties")
    config = BrokerConfig.from_layers(Layer("base", MINIMAL), file, Layer("--set", {"authorizer.class.name": ""}))
    assert config.text("authorizer.class.name") == ""


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (
            {
                "listeners": "{0}://:9092,CONTROLLER://:9093",
                "listener.security.protocol.map": "{0}:{0},CONTROLLER:PLAINTEXT",
            },
            "listeners: {0}: SASL",
        ),
        (
            {
                "listeners": "IN://:9092,CONTROLLER://:9093",
                "listener.security.protocol.map": "IN:{0},CONTROLLER:PLAINTEXT",
                "inter.broker.listener.name": "IN",
            },
            "listeners: IN, which listener.security.protocol.map maps to {0}: SASL",
        ),
        (
            {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:{0}"},
            "listeners: CONTROLLER, which listener.security.protocol.map maps to {0}: SASL",
        ),
        (
            {
                "process.roles": "broker",
                "listeners": "PLAINTEXT://:9092",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:{0}",
            },
            "controller.listener.names: CONTROLLER, which",
        ),
        (
            {"security.inter.broker.protocol": "{0}"},
            "inter.broker.listener.name or security.inter.broker.protocol: {0}: SASL",
        ),
    ],
)
def test_a_listener_with_sasl_is_refused(protocol: str, settings: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError) as refused:
        told({name: value.format(protocol) for name, value in settings.items()})
    assert refused.value.message.startswith(named.format(protocol))


def test_the_map_of_protocols_may_contain_sasl() -> None:
    """As in the server.properties that comes with Kafka."""
    told(
        {
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,"
            "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
        }
    )


WITH_TLS = {
    "listeners": "PLAINTEXT://:9092,SSL://:9094,CONTROLLER://:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
}


@pytest.mark.parametrize("wanted", ["required", "requested"])
def test_client_certificates_need_a_tls_listener(wanted: str) -> None:
    with pytest.raises(ConfigError, match=f"ssl.client.auth={wanted}: no listener uses TLS"):
        told({"ssl.client.auth": wanted})
    with pytest.raises(ConfigError, match=r"listener\.name\.plaintext\.ssl\.client\.auth=.*PLAINTEXT does not use TLS"):
        told(WITH_TLS | {"listener.name.plaintext.ssl.client.auth": wanted})
    told(WITH_TLS | {"ssl.client.auth": wanted})
    told(WITH_TLS | {"listener.name.ssl.ssl.client.auth": wanted})
    told({"ssl.client.auth": "none", "listener.name.plaintext.ssl.client.auth": "none"})


def test_client_certificates_need_a_tls_listener_while_a_node_runs() -> None:
    wanted = [Change("listener.name.plaintext.ssl.client.auth", Operation.SET, "required")]
    answer = alter_incrementally(told(WITH_TLS), THIS_BROKER, {}, wanted)
    assert isinstance(answer, Refusal)
    assert "PLAINTEXT does not use TLS" in str(answer)


def test_stored_settings_do_not_block_other_changes() -> None:
    stored = {"listener.name.gone.max.connections": "5"}
    config = broker().with_dynamic({}, stored)
    answer = alter_incrementally(config, THIS_BROKER, stored, [Change("log.retention.ms", Operation.SET, "5")])
    assert isinstance(answer, Altered)


@pytest.mark.parametrize("key", ["ssl.client.auth", "ssl.cipher.suites", "ssl.enabled.protocols", "max.connections"])
def test_a_restriction_of_a_missing_listener_is_refused(key: str) -> None:
    value = {"ssl.client.auth": "required", "ssl.enabled.protocols": "TLSv1.3"}.get(key, "5")
    with pytest.raises(ConfigError, match=rf"listener\.name\.sls\.{key}: there is no listener SLS"):
        told(WITH_TLS | {f"listener.name.sls.{key}": value})
    with pytest.raises(ConfigError, match=rf"name\.SSL\.{key} would have no effect.* listener\.name\.ssl\.{key}"):
        told(WITH_TLS | {f"listener.name.SSL.{key}": value})
    told(WITH_TLS | {f"listener.name.ssl.{key}": value})


def test_limits_of_connections_are_for_addresses() -> None:
    with pytest.raises(ConfigError, match=r"max\.connections\.per\.ip\.overrides: host\.example is a host name"):
        told({"max.connections.per.ip.overrides": "10.0.0.1:5,host.example:5"})
    told({"max.connections.per.ip.overrides": "10.0.0.1:5,[::1]:5"})


@pytest.mark.parametrize("name", ["listeners", "advertised.listeners", "listener.security.protocol.map"])
def test_listeners_are_fixed_at_the_start(name: str) -> None:
    """A listener that was closed by a dynamic setting would still let clients in."""
    answer = alter_incrementally(told(WITH_TLS), THIS_BROKER, {}, [Change(name, Operation.SET, "SSL:SSL")])
    assert isinstance(answer, Refusal)
    assert answer.error is ErrorCode.INVALID_REQUEST
    assert str(answer) == f"Cannot update these configs dynamically: [{name}]"


def test_the_page_on_security_names_every_key_that_is_refused() -> None:
    page = (Path(__file__).parents[3] / "docs" / "security.md").read_text()
    named = re.findall(r"`([a-z.*]+)`", page)
    assert [name for name in REFUSED if not any(fnmatchcase(name, pattern) for pattern in named)] == []


def test_every_security_key_is_classified_in_the_page_on_security() -> None:
    page = (Path(__file__).parents[3] / "docs" / "security.md").read_text()
    told = [*re.findall(r"`([a-z.*]+)`", page), "ssl.keystore.*", "ssl.truststore.*", "sasl.*", "delegation.token.*"]
    about = re.compile(r"ssl\.|sasl\.|.*(security|authorizer|principal|quota|delegation|policy\.class|reauth)")
    keys = [name for name in BROKER if about.match(name) and not name.startswith("remote.")]
    assert len(keys) > 80
    assert [name for name in keys if not any(fnmatchcase(name, pattern) for pattern in told)] == []
