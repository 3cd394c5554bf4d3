"""A broker's configuration in layers, and what it has to be as a whole."""

from __future__ import annotations

import pytest

from cordwood.config.broker import BrokerConfig, Sourced
from cordwood.config.definition import ConfigSource
from cordwood.config.definitions.broker import BROKER
from cordwood.config.errors import BadConfiguration, ConfigError
from cordwood.config.layers import Layer, command_line_layer, environment_layer, file_layer, variable_of
from cordwood.config.validation.values import Password
from cordwood.log.cleaning.cleaner import CleanerConfig
from tests.config.kafka_broker import MINIMAL, broker, told


def layered(*layers: Layer) -> BrokerConfig:
    return BrokerConfig.from_layers(Layer("the minimum", MINIMAL), *layers)


def test_later_layers_win() -> None:
    file = file_layer("num.partitions=2\ndefault.replication.factor=2\nnum.network.threads=2", "server.properties")
    environment = environment_layer({"CORDWOOD_NUM_PARTITIONS": "3", "CORDWOOD_DEFAULT_REPLICATION_FACTOR": "3"})
    config = layered(file, environment, command_line_layer(["num.partitions=4"]))
    names = ("num.partitions", "default.replication.factor", "num.network.threads", "num.io.threads")
    assert [config.integer(name) for name in names] == [4, 3, 2, 8]


def test_each_value_knows_its_source() -> None:
    config = broker(num_io_threads="4", log_cleaner_threads="2", log_retention_ms="5").with_dynamic(
        {"log.cleaner.threads": "3", "log.retention.ms": "6"}, {"log.retention.ms": "7"}
    )
    assert config.sourced("log.retention.ms") == Sourced(7, ConfigSource.DYNAMIC_BROKER_CONFIG)
    assert config.sourced("log.cleaner.threads") == Sourced(3, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    assert config.sourced("num.io.threads") == Sourced(4, ConfigSource.STATIC_BROKER_CONFIG)
    assert config.sourced("num.partitions") == Sourced(1, ConfigSource.DEFAULT_CONFIG)


def test_a_later_layer_replaces_finer_synonyms_of_an_earlier_one() -> None:
    config = layered(Layer("a", {"log.retention.ms": "5"}), Layer("b", {"log.retention.hours": "1"}))
    assert config["log.retention.ms"] is None
    assert config.integer("log.retention.hours") == 1


def test_within_a_layer_both_synonyms_stay() -> None:
    config = layered(Layer("a", {"log.retention.hours": "1", "log.retention.ms": "5"}))
    assert (config["log.retention.ms"], config["log.retention.hours"]) == (5, 1)


def test_all_errors_are_reported_at_once() -> None:
    file = file_layer("log.retention.mss=5\nnum.partitions=none\nssl.keystore.password=\\\n", "server.properties")
    with pytest.raises(BadConfiguration) as refused:
        layered(file, command_line_layer(["log.cleanup.policy=shred", "zookeeper.connect=localhost"]))
    assert refused.value.problems == [
        "server.properties: Unknown configuration log.retention.mss (value '5'); did you mean log.retention.ms?",
        "server.properties: num.partitions=none: Not a number of type INT (allowed: a 32-bit number, [1,...])",
        "--set: log.cleanup.policy=shred: String must be one of: compact, delete "
        "(allowed: a comma-separated list, of [compact, delete])",
        "--set: Unknown configuration zookeeper.connect (value 'localhost'), which is for brokers with ZooKeeper; "
        "here controllers take its place (process.roles)",
    ]


def test_no_other_name_is_suggested_for_a_setting_that_kafka_has_removed() -> None:
    with pytest.raises(BadConfiguration) as refused:
        layered(command_line_layer(["inter.broker.protocol.version=3.5"]))
    (told,) = refused.value.problems
    assert told.endswith("inter.broker.protocol.version (value '3.5'), which Kafka 4 has no longer: leave it out")


def test_required_keys_must_be_set() -> None:
    with pytest.raises(BadConfiguration) as refused:
        BrokerConfig.from_layers(Layer("a", {"broker.id": "1"}))
    assert refused.value.problems == [
        'Missing required configuration "controller.listener.names" which has no default value. Name the listener on '
        "which controllers are reached, for example controller.listener.names=CONTROLLER.",
        'Missing required configuration "process.roles" which has no default value.',
    ]


def test_a_key_that_is_only_set_while_a_broker_runs_is_unknown_before() -> None:
    with pytest.raises(BadConfiguration, match=r"Unknown configuration leader\.replication\.throttled\.rate"):
        told({"leader.replication.throttled.rate": "5"})


def test_node_id_and_broker_id_are_one() -> None:
    settings = {name: value for name, value in MINIMAL.items() if name != "node.id"}
    assert BrokerConfig.from_layers(Layer("a", {**settings, "broker.id": "7"})).node_id == 7
    with pytest.raises(ConfigError, match=r"You must set `node\.id` to the same value as `broker\.id`"):
        broker(broker_id="2")


def test_variables_are_keys_in_upper_case() -> None:
    assert variable_of("log.retention.ms") == "CORDWOOD_LOG_RETENTION_MS"
    layer = environment_layer(
        {"CORDWOOD_LOG_RETENTION_MS": "5", "PATH": "/bin", "CORDWOOD_HOME": "/"}, ["CORDWOOD_HOME"]
    )
    assert layer.settings == {"log.retention.ms": "5"}


def test_a_variable_may_be_for_one_listener() -> None:
    layer = environment_layer({"CORDWOOD_LISTENER_NAME_SASL_SSL_SSL_KEYSTORE_LOCATION": "/k"})
    assert layer.settings == {"listener.name.sasl_ssl.ssl.keystore.location": "/k"}


def test_an_unknown_variable_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError) as refused:
        environment_layer({"CORDWOOD_LOG_RETENTION": "5"})
    assert refused.value.message == (
        "Unknown configuration CORDWOOD_LOG_RETENTION in the environment; "
        "did you mean CORDWOOD_LOG_RETENTION_MS (log.retention.ms)?"
    )


