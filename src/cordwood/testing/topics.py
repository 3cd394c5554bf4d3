"""Topics for tests, created by our own client."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from cordwood.client.addresses import parse_bootstrap
from cordwood.client.admin.topics import NewTopic, create_topics, until_led
from cordwood.client.client import Client
from cordwood.client.errors import ClientError
from cordwood.runtime.sockets import SocketNetwork
from cordwood.testing import NodeError

# Kafka allows 249; a name should stay readable in a log line.
_LABEL_LENGTH = 80


def unique_name(label: str = "topic") -> str:
    """Dots and underscores are left out: Kafka takes them for the same in its metrics' names, and warns of it."""
    readable = re.sub(r"[^a-zA-Z0-9]+", "-", label).strip("-")[:_LABEL_LENGTH] or "topic"
    return f"{readable}-{uuid.uuid4().hex[:8]}"


def create_topic(bootstrap: str, name: str, partitions: int, configs: Mapping[str, str]) -> None:
    """Returns when its partitions can be written. Raises `NodeError`."""
    # In a thread of its own, since the caller may be on an event loop.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(_create(bootstrap, NewTopic(name, partitions, configs=configs)))).result()


async def _create(bootstrap: str, topic: NewTopic) -> None:
    try:
        async with await Client.connect(parse_bootstrap(bootstrap), network=SocketNetwork()) as client:
            outcome = (await create_topics(client, [topic]))[topic.name]
            if isinstance(outcome, ClientError):
                raise outcome
            await until_led(client, [topic.name])
    except ClientError as error:
        raise NodeError(f"topic {topic.name} was not created: {error}") from error
