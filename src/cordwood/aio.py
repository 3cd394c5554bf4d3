"""The clients for asyncio, with the same names as those for threads in `cordwood`.

>>> from cordwood.aio import Consumer, Producer
>>> async with Producer(bootstrap_servers="localhost:9092") as producer:
...     await producer.send_and_wait("orders", "first")
>>> async with Consumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
...     async for record in consumer:
...         print(record.value)

Settings are keywords, or a mapping with Kafka's dotted names; see docs/client-configuration.md. `async with` connects,
or `await start()`. Each belongs to the event loop in which it is started. Values and errors are those of `cordwood`.
"""

import asyncio
from collections.abc import Mapping
from typing import Unpack

from cordwood.client.admin.admin import Admin as _Admin
from cordwood.client.client import Client
from cordwood.client.consumer.consumer import Consumer as _Consumer
from cordwood.client.consumer.running import Running
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.one_loop import check_loop
from cordwood.client.options.configuration import read_settings, split_topics
from cordwood.client.options.keywords import AdminKeywords, ConsumerKeywords, ProducerKeywords
from cordwood.client.producer.producer import Producer as _Producer
from cordwood.client.producer.settings import ProducerSettings
from cordwood.client.settings import AdminSettings
from cordwood.runtime.sockets import SocketNetwork

__all__ = ["Admin", "Consumer", "Producer"]


class Producer(_Producer):
    """Sends records.

    >>> async with Producer(bootstrap_servers="localhost:9092", linger_ms=20) as producer:
    ...     delivery = await producer.send("orders", "value", key="key")
    ...     metadata = await delivery
    """

    def __init__(self, options: Mapping[str, object] | None = None, **keywords: Unpack[ProducerKeywords]) -> None:
        settings = read_settings(ProducerSettings, options, keywords)
        super().__init__(settings, settings.bootstrap_servers, network=SocketNetwork())


class Consumer(_Consumer):
    """Reads records of topics assigned by its group, or of partitions assigned manually with `assign`.

    >>> async with Consumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
    ...     async for record in consumer:
    ...         print(record.partition, record.offset, record.value)
    """

    def __init__(
        self,
        *topics: str | Mapping[str, object],
        options: Mapping[str, object] | None = None,
        **keywords: Unpack[ConsumerKeywords],
    ) -> None:
        names, options = split_topics(topics, options)
        settings = read_settings(ConsumerSettings, options, keywords)
        super().__init__(*names, settings=settings, network=SocketNetwork())

    def _ready(self) -> Running:
        running = super()._ready()
        check_loop(running.loop, "consumer")
        return running


class Admin(_Admin):
    """Every administrative operation of a cluster.

    >>> async with Admin(bootstrap_servers="localhost:9092") as admin:
    ...     await admin.create_topics([NewTopic("orders", partitions=3)])
    """

    def __init__(self, options: Mapping[str, object] | None = None, **keywords: Unpack[AdminKeywords]) -> None:
        super().__init__(read_settings(AdminSettings, options, keywords), network=SocketNetwork())
        self._loop: asyncio.AbstractEventLoop | None = None

    async def _connected(self) -> Client:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        check_loop(self._loop, "admin client")
        return await super()._connected()
