"""Questions about IncrementalAlterConfigs."""

from __future__ import annotations

from kafka_answers.conversation import ALL, Conversation, Question

from .common import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
    create,
    describe_configs,
)

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3

Changes = list[tuple[str, int, str | None]]


def alter(
    *resources: tuple[int, str, Changes], validate_only: bool = False, versions: tuple[int, ...] = ()
) -> Question:
    asked = [
        {
            "resourceType": kind,
            "resourceName": name,
            "configs": [
                {"name": key, "configOperation": operation, "value": value} for key, operation, value in changes
            ],
        }
        for kind, name, changes in resources
    ]
    return Question("IncrementalAlterConfigs", {"resources": asked, "validateOnly": validate_only}, versions)


_SEEN = ["retention.ms", "cleanup.policy", "follower.replication.throttled.replicas", "min.insync.replicas"]

CONVERSATION = Conversation(
    [
        create("t"),
        create("u"),
        # Topics
        alter((TOPIC, "t", [("retention.ms", SET, "1000")]), versions=ALL),
        alter((TOPIC, "t", [("retention.ms", SET, "2000")]), validate_only=True, versions=ALL),
        describe_configs((TOPIC, "t", _SEEN)),
        alter((TOPIC, "t", [("cleanup.policy", APPEND, "compact")])),
        alter((TOPIC, "t", [("cleanup.policy", APPEND, "compact")])),
        describe_configs((TOPIC, "t", _SEEN)),
        alter((TOPIC, "t", [("cleanup.policy", SUBTRACT, "delete"), ("retention.ms", DELETE, None)])),
        describe_configs((TOPIC, "t", _SEEN)),
        alter((TOPIC, "t", [("cleanup.policy", SUBTRACT, "compact")])),
        describe_configs((TOPIC, "t", _SEEN)),
        alter((TOPIC, "t", [("follower.replication.throttled.replicas", APPEND, "0:1,1:1")])),
        alter((TOPIC, "t", [("follower.replication.throttled.replicas", SUBTRACT, "0:1")])),
        describe_configs((TOPIC, "t", _SEEN)),
        alter((TOPIC, "t", [("retention.ms", DELETE, "ignored")])),
        alter((TOPIC, "t", [("retention.ms", APPEND, "1")])),
        alter((TOPIC, "t", [("retention.ms", SET, None)])),
        alter((TOPIC, "t", [("retention.ms", SET, None), ("cleanup.policy", APPEND, None)])),
        alter((TOPIC, "t", [("retention.ms", SET, "never")])),
        alter((TOPIC, "t", [("retention.ms", SET, "")])),
        alter((TOPIC, "t", [("no.such.key", SET, "1")])),
        alter((TOPIC, "t", [("no.such.key", DELETE, None)])),
        alter((TOPIC, "t", [("no.such.key", APPEND, "1")])),
        alter((TOPIC, "t", [("retention.ms", SET, "1"), ("retention.ms", SET, "2")])),
        alter((TOPIC, "t", [("retention.ms", SET, "77"), ("segment.bytes", SET, "1")])),
        alter((TOPIC, "t", [])),
        alter((TOPIC, "nowhere", [("retention.ms", SET, "1000")])),
        alter((TOPIC, "nowhere", [("retention.ms", SET, "never")])),
        alter((TOPIC, "", [("retention.ms", SET, "1000")])),
        alter((TOPIC, "t", [("retention.ms", SET, "1")]), (TOPIC, "t", [("retention.ms", SET, "2")])),
        alter((TOPIC, "t", [("retention.ms", SET, "5")]), (TOPIC, "u", [("retention.ms", SET, "x")])),
        alter((TOPIC, "t", [("min.insync.replicas", SET, "2")])),
        describe_configs((TOPIC, "t", _SEEN), (TOPIC, "u", _SEEN)),
        alter(),
        # Brokers
        alter((BROKER, "1", [("log.cleaner.threads", SET, "2")])),
        alter((BROKER, "", [("log.cleaner.threads", SET, "3")])),
        alter((BROKER, "", [("message.max.bytes", SET, "2000000")])),
        alter((BROKER, "1", [("background.threads", SET, "15")]), versions=ALL),
        describe_configs((BROKER, "1", ["background.threads", "message.max.bytes"]), (BROKER, "", None)),
        describe_configs((TOPIC, "u", ["max.message.bytes"])),
        alter((BROKER, "", [("message.max.bytes", DELETE, None)])),
        alter((BROKER, "1", [("background.threads", DELETE, None)])),
        alter((BROKER, "", [("log.cleaner.threads", DELETE, None)])),
        alter((BROKER, "1", [("log.cleaner.threads", DELETE, None)])),
        describe_configs((BROKER, "1", ["background.threads", "message.max.bytes"]), (BROKER, "", None)),
        alter((BROKER, "2", [("background.threads", SET, "15")])),
        alter((BROKER, "one", [("background.threads", SET, "15")])),
        alter((BROKER, "1", [("node.id", SET, "5")])),
        alter((BROKER, "1", [("background.threads", SET, "many")])),
        alter((BROKER, "1", [("background.threads", APPEND, "1")])),
        alter((BROKER, "", [("advertised.listeners", SET, "PLAINTEXT://x:1")])),
        alter((BROKER, "", [("min.insync.replicas", DELETE, None)])),
        alter((BROKER, "1", [("min.insync.replicas", SET, "1")])),
        alter((BROKER, "", [("min.insync.replicas", SET, "2")])),
        alter((BROKER, "", [("min.insync.replicas", SET, "1")])),
        # Groups, metrics
        alter((GROUP, "g", [("consumer.session.timeout.ms", SET, "50000")])),
        alter((GROUP, "g", [("consumer.session.timeout.ms", SET, "1")])),
        alter((GROUP, "g", [("no.such.key", SET, "1")])),
        alter((GROUP, "", [("consumer.session.timeout.ms", SET, "50000")])),
        describe_configs((GROUP, "g", ["consumer.session.timeout.ms"])),
        alter((CLIENT_METRICS, "m", [("interval.ms", SET, "1000"), ("metrics", SET, "a.b,c")])),
        alter((CLIENT_METRICS, "m", [("interval.ms", SET, "1")])),
        alter((CLIENT_METRICS, "m", [("match", SET, "client_id=[")])),
        alter((CLIENT_METRICS, "", [("interval.ms", SET, "1000")])),
        describe_configs((CLIENT_METRICS, "m", None)),
        # Loggers
        alter((BROKER_LOGGER, "1", [("root", SET, "WARN")])),
        describe_configs((BROKER_LOGGER, "1", ["root"])),
        alter((BROKER_LOGGER, "1", [("root", SET, "INFO")])),
        alter((BROKER_LOGGER, "1", [("root", SET, "ERROR")]), validate_only=True),
        describe_configs((BROKER_LOGGER, "1", ["root"])),
        alter((BROKER_LOGGER, "1", [("root", DELETE, None)])),
        alter((BROKER_LOGGER, "1", [("root", SET, "LOUD")])),
        alter((BROKER_LOGGER, "1", [("root", SET, "warn")])),
        alter((BROKER_LOGGER, "1", [("no.such.logger", SET, "INFO")])),
        alter((BROKER_LOGGER, "1", [("root", APPEND, "INFO")])),
        alter((BROKER_LOGGER, "2", [("root", SET, "INFO")])),
        alter((BROKER_LOGGER, "", [("root", SET, "INFO")])),
        alter((BROKER_LOGGER, "1", [("root", SET, "INFO")]), (TOPIC, "u", [("retention.ms", SET, "9")])),
        # Missing resources
        alter((1, "x", [("a", SET, "b")])),
        alter((0, "x", [("a", SET, "b")])),
        alter((99, "x", [("a", SET, "b")])),
    ]
)
