"""The clients for threads, made in a line."""

from typing import Any

from cordwood import (
    Consumer,
    Producer,
)
from tests.client.any_cluster import AnyCluster


def consumer_of(node: AnyCluster, *topics: str, **keywords: Any) -> Consumer:
    settings: Any = {"group_id": node.name("group"), "auto_offset_reset": "earliest", **keywords}
    return Consumer(*topics, bootstrap_servers=node.bootstrap, **settings)


def fill(producer: Producer, topic: str, count: int) -> None:
    for number in range(count):
        producer.send(topic, f"{number}", partition=0)
    producer.flush()
