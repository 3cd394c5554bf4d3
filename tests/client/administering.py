"""An admin client on a node of our own, or on Kafka with CORDWOOD_TEST_KAFKA=host:port."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from cordwood import aio
from cordwood.client.addresses import parse_bootstrap
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.topics import NewTopic
from cordwood.client.settings import AdminSettings
from cordwood.runtime.sockets import SocketNetwork
from tests.client.any_cluster import KAFKA

Work = Callable[[Admin], Coroutine[Any, Any, None]]

Administer = Callable[[Work], None]

kafka_only = pytest.mark.skipif(KAFKA is None, reason="our brokers do not have this yet; CORDWOOD_TEST_KAFKA has")
cordwood_only = pytest.mark.skipif(KAFKA is not None, reason="what our brokers do not have yet")


def administer_at(bootstrap: str, work: Work) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), Admin(settings(bootstrap), network=SocketNetwork()) as admin:
            await work(admin)

    asyncio.run(main())


def settings(bootstrap: str) -> AdminSettings:
    return AdminSettings(bootstrap_servers=tuple(parse_bootstrap(bootstrap)), default_api_timeout_ms=30_000)


async def make(admin: Admin, topic: str, partitions: int = 1) -> None:
    await admin.create_topics([NewTopic(topic, partitions)])
    await admin.until_topics_led([topic])


async def fill(admin: Admin, topic: str, timestamps: list[int], partition: int = 0) -> None:
    """A batch a record."""
    bootstrap = [str(address) for address in admin.client.settings.bootstrap_servers]
    async with aio.Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer:
        for timestamp in timestamps:
            await producer.send_and_wait(topic, b"value", b"key", partition=partition, timestamp_ms=timestamp)


async def becomes(ask: Callable[[], Coroutine[Any, Any, object]], expected: object) -> None:
    """Brokers get the controller's decisions a moment later."""
    async with asyncio.timeout(20):
        while (found := await ask()) != expected:
            # Seen when the time is over.
            print(f"not yet: {found}")
            await asyncio.sleep(0.05)
