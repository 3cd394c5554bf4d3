"""Consumers on real nodes, for tests: made in a line, and read until enough has come."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import confluent_kafka

from cordwood.client.addresses import parse_bootstrap
from cordwood.client.consumer.consumer import Consumer
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.runtime.sockets import SocketNetwork
from cordwood.wire.record import ConsumerRecord

EARLIEST: dict[str, Any] = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 50}


@asynccontextmanager
async def consumer(bootstrap: str, *topics: str, **settings: Any) -> AsyncIterator[Consumer]:
    made = Consumer(
        *topics,
        settings=ConsumerSettings(**(EARLIEST | settings)),
        network=SocketNetwork(),
        bootstrap=parse_bootstrap(bootstrap),
    )
    async with made:
        yield made


async def read(source: Consumer, count: int, **limits: Any) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    while len(records) < count:
        for found in (await source.poll(1000, **limits)).values():
            records += found
    return records


def produce(
    bootstrap: str,
    topic: str,
    values: list[bytes],
    *,
    partition: int = 0,
    options: Mapping[str, str] | None = None,
) -> None:
    """By an independent client."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, **(options or {})})
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(30) == 0


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]
