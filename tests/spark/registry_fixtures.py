"""A node with a schema registry, and records that are written with its schemas."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession

import cordwood.testing
from cordwood import Admin, NewTopic, Producer
from cordwood.registry import RegistryClient, Serializer


class RegistryNode(NamedTuple):
    bootstrap: str
    registry_url: str
    client: RegistryClient

    def create(self, topic: str) -> None:
        """A topic of one partition, so that records keep their order."""
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.create_topics([NewTopic(topic, partitions=1)])
            admin.until_topics_led([topic])

    def produce(
        self, topic: str, values: Iterable[Any], schema: Any = None, schema_type: str = "AVRO", **more: Any
    ) -> None:
        """Without a schema, as bytes. Everything else is the serializer's."""
        serializer = None if schema is None else Serializer(self.client, text_of(schema), schema_type, **more)
        with Producer(bootstrap_servers=self.bootstrap, value_serializer=serializer) as producer:
            for value in values:
                producer.send(topic, value)

    def options(self, topic: str, **more: str) -> dict[str, str]:
        """The rows of a typed read; names with `__` have a dot there."""
        given = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": topic, "registry": self.registry_url}
        return given | {"valueFormat": "avro"} | {name.replace("__", "."): value for name, value in more.items()}

    def read(self, spark: SparkSession, topic: str, **more: str) -> DataFrame:
        return spark.read.format("cordwood").options(**self.options(topic, **more)).load()


def text_of(schema: Any) -> str:
    return schema if isinstance(schema, str) else json.dumps(schema)


@pytest.fixture(scope="session")
def registry_node() -> Iterator[RegistryNode]:
    with cordwood.testing.node(registry=True) as node:
        assert node.registry_url is not None
        yield RegistryNode(node.bootstrap, node.registry_url, RegistryClient(node.registry_url))
