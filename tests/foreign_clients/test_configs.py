"""Configurations of topics and brokers: described, replaced, changed by key."""

from collections.abc import Iterator

import pytest

from cordwood.wire.errors import ErrorCode
from tests.foreign_clients.kafka_client import (
    Admin,
    ConfigChange,
    ConfigValue,
    IncrementalAdmin,
    Record,
    Resource,
    eventually,
    refusal_of,
)
from tests.foreign_clients.librdkafka_client import LibrdkafkaClient

TOPIC_SOURCE, BROKER_SOURCE, DEFAULT_SOURCE = 1, 2, 5


def await_config(admin: Admin, resource: Resource, key: str, value: str | None, source: int) -> None:
    eventually(lambda: admin.configs(resource)[key], lambda config: config == ConfigValue(value, source))


def test_a_topics_configuration_distinguishes_settings_from_defaults(admin: Admin, topic: str) -> None:
    admin.create_topic(topic, configs={"retention.ms": "5000", "cleanup.policy": "compact"})
    configs = eventually(lambda: admin.configs(Resource("topic", topic)))
    assert configs["retention.ms"] == ConfigValue("5000", TOPIC_SOURCE)
    assert configs["cleanup.policy"] == ConfigValue("compact", TOPIC_SOURCE)
    assert configs["compression.type"] == ConfigValue("producer", DEFAULT_SOURCE)
    assert configs["max.message.bytes"] == ConfigValue("1048588", DEFAULT_SOURCE)


# kafka-python passes over the error.
@pytest.mark.parametrize("admin", ["librdkafka", "aiokafka", "cordwood"], indirect=True)
def test_the_configuration_of_an_unknown_topic_is_refused(admin: Admin, topic: str) -> None:
    assert refusal_of(lambda: admin.configs(Resource("topic", topic))) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_replacing_a_configuration_resets_settings_that_are_not_named(admin: Admin, topic: str) -> None:
    admin.create_topic(topic, configs={"retention.ms": "5000", "segment.ms": "60000"})
    resource = Resource("topic", topic)
    admin.replace_configs(resource, {"segment.ms": "70000"})
    await_config(admin, resource, "segment.ms", "70000", TOPIC_SOURCE)
    await_config(admin, resource, "retention.ms", "604800000", DEFAULT_SOURCE)


def test_a_bad_value_is_refused_and_changes_nothing(admin: Admin, topic: str) -> None:
    admin.create_topic(topic, configs={"retention.ms": "5000"})
    resource = Resource("topic", topic)
    assert refusal_of(lambda: admin.replace_configs(resource, {"retention.ms": "soon"})) == ErrorCode.INVALID_CONFIG
    await_config(admin, resource, "retention.ms", "5000", TOPIC_SOURCE)


def test_keys_are_set_and_deleted_one_by_one(incremental_admin: IncrementalAdmin, topic: str) -> None:
    admin, resource = incremental_admin, Resource("topic", topic)
    admin.create_topic(topic, configs={"retention.ms": "5000", "segment.ms": "60000"})
    admin.change_configs(
        resource, [ConfigChange("set", "max.message.bytes", "2000000"), ConfigChange("delete", "segment.ms")]
    )
    await_config(admin, resource, "max.message.bytes", "2000000", TOPIC_SOURCE)
    await_config(admin, resource, "segment.ms", "604800000", DEFAULT_SOURCE)
    await_config(admin, resource, "retention.ms", "5000", TOPIC_SOURCE)


def test_lists_grow_and_shrink(incremental_admin: IncrementalAdmin, topic: str) -> None:
    admin, resource = incremental_admin, Resource("topic", topic)
    admin.create_topic(topic, configs={"cleanup.policy": "delete"})
    admin.change_configs(resource, [ConfigChange("append", "cleanup.policy", "compact")])
    await_config(admin, resource, "cleanup.policy", "delete,compact", TOPIC_SOURCE)
    admin.change_configs(resource, [ConfigChange("subtract", "cleanup.policy", "delete")])
    await_config(admin, resource, "cleanup.policy", "compact", TOPIC_SOURCE)


def test_appending_to_a_non_list_is_refused(incremental_admin: IncrementalAdmin, topic: str) -> None:
    incremental_admin.create_topic(topic)
    change = ConfigChange("append", "retention.ms", "1")
    assert (
        refusal_of(lambda: incremental_admin.change_configs(Resource("topic", topic), [change]))
        == ErrorCode.INVALID_CONFIG
    )


def test_an_unknown_key_is_refused(incremental_admin: IncrementalAdmin, topic: str) -> None:
    incremental_admin.create_topic(topic)
    change = ConfigChange("set", "no.such.key", "1")
    assert (
        refusal_of(lambda: incremental_admin.change_configs(Resource("topic", topic), [change]))
        == ErrorCode.INVALID_CONFIG
    )


@pytest.fixture
def broker(librdkafka: LibrdkafkaClient, topic: str) -> Iterator[Resource]:
    """The broker that leads, whose changed key goes back to its default afterwards."""
    librdkafka.create_topic(topic)
    leader = eventually(lambda: librdkafka.leaders(topic), lambda leaders: leaders.get(0, -1) >= 0)[0]
    resource = Resource("broker", str(leader))
    yield resource
    librdkafka.change_configs(resource, [ConfigChange("delete", "message.max.bytes")])


def test_a_brokers_configuration_is_described(admin: Admin, librdkafka: LibrdkafkaClient, topic: str) -> None:
    librdkafka.create_topic(topic)
    leader = eventually(lambda: librdkafka.leaders(topic), lambda leaders: leaders.get(0, -1) >= 0)[0]
    configs = admin.configs(Resource("broker", str(leader)))
    assert configs["node.id"].value == str(leader)
    assert configs["num.recovery.threads.per.data.dir"].value is not None


def test_a_brokers_configuration_is_changed_while_it_runs(
    incremental_admin: IncrementalAdmin, broker: Resource, topic: str
) -> None:
    admin = incremental_admin
    admin.change_configs(broker, [ConfigChange("set", "message.max.bytes", "5000")])
    await_config(admin, broker, "message.max.bytes", "5000", BROKER_SOURCE)

    def refusal() -> int | None:
        return refusal_of(lambda: admin.produce(topic, [Record(b"x" * 6000)]))

    eventually(refusal, lambda code: code == ErrorCode.MESSAGE_TOO_LARGE)
    admin.change_configs(broker, [ConfigChange("delete", "message.max.bytes")])
    await_config(admin, broker, "message.max.bytes", "1048588", DEFAULT_SOURCE)
    eventually(refusal, lambda code: code is None)


def test_a_brokers_configuration_is_replaced(admin: Admin, broker: Resource) -> None:
    admin.replace_configs(broker, {"message.max.bytes": "900000"})
    await_config(admin, broker, "message.max.bytes", "900000", BROKER_SOURCE)
    admin.replace_configs(broker, {"log.cleaner.threads": "1"})
    await_config(admin, broker, "message.max.bytes", "1048588", DEFAULT_SOURCE)
    admin.replace_configs(broker, {})


def test_a_read_only_key_of_a_broker_is_refused(incremental_admin: IncrementalAdmin, broker: Resource) -> None:
    change = ConfigChange("set", "log.dirs", "elsewhere")
    assert refusal_of(lambda: incremental_admin.change_configs(broker, [change])) == ErrorCode.INVALID_REQUEST