def test_variables_of_a_spark_session_are_not_settings() -> None:
    variables = {"CORDWOOD_SPARK_CORES": "2", "CORDWOOD_SPARK_NURSERY": "/n", "CORDWOOD_NUM_PARTITIONS": "3"}
    assert environment_layer(variables).settings == {"num.partitions": "3"}


def test_no_two_keys_have_one_variable() -> None:
    assert len({variable_of(name) for name in BROKER}) == len(BROKER)


@pytest.mark.parametrize("assignment", ["log.retention.ms", "=5", ""])
def test_an_assignment_has_a_name_and_a_value(assignment: str) -> None:
    with pytest.raises(ConfigError, match="expected name=value"):
        command_line_layer([assignment])


def test_an_assignments_value_may_hold_anything() -> None:
    assert command_line_layer(["a=b=c", "a = d "]).settings == {"a": " d "}


def test_a_broken_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^server\.properties: Malformed"):
        file_layer("a=\\u1", "server.properties")


def test_a_listeners_key_wins_over_the_one_for_all() -> None:
    config = BrokerConfig({**MINIMAL, "max.connections": "5", "listener.name.inner.max.connections": "3"})
    assert config.for_listener("INNER", "max.connections") == 3
    assert config.for_listener("OUTER", "max.connections") == 5
    assert config.integer("max.connections") == 5


def test_a_mechanisms_key_is_known() -> None:
    config = BrokerConfig({**MINIMAL, "listener.name.inner.plain.sasl.jaas.config": "oak", "sasl.jaas.config": "elm"})
    assert config.for_listener("INNER", "plain.sasl.jaas.config") == Password("oak")
    assert config.for_listener("OUTER", "plain.sasl.jaas.config") == Password("elm")


