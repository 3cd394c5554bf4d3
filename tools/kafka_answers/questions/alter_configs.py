"""Questions about AlterConfigs."""

from __future__ import annotations

from kafka_answers.conversation import ALL, Conversation, Question

from .common import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, create, describe_configs


def _replace(
    *resources: tuple[int, str, list[tuple[str, str | None]]],
    validate_only: bool = False,
    versions: tuple[int, ...] = (),
) -> Question:
    asked = [
        {
            "resourceType": kind,
            "resourceName": name,
            "configs": [{"name": key, "value": value} for key, value in settings],
        }
        for kind, name, settings in resources
    ]
    return Question("AlterConfigs", {"resources": asked, "validateOnly": validate_only}, versions)


_SEEN = ["retention.ms", "segment.bytes"]

CONVERSATION = Conversation(
    [
        create("t", configs={"segment.bytes": "2000000"}),
        _replace((TOPIC, "t", [("retention.ms", "1000")]), validate_only=True, versions=ALL),
        describe_configs((TOPIC, "t", _SEEN)),
        _replace((TOPIC, "t", [("retention.ms", "1000")]), versions=ALL),
        describe_configs((TOPIC, "t", _SEEN)),
        _replace((TOPIC, "t", [])),
        describe_configs((TOPIC, "t", _SEEN)),
        _replace((TOPIC, "t", [("retention.ms", None)])),
        _replace((TOPIC, "t", [("retention.ms", "never")])),
        _replace((TOPIC, "t", [("no.such.key", "1")])),
        _replace((TOPIC, "t", [("retention.ms", "1"), ("retention.ms", "2")])),
        _replace((TOPIC, "nowhere", [("retention.ms", "1")])),
        _replace((TOPIC, "", [("retention.ms", "1")])),
        _replace((BROKER, "1", [("background.threads", "12")])),
        describe_configs((BROKER, "1", ["background.threads"])),
        _replace((BROKER, "1", [])),
        describe_configs((BROKER, "1", ["background.threads"])),
        _replace((BROKER, "", [("message.max.bytes", "2000000")])),
        _replace((BROKER, "", [("message.max.bytes", "2000000"), ("min.insync.replicas", "1")])),
        describe_configs((BROKER, "", None)),
        _replace((BROKER, "2", [])),
        _replace((GROUP, "g", [("consumer.session.timeout.ms", "50000")])),
        _replace((CLIENT_METRICS, "m", [("interval.ms", "1000")])),
        _replace((BROKER_LOGGER, "1", [("root", "INFO")])),
        _replace((1, "x", [("a", "b")])),
        _replace(),
    ]
)
