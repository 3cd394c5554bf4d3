"""Documentation of settings: every effective one has a description, default, range and when a change applies."""

import pytest

from cordwood.config.definition import Definitions, ResourceType
from cordwood.config.definitions.broker import BROKER, BROKER_QUOTAS
from cordwood.config.definitions.client_metrics import CLIENT_METRICS
from cordwood.config.definitions.group import GROUP
from cordwood.config.definitions.topic import TOPIC
from cordwood.config.descriptions.broker import BROKER_DESCRIPTIONS
from cordwood.config.descriptions.group import CLIENT_METRICS_DESCRIPTIONS, GROUP_DESCRIPTIONS
from cordwood.config.descriptions.topic import TOPIC_DESCRIPTIONS
from cordwood.config.effects import SECTIONS, Effect
from cordwood.config.requests.documentation import description_of, documentation_of

SECTION_OF = {id(section.definitions): section for section in SECTIONS}


@pytest.mark.parametrize(
    ("resource", "definitions"),
    [
        (ResourceType.BROKER, BROKER),
        (ResourceType.BROKER, BROKER_QUOTAS),
        (ResourceType.TOPIC, TOPIC),
        (ResourceType.GROUP, GROUP),
    ],
    ids=["broker", "broker, while it runs", "topic", "group"],
)
def test_every_setting_that_has_an_effect_is_described(resource: ResourceType, definitions: Definitions) -> None:
    section = SECTION_OF[id(definitions)]
    works = [name for name in definitions if section.rule_of(name).effect is Effect.WORKS]
    assert [name for name in works if description_of(resource, name) is None] == []


def test_descriptions_are_of_settings_that_exist() -> None:
    assert BROKER_DESCRIPTIONS.keys() <= BROKER.keys() | BROKER_QUOTAS.keys()
    assert TOPIC_DESCRIPTIONS.keys() == TOPIC.keys()
    assert GROUP_DESCRIPTIONS.keys() == GROUP.keys()
    assert CLIENT_METRICS_DESCRIPTIONS.keys() == CLIENT_METRICS.keys()


def test_descriptions_are_sentences() -> None:
    texts = (TOPIC_DESCRIPTIONS | BROKER_DESCRIPTIONS | GROUP_DESCRIPTIONS | CLIENT_METRICS_DESCRIPTIONS).values()
    assert [text for text in texts if not text[0].isupper() or not text.endswith(".") or "  " in text] == []


@pytest.mark.parametrize(
    ("resource", "name", "parts"),
    [
        (
            ResourceType.TOPIC,
            "retention.ms",
            [
                "How long records are kept",
                "Default: the broker's log.retention.ms or log.retention.minutes or log.retention.hours; if that is "
                "not set, 604800000 (7 days).",
                "Allowed: a 64-bit number, at least -1.",
                "Takes effect at once.",
            ],
        ),
        (ResourceType.TOPIC, "compression.gzip.level", ["Allowed: a 32-bit number, 1 to 9, or -1."]),
        (ResourceType.TOPIC, "cleanup.policy", ["Allowed: a comma-separated list of compact, delete."]),
        (ResourceType.TOPIC, "preallocate", ["Has no effect in Cordwood: files are not preallocated"]),
        (ResourceType.BROKER, "num.partitions", ["Default: 1.", "Takes effect when the node is restarted."]),
        (ResourceType.BROKER, "node.id", ["Default: none; it must be set."]),
        (ResourceType.BROKER, "log.segment.bytes", ["The default of segment.bytes for topics.", "(1 GiB)"]),
        (ResourceType.BROKER, "log.cleaner.threads", ["can be changed for one broker or for all."]),
        (ResourceType.BROKER, "cordoned.log.dirs", ["can be changed for one broker at a time."]),
        (
            ResourceType.BROKER,
            "ssl.client.auth",
            ["Allowed: required, requested, none.", "can be changed for one broker at a time."],
        ),
        (ResourceType.BROKER, "listener.name.inner.ssl.key.password", ["The password of the private key."]),
        (ResourceType.BROKER, "controller.performance.sample.period.ms", ["Has no effect in Cordwood yet."]),
        (ResourceType.GROUP, "consumer.session.timeout.ms", ["may be silent", "45000 (45 seconds)"]),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_documentation_has_default_range_and_the_time_of_effect(
    resource: ResourceType, name: str, parts: list[str]
) -> None:
    text = documentation_of(resource, name)
    assert text is not None
    assert [part for part in parts if part not in text] == []


def test_an_unknown_setting_has_no_documentation() -> None:
    assert documentation_of(ResourceType.TOPIC, "retenton.ms") is None