def test_invalid_dynamic_settings_are_ignored_and_reported() -> None:
    config = broker().with_dynamic(
        {"listeners": "PLAINTEXT://:1", "cordoned.log.dirs": "*", "log.retention.ms": "x"},
        {"node.id": "5", "ssl.keystore.location": "/k", "num.io.threads": "9"},
    )
    assert config.dynamic_default == {}
    assert config.dynamic_broker == {"num.io.threads": "9"}
    assert config.left_out == [
        "listeners cannot be changed while a node runs",
        "cordoned.log.dirs can be changed for one broker only",
        "Invalid value x for configuration log.retention.ms: Not a number of type LONG",
        "node.id cannot be changed while a node runs",
        "ssl.keystore.location can be changed for one listener only, with its prefix",
    ]


def test_typed_reading() -> None:
    config = told({"ssl.key.password": "oak", "log.dirs": "/a, /b"})
    assert config.secret("ssl.key.password") == "oak"
    assert config.secret("ssl.keystore.password") is None
    assert config.log_dirs == ("/a", "/b")
    assert broker().log_dirs == ("/tmp/kafka-logs",)
    assert config.items("early.start.listeners") == ()
    assert config.flag("auto.create.topics.enable")
    assert config.number("log.cleaner.io.buffer.load.factor") == 0.9


def test_the_cleaners_defaults_are_its_own() -> None:
    assert broker().cleaner == CleanerConfig()
    assert broker(log_cleaner_threads="3", log_cleaner_enable="false").cleaner == CleanerConfig(threads=3, enable=False)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"log.retention.ms": "0"}, "log.retention.ms must be unlimited"),
        ({"log.retention.minutes": "0"}, "log.retention.ms must be unlimited"),
        ({"log.roll.ms": "0"}, "log.roll.ms must be greater than or equal to 1"),
        ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms must be greater than or equal to 0"),
        ({"replica.fetch.wait.max.ms": "31000"}, "replica.socket.timeout.ms should always be at least"),
        (
            {"replica.fetch.wait.max.ms": "31000", "replica.socket.timeout.ms": "40000"},
            "replica.fetch.wait.max.ms should always be less",
        ),
        ({"queued.max.request.bytes": "5"}, "queued.max.request.bytes must be larger"),
        ({"connections.max.idle.ms": "50"}, "connection.failed.authentication.delay.ms=100 should always be less"),
        ({"connections.max.idle.ms": "100"}, "connection.failed.authentication.delay.ms=100 should always be less"),
        ({"controller.quorum.voters": "2@a:1"}, "the node id 1 must be included in the set of voters"),
        ({"group.consumer.heartbeat.interval.ms": "4999"}, "must be greater than or equal to group.consumer.min"),
        ({"group.share.record.lock.duration.ms": "1000"}, "must be greater than or equal to group.share.min"),
        ({"group.streams.num.standby.replicas": "3"}, "group.streams.max.standby.replicas"),
        ({"cordoned.log.dirs": "/x"}, "Missing entries : /x"),
    ],
)
def test_keys_must_fit_each_other(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        told(settings)
    assert message in refused.value.message


def test_idle_timeouts_can_be_disabled() -> None:
    assert broker(connections_max_idle_ms="-1").integer("connections.max.idle.ms") == -1
    assert broker(connections_max_idle_ms="101").integer("connections.max.idle.ms") == 101


def test_a_broker_alone_is_not_a_voter() -> None:
    settings = {"process.roles": "broker", "listeners": "PLAINTEXT://:9092"}
    assert told({**settings, "controller.quorum.voters": "2@a:1"}).items("controller.quorum.voters") == ("2@a:1",)
    with pytest.raises(ConfigError, match="must not be included in the set of voters"):
        told({**settings, "controller.quorum.voters": "1@a:1"})


def test_a_quorum_must_be_found() -> None:
    with pytest.raises(ConfigError, match=r"either controller\.quorum\.bootstrap\.servers must contain"):
        told({"controller.quorum.bootstrap.servers": ""})
