"""DescribeConfigs, against the answers of Kafka's own brokers."""

from __future__ import annotations

from typing import Any

import pytest

from cordwood.config.broker import BrokerConfig
from cordwood.config.definition import ConfigSource, ResourceType
from cordwood.config.requests.describe import (
    Entry,
    describe_broker,
    describe_broker_default,
    describe_client_metrics,
    describe_group,
    describe_loggers,
    describe_topic,
)
from cordwood.config.validation.values import Type
from tests.config.kafka_broker import (
    answering_broker,
    answers,
    broker,
    data_dir_broker,
    data_dir_facts,
    data_dir_settings,
    told,
)


def describe(config: BrokerConfig, kind: int, name: str, settings: dict[str, str]) -> list[Entry]:
    match kind:
        case ResourceType.TOPIC:
            return describe_topic(config, settings)
        case ResourceType.GROUP:
            return describe_group(config, settings)
        case ResourceType.CLIENT_METRICS:
            return describe_client_metrics(settings)
        case _:
            return describe_broker(config) if name else describe_broker_default(config)


def as_recorded(entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": entry.value,
        "source": entry.source.name,
        "type": Type(entry.type).name if entry.type else "UNKNOWN",
        "readOnly": entry.read_only,
        "sensitive": entry.sensitive,
        "synonyms": [
            {"name": synonym.name, "value": synonym.value, "source": synonym.source.name} for synonym in entry.synonyms
        ],
    }


@pytest.mark.parametrize("index", range(6))
def test_every_entry_of_the_data_directorys_broker_comes_out_equal(index: int) -> None:
    recorded = data_dir_facts()["live"]["describeConfigs"][index]
    kind = ResourceType[recorded["type"]]
    settings = data_dir_settings().get((kind, recorded["name"]), {})
    entries = describe(data_dir_broker(), kind, recorded["name"], settings)
    assert [as_recorded(entry) for entry in entries] == recorded["entries"]


@pytest.mark.parametrize("index", range(5))
def test_every_entry_after_changes_comes_out_equal(index: int) -> None:
    """Values with blanks and repeated entries, listeners' keys, unknown keys, quotas, client metrics."""
    recorded = answers()["described"][index]
    settings = {tuple(key.split("/")): value for key, value in answers()["settings"].items()}
    config = answering_broker().with_dynamic(settings["4", ""], settings["4", "1"])
    own = settings[str(recorded["type"]), recorded["name"]]
    entries = describe(config, recorded["type"], recorded["name"], own)
    assert [
        {
            **as_recorded(entry),
            "source": int(entry.source),
            "type": entry.type,
            "synonyms": [[synonym.name, synonym.value, int(synonym.source)] for synonym in entry.synonyms],
        }
        for entry in entries
    ] == recorded["entries"]


def entry_of(entries: list[Entry], name: str) -> Entry:
    return next(entry for entry in entries if entry.name == name)


def test_secrets_are_never_reported() -> None:
    entries = describe_broker(told({"ssl.keystore.password": "oak", "listener.name.plaintext.ssl.key.password": "elm"}))
    for name in ("ssl.keystore.password", "listener.name.plaintext.ssl.key.password"):
        entry = entry_of(entries, name)
        assert (entry.value, entry.sensitive) == (None, True)
        assert [synonym.value for synonym in entry.synonyms] == [None]


def test_an_internal_key_is_described_only_where_it_is_set() -> None:
    name = "log.initial.task.delay.ms"
    assert name not in [entry.name for entry in describe_broker(broker())]
    assert entry_of(describe_broker(broker(log_initial_task_delay_ms="5")), name).value == "5"


def test_a_coarser_synonym_that_counts_is_not_named_as_the_source() -> None:
    """As Kafka: the value is right, the source says default."""
    entry = entry_of(describe_topic(broker(log_retention_hours="1"), {}), "retention.ms")
    assert (entry.value, entry.source, entry.synonyms) == ("3600000", ConfigSource.DEFAULT_CONFIG, ())


def test_loggers_have_no_type_and_no_synonyms() -> None:
    assert describe_loggers({"root": "INFO"}) == [
        Entry("root", "INFO", ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG, 0, False, False, ())
    ]
