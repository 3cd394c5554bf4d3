"""Members of groups, by librdkafka, which heartbeats automatically."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from confluent_kafka import Consumer

from tests.cli.cli_runner import until

Protocol = Literal["classic", "consumer"]


@contextmanager
def member(bootstrap: str, group: str, topic: str, protocol: Protocol = "classic") -> Iterator[Consumer]:
    """Has been assigned something when it is yielded."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": f"client-of-{group}",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([topic])
        # Nothing can be fetched before it is assigned, so these polls take no record away.
        until(lambda: consumer.poll(0) is None and bool(consumer.assignment()))
        yield consumer
    finally:
        consumer.close()
