"""A typed read finds its registry and its subjects: readers as Spark's driver and tasks call them, a real node."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from cordwood.runtime.tls import KeyPair
from cordwood.spark.errors import BadOption, CannotRead
from cordwood.spark.sink.options import read_options
from cordwood.spark.sink.typed import typed_columns
from cordwood.spark.source.batch_reader import BatchReader
from cordwood.spark.source.options import batch_options
from cordwood.spark.source.pinned_schemas import pin
from cordwood.spark.source.table import default_schema
from tests.net.certificates import Authority, authority
from tests.spark.registry_fixtures import RegistryNode
from tests.spark.source_reading import rows

ORDER = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}
OTHER = {"type": "record", "name": "Other", "namespace": "shop", "fields": [{"name": "x", "type": "string"}]}


def read(given: dict[str, str], schema: StructType | None = None) -> list[dict[str, Any]]:
    options = batch_options(given)
    assert options.registry is not None
    pins = pin(options.registry, options.topics)
    made = default_schema(options, pins) if schema is None else schema
    assert isinstance(made, StructType)
    return rows(BatchReader(options, made, pins))


def values(given: dict[str, str]) -> list[Any]:
    return [row["value"] for row in read(given)]


def test_subjects_are_found_by_strategy_or_by_name(registry_node: RegistryNode, topic: str) -> None:
    registry_node.create(topic)
    registry_node.produce(topic, [{"id": 1}], ORDER, subject=f"{topic}-shop.Order")
    by_type = {"subjectNameStrategy": "TopicRecordNameStrategy", "valueRecordName": "shop.Order"}
    id_ = registry_node.client.latest(f"{topic}-shop.Order").id
    for chosen in (by_type, {"valueSubject": f"{topic}-shop.Order"}, {"valueSchemaId": str(id_)}):
        assert values(registry_node.options(topic, **chosen)) == [{"id": 1}]
    registry_node.client.register("shop.Order", json.dumps(ORDER))
    by_record = {"subjectNameStrategy": "RecordNameStrategy", "valueRecordName": "shop.Order"}
    assert values(registry_node.options(topic, **by_record)) == [{"id": 1}]
    with pytest.raises(CannotRead, match=rf"the values' schema, subject {topic}-value: the registry says: .*40401"):
        read(registry_node.options(topic))


def test_topics_of_one_schema_are_read_together_and_others_are_not(registry_node: RegistryNode, topic: str) -> None:
    one, same, other = f"{topic}-1", f"{topic}-2", f"{topic}-3"
    for name, schema, value in ((one, ORDER, {"id": 1}), (same, ORDER, {"id": 2}), (other, OTHER, {"x": "y"})):
        registry_node.create(name)
        registry_node.produce(name, [value], schema)
    assert values(registry_node.options(f"{one},{same}")) == [{"id": 1}, {"id": 2}]
    with pytest.raises(BadOption, match=r"the topics have values of different schemas: .*choose one with valueSubject"):
        read(registry_node.options(f"{one},{other}"))
    both = read(registry_node.options(f"{one},{other}", valueSubject=f"{one}-value"))
    assert [row["value"] for row in both] == [{"id": 1}, None]


def test_columns_may_be_left_out_but_not_changed(registry_node: RegistryNode, topic: str) -> None:
    registry_node.create(topic)
    registry_node.produce(topic, [{"id": 1}], ORDER)
    given = registry_node.options(topic)
    fitting = StructType().add("value", StructType().add("id", LongType(), False)).add("offset", LongType())
    assert read(given, fitting) == [{"value": {"id": 1}, "offset": 0}]
    with pytest.raises(BadOption, match=r"column value is struct<id:bigint> by version 1 of .*, not struct<id:string>"):
        read(given, StructType().add("value", StructType().add("id", StringType())))


def test_a_registry_that_does_not_answer_is_an_error(registry_node: RegistryNode, topic: str) -> None:
    with pytest.raises(CannotRead, match=r"the registry cannot be reached: 127\.0\.0\.1:1"):
        read(registry_node.options(topic) | {"registry": "http://127.0.0.1:1"})


def test_the_next_url_is_asked_where_one_does_not_answer(registry_node: RegistryNode, topic: str) -> None:
    registry_node.create(topic)
    registry_node.produce(topic, [{"id": 1}], ORDER)
    given = registry_node.options(topic) | {"registry": f"http://127.0.0.1:1, {registry_node.registry_url}"}
    assert values(given) == [{"id": 1}]


def test_recursive_schemas_are_refused_with_their_name(registry_node: RegistryNode, topic: str) -> None:
    node = {"name": "next", "type": ["null", "Node"]}
    registry_node.client.register(f"{topic}-value", json.dumps({"type": "record", "name": "Node", "fields": [node]}))
    with pytest.raises(BadOption, match="cannot be read as columns: the type Node is recursive"):
        read(registry_node.options(topic))


@contextmanager
def guarded_registry(bootstrap: str, folder: Path, trusted: Authority, keys: KeyPair) -> Iterator[str]:
    """One that asks for certificates and passwords; its URL."""
    (folder / "users").write_text("me: secret\n")
    assert keys.key_file is not None
    options = {
        "--bootstrap": bootstrap,
        "--port": "0",
        "--https-cert": keys.certificate_file,
        "--https-key": keys.key_file,
        "--https-ca": trusted.ca_file,
        "--users": str(folder / "users"),
    }
    words = [word for option in options.items() for word in option]
    command = [sys.executable, "-m", "cordwood", "registry", "--https-client-auth", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_a_registry_with_https_and_passwords_is_read_from_and_written_to(
    registry_node: RegistryNode, topic: str, tmp_path: Path
) -> None:
    registry_node.create(topic)
    registry_node.produce(topic, [{"id": 1}], ORDER)
    trusted = authority(tmp_path, "ca")
    keys, own = trusted.issue("registry"), trusted.issue("reader", "hidden")
    assert own.key_file is not None
    shown = {
        "registrySslCa": trusted.ca_file,
        "registrySslCertificate": own.certificate_file,
        "registrySslKey": own.key_file,
        "registrySslKeyPassword": "hidden",
    }
    with guarded_registry(registry_node.bootstrap, tmp_path, trusted, keys) as url:
        given = registry_node.options(topic) | {"registry": url}
        with pytest.raises(CannotRead, match="certificate"):
            read(given)
        with pytest.raises(CannotRead, match=r"error code 401"):
            read(given | shown)
        shown |= {"registryUser": "me", "registryPassword": "secret"}
        assert values(given | shown) == [{"id": 1}]
        writing = {"kafka.bootstrap.servers": registry_node.bootstrap, "topic": f"{topic}-copy", "registry": url}
        options = read_options(writing | {"valueFormat": "avro"} | shown, "a batch write")
        planned = typed_columns(options, StructType([StructField("id", LongType(), False)]))
        assert [each.column for each in planned] == ["value"]
        assert registry_node.client.latest(f"{topic}-copy-value").version == 1
