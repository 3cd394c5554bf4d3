"""The options of a typed read: what is refused, and what is read from a checkpoint; without Spark and a registry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cordwood.spark.errors import BadOption
from cordwood.spark.registry_access import client_of
from cordwood.spark.sink.options import read_options
from cordwood.spark.source.options import SourceOptions, batch_options
from cordwood.spark.source.pinned_schemas import (
    PinnedSchema,
    pin,
    pins_from_json,
    pins_in_checkpoint,
    pins_to_json,
)


def options(**given: str) -> SourceOptions:
    return batch_options({"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders", **given})


def typed(**given: str) -> SourceOptions:
    return options(registry="http://localhost:8081", **given)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"valueFormat": "avro"}, "valueFormat=avro needs the option registry"),
        ({"keyFormat": "avro"}, "keyFormat goes with the option registry"),
        ({"registry": "localhost:8081", "valueFormat": "avro"}, "expected http://host:port or https://host:port"),
        (
            {"registry": "http://r"},
            "registry needs valueFormat or keyFormat; expected avro or json or protobuf or auto",
        ),
        ({"registry": "http://r", "valueFormat": "xml"}, "valueFormat is 'xml'; expected bytes or avro or"),
        (
            {"registry": "http://r", "valueFormat": "avro", "valueSchema": "id INT"},
            "valueSchema is for valueFormat=json without registry",
        ),
        (
            {"registry": "http://r", "valueFormat": "avro", "keySubject": "x"},
            r"keySubject goes with keyFormat=avro\|json\|protobuf\|auto",
        ),
        (
            {"registry": "http://r", "valueFormat": "avro", "valueSchemaId": "1", "valueSchemaVersion": "2"},
            "valueSchemaVersion and valueSchemaId both choose the reader's schema",
        ),
        ({"registry": "http://r", "valueFormat": "auto", "valueReaderSchema": '"int"'}, "needs valueFormat=avro, json"),
        ({"registry": "http://r", "valueFormat": "avro", "valueMessage": "M"}, "goes with valueFormat=protobuf"),
        (
            {"registry": "http://r", "valueFormat": "avro", "valueSchemaVersion": "old"},
            "expected a whole number from 1",
        ),
        (
            {"registry": "http://r", "valueFormat": "avro", "subjectNameStrategy": "RecordNameStrategy"},
            "needs valueRecordName, the full name of the record's type, or valueSubject",
        ),
        ({"registry": "http://r", "valueFormat": "avro", "registryPassword": "x"}, "goes with registryUser"),
        ({"registry": "http://r", "valueFormat": "avro", "registrySslKey": "x"}, "goes with registrySslCertificate"),
        ({"registry": "http://r", "valueFormat": "avro", "mode": "LAX"}, "mode is 'LAX'; expected PERMISSIVE or"),
        ({"registry": "http://r", "valueFormat": "avro", "valueSubjct": "x"}, "did you mean valueSubject"),
    ],
)
def test_conflicting_options_are_refused(given: dict[str, str], told: str) -> None:
    with pytest.raises(BadOption, match=told):
        options(**given)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"registry": "localhost:8081", "valueFormat": "avro"}, "expected http://host:port or https://host:port"),
        ({"registry": "http://r", "valueFormat": "avro", "registryPassword": "x"}, "goes with registryUser"),
        ({"registrySslCa": "ca.pem"}, "registrySslCa goes with the option registry"),
    ],
)
def test_a_write_refuses_the_same(given: dict[str, str], told: str) -> None:
    with pytest.raises(BadOption, match=told):
        read_options({"kafka.bootstrap.servers": "localhost:9092", "topic": "orders", **given}, "a batch write")


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    read = typed(valueFormat="avro", registrySslCa=str(tmp_path / "none.pem"))
    assert read.registry is not None
    with pytest.raises(BadOption, match=r"in the registrySsl options: .*none\.pem"):
        client_of(read.registry.connection)


def test_a_pattern_of_topics_needs_a_subject() -> None:
    read = batch_options(
        {
            "kafka.bootstrap.servers": "localhost:9092",
            "subscribePattern": "orders.*",
            "registry": "http://localhost:8081",
            "valueFormat": "avro",
        }
    )
    assert read.registry is not None
    with pytest.raises(BadOption, match="subscribePattern needs valueSubject"):
        pin(read.registry, read.topics)


def test_pins_go_through_a_checkpoints_offsets() -> None:
    pins = (PinnedSchema("key", "o-key", 1, 4), PinnedSchema("value", "o-value", 3, 7, message="p.M"))
    assert pins_from_json(json.loads(json.dumps(pins_to_json(pins)))) == pins
    assert pins_to_json((PinnedSchema("value", given=("AVRO", '"int"')),)) == {}


def write_offsets(folder: Path, batch: int, *sources: Any) -> None:
    (folder / "offsets").mkdir(parents=True, exist_ok=True)
    lines = ["v1", "{}", *(each if isinstance(each, str) else json.dumps(each) for each in sources)]
    (folder / "offsets" / str(batch)).write_text("\n".join(lines))


def test_a_checkpoints_last_batch_says_what_is_pinned(tmp_path: Path) -> None:
    now = (PinnedSchema("value", "o-value", 3, 7),)
    assert pins_in_checkpoint(str(tmp_path), now) == now
    older, old = (pins_to_json((PinnedSchema("value", "o-value", each, each + 4),)) for each in (1, 2))
    write_offsets(tmp_path, 9, {"o": {"0": 1}, **older})
    other = pins_to_json((PinnedSchema("value", "x-value", 9, 9),))
    write_offsets(tmp_path, 10, "-", {"x": {"0": 1}, **other}, {"o": {"0": 2}, **old})
    (tmp_path / "offsets" / ".10.crc").write_bytes(b"\xff")
    assert pins_in_checkpoint(str(tmp_path), now) == (PinnedSchema("value", "o-value", 2, 6),)
    assert pins_in_checkpoint(f"file://{tmp_path}", now) == (PinnedSchema("value", "o-value", 2, 6),)
