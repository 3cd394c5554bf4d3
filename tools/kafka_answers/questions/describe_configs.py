"""Questions about DescribeConfigs."""

from __future__ import annotations

from kafka_answers.conversation import Conversation

from .common import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, create, describe_configs
from .incremental_alter_configs import SET, alter

_KEYS = ["retention.ms", "min.insync.replicas", "cleanup.policy", "max.message.bytes"]

CONVERSATION = Conversation(
    [
        create("t", configs={"retention.ms": "1000"}),
        alter((BROKER, "1", [("message.max.bytes", SET, "3000000"), ("log.retention.ms", SET, "86400000")])),
        alter((BROKER, "", [("message.max.bytes", SET, "2000000"), ("log.segment.bytes", SET, "5000000")])),
        describe_configs((TOPIC, "t", _KEYS), all_versions=True),
        describe_configs((TOPIC, "t", _KEYS), synonyms=False),
        describe_configs((TOPIC, "t", _KEYS), documentation=True, all_versions=True),
        describe_configs((TOPIC, "t", None)),
        describe_configs((TOPIC, "t", [])),
        describe_configs((TOPIC, "t", ["no.such.key"])),
        describe_configs((TOPIC, "t", ["retention.ms", "retention.ms"])),
        describe_configs((TOPIC, "t", ["retention.ms"]), (TOPIC, "t", ["retention.ms"])),
        describe_configs((TOPIC, "nowhere", None)),
        describe_configs((TOPIC, "", None)),
        describe_configs((TOPIC, "a b", None)),
        describe_configs((BROKER, "1", None)),
        describe_configs((BROKER, "1", ["node.id", "log.dirs"]), synonyms=False, all_versions=True),
        describe_configs((BROKER, "1", ["node.id", "message.max.bytes", "ssl.key.password", "no.such.key"])),
        describe_configs((BROKER, "", None), all_versions=True),
        describe_configs((BROKER, "", ["message.max.bytes"])),
        describe_configs((BROKER, "2", None)),
        describe_configs((BROKER, "one", None)),
        describe_configs((BROKER_LOGGER, "1", ["root"]), all_versions=True),
        describe_configs((BROKER_LOGGER, "1", ["no.such.logger"])),
        describe_configs((BROKER_LOGGER, "", None)),
        describe_configs((BROKER_LOGGER, "2", None)),
        describe_configs((BROKER_LOGGER, "one", None)),
        describe_configs((GROUP, "g", None)),
        describe_configs((GROUP, "", None)),
        describe_configs((CLIENT_METRICS, "m", None)),
        describe_configs((CLIENT_METRICS, "", None)),
        describe_configs((TOPIC, "t", ["retention.ms"]), (TOPIC, "nowhere", None), (BROKER, "1", ["node.id"])),
        describe_configs((1, "x", None)),
        describe_configs((0, "x", None)),
        describe_configs((99, "x", None)),
        describe_configs((TOPIC, "t", ["retention.ms"]), (1, "x", None)),
        describe_configs(),
    ]
)
