"""Creates topics for tests with Cordwood's own client."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

from cordwood.client.addresses import parse_bootstrap
from cordwood.client.admin.topic_descriptions import describe_topics
from cordwood.client.admin.topics import CLUSTER_DEFAULT, NewTopic, create_topics, until_led
from cordwood.client.client import Client
from cordwood.client.errors import ClientError
from cordwood.runtime.sockets import SocketNetwork
from cordwood.testing import NodeError

# Kafka allows 249; a name should stay readable in a log line.
_LABEL_LENGTH = 80
_POLL_S = 0.05
_PATIENCE_S = 60.0


def unique_name(label: str = "topic") -> str:
    """Omits dots and underscores: they collide in Kafka's metric names, which causes warnings."""
    readable = re.sub(r"[^a-zA-Z0-9]+", "-", label).strip("-")[:_LABEL_LENGTH] or "topic"
    return f"{readable}-{uuid.uuid4().hex[:8]}"


def create_topic(
    bootstrap: str, name: str, partitions: int, configs: Mapping[str, str], replication_factor: int = CLUSTER_DEFAULT
) -> None:
    """Returns when its partitions are writable. Raises `NodeError`."""
    topic = NewTopic(name, partitions, replication_factor, configs=configs)
    # In a separate thread, because the caller may be on an event loop.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(_create(bootstrap, topic))).result()


def partition_leader(bootstrap: str, topic: str, partition: int, down: Collection[int]) -> int:
    """The broker that leads the partition, once that is none of `down`. Raises `NodeError`."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(_leader(bootstrap, topic, partition, down))).result()


async def _create(bootstrap: str, topic: NewTopic) -> None:
    try:
        async with await Client.connect(parse_bootstrap(bootstrap), network=SocketNetwork()) as client:
            outcome = (await create_topics(client, [topic]))[topic.name]
            if isinstance(outcome, ClientError):
                raise outcome
            await until_led(client, [topic.name])
    except ClientError as error:
        raise NodeError(f"topic {topic.name} was not created: {error}") from error


async def _leader(bootstrap: str, topic: str, partition: int, down: Collection[int]) -> int:
    try:
        async with (
            asyncio.timeout(_PATIENCE_S),
            await Client.connect(parse_bootstrap(bootstrap), network=SocketNetwork()) as client,
        ):
            while True:
                described = (await describe_topics(client, [topic]))[topic]
                if isinstance(described, ClientError):
                    raise described
                leaders = {each.index: each.leader for each in described.partitions}
                if partition not in leaders:
                    raise NodeError(f"topic {topic} has no partition {partition}")
                leader = leaders[partition]
                if leader is not None and leader >= 0 and leader not in down:
                    return leader
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise NodeError(f"{topic}-{partition} has no leader that is up after {_PATIENCE_S:g} s") from None
    except ClientError as error:
        raise NodeError(f"the leader of {topic}-{partition} is not known: {error}") from error
