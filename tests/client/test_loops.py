"""An async client in another event loop than its own says so, and does not wait there for what will not come."""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from cordwood import IllegalState
from cordwood.aio import Admin, Consumer, Producer
from tests.client.any_cluster import AnyCluster

RULE = "belongs to the event loop that started it"


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """That of the client."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def refused(call: Coroutine[Any, Any, Any]) -> None:
    """In another loop."""
    with pytest.raises(IllegalState, match=RULE):
        asyncio.run(call)


async def started(kind: Any, *topics: str, **settings: Any) -> Any:
    client = kind(*topics, **settings)
    await client.start()
    return client


def test_a_producer_says_that_it_is_of_another_loop(node: AnyCluster, loop: asyncio.AbstractEventLoop) -> None:
    producer = loop.run_until_complete(started(Producer, bootstrap_servers=node.bootstrap))
    refused(producer.flush())
    refused(producer.partitions_for("t"))
    refused(producer.close())
    loop.run_until_complete(producer.close())


def test_a_producer_whose_loop_ends_fails_waiters_and_new_records(
    node: AnyCluster, loop: asyncio.AbstractEventLoop
) -> None:
    topic = node.topic()
    producer = loop.run_until_complete(started(Producer, bootstrap_servers=node.bootstrap, linger_ms=60_000))
    delivery = loop.run_until_complete(producer.send(topic, b"x"))
    # Like the end of asyncio.run.
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.wait(tasks))
    with pytest.raises(IllegalState, match=RULE):
        delivery.result(0)
    refused(producer.send(topic, b"x"))
    loop.run_until_complete(producer.close())


def test_a_consumer_says_that_it_is_of_another_loop(node: AnyCluster, loop: asyncio.AbstractEventLoop) -> None:
    consumer = loop.run_until_complete(started(Consumer, bootstrap_servers=node.bootstrap))
    refused(consumer.committed())
    loop.run_until_complete(consumer.close())


def test_an_admin_client_says_that_it_is_of_another_loop(node: AnyCluster, loop: asyncio.AbstractEventLoop) -> None:
    admin = loop.run_until_complete(started(Admin, bootstrap_servers=node.bootstrap))
    refused(admin.describe_cluster())
    loop.run_until_complete(admin.close())
