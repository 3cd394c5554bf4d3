"""Broker keys that Kafka doesn't have. Their names begin with `cordwood.`, which Kafka will never use.

They are internal in Kafka's sense: DescribeConfigs reports them only once they are set, so its responses match Kafka's.
"""

from __future__ import annotations

from cordwood.config.definition import Definition, Importance, UpdateMode
from cordwood.config.validation.validity import OneOf, Range, Validity
from cordwood.config.validation.values import Type

METRICS_TOPICS_ENABLE = "cordwood.metrics.topics.enable"
METRICS_TOPICS_MAX = "cordwood.metrics.topics.max"
METRICS_LAG_ENABLE = "cordwood.metrics.consumer.lag.enable"
METRICS_LAG_MAX = "cordwood.metrics.consumer.lag.max"
RECONNECT_GRACE_MS = "cordwood.broker.reconnect.grace.ms"
REGISTRY_LISTENERS = "cordwood.registry.listeners"
REGISTRY_ADVERTISED_URL = "cordwood.registry.advertised.url"
REGISTRY_REPLICATION_FACTOR = "cordwood.registry.topic.replication.factor"
REGISTRY_INIT_TIMEOUT_MS = "cordwood.registry.init.timeout.ms"
REGISTRY_TIMEOUT_MS = "cordwood.registry.timeout.ms"
REGISTRY_USERS_FILE = "cordwood.registry.users.file"
REGISTRY_KEYSTORE = "cordwood.registry.ssl.keystore.location"
REGISTRY_KEY_PASSWORD = "cordwood.registry.ssl.key.password"
REGISTRY_TRUSTSTORE = "cordwood.registry.ssl.truststore.location"
REGISTRY_CLIENT_AUTH = "cordwood.registry.ssl.client.auth"


def _definition(
    name: str,
    type_: Type,
    default: bool | int | str | tuple[str, ...] | None,
    valid: Validity | None = None,
    update: UpdateMode = UpdateMode.CLUSTER_WIDE,
) -> Definition:
    return Definition(name, type_, default, valid=valid, importance=Importance.LOW, update=update, internal=True)


OWN_KEYS = (
    _definition(RECONNECT_GRACE_MS, Type.INT, 300, Range(1), UpdateMode.READ_ONLY),
    _definition(METRICS_LAG_ENABLE, Type.BOOLEAN, True),
    _definition(METRICS_LAG_MAX, Type.INT, 10_000, Range(0)),
    _definition(METRICS_TOPICS_ENABLE, Type.BOOLEAN, True),
    _definition(METRICS_TOPICS_MAX, Type.INT, 1_000, Range(0)),
    _definition(REGISTRY_LISTENERS, Type.LIST, (), update=UpdateMode.READ_ONLY),
    _definition(REGISTRY_ADVERTISED_URL, Type.STRING, None, update=UpdateMode.READ_ONLY),
    _definition(REGISTRY_REPLICATION_FACTOR, Type.INT, -1, Range(-1), UpdateMode.READ_ONLY),
    _definition(REGISTRY_INIT_TIMEOUT_MS, Type.INT, 60_000, Range(1), UpdateMode.READ_ONLY),
    _definition(REGISTRY_TIMEOUT_MS, Type.INT, 15_000, Range(1), UpdateMode.READ_ONLY),
    _definition(REGISTRY_USERS_FILE, Type.STRING, None, update=UpdateMode.READ_ONLY),
    _definition(REGISTRY_KEYSTORE, Type.STRING, None, update=UpdateMode.READ_ONLY),
    _definition(REGISTRY_KEY_PASSWORD, Type.PASSWORD, None, update=UpdateMode.READ_ONLY),
    _definition(REGISTRY_TRUSTSTORE, Type.STRING, None, update=UpdateMode.READ_ONLY),
    _definition(
        REGISTRY_CLIENT_AUTH, Type.STRING, "none", OneOf(("none", "requested", "required")), UpdateMode.READ_ONLY
    ),
)
