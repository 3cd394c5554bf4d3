"""Keeps a fetch in flight to each broker while the application works."""

import asyncio
from collections.abc import Callable

from cordwood.client.client import Client
from cordwood.client.cluster import Broker
from cordwood.client.connection import BrokerConnection, BrokerConnections
from cordwood.client.consumer.fetches.fetching import Fetching, FetchOrder
from cordwood.client.consumer.metrics import ConsumerMetrics
from cordwood.client.consumer.offsets.position_finder import PositionFinder
from cordwood.client.consumer.topic_watch import TopicWatch
from cordwood.client.errors import BrokerError, ClientError
from cordwood.runtime.network import Address
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import FetchResponse


class Prefetcher:
    """`news` is called when there may be something for the application."""

    def __init__(
        self,
        client: Client,
        connections: BrokerConnections,
        fetching: Fetching,
        finder: PositionFinder,
        watch: TopicWatch,
        metrics: ConsumerMetrics,
        *,
        news: Callable[[], None],
    ) -> None:
        self._client = client
        # A separate connection: a fetch waits for records, and other requests to the broker must not queue behind it.
        self._connections = connections
        self._fetching = fetching
        self._finder = finder
        self._watch = watch
        self._metrics = metrics
        self._news = news
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._soon: asyncio.Handle | None = None
        self._later: asyncio.TimerHandle | None = None
        self._is_closed = False

    def pump_soon(self) -> None:
        """Something has changed: schedules all possible fetches for later in this loop."""
        if self._soon is None and not self._is_closed:
            self._soon = self._loop.call_soon(self._pump)

    async def close(self) -> None:
        self._is_closed = True
        for handle in (self._soon, self._later):
            if handle is not None:
                handle.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._connections.close()

    def _pump(self) -> None:
        self._soon = None
        if self._is_closed:
            return
        # One clock reading for all: a partition that comes due between two readings would be neither fetched nor waited
        # for.
        now_s = self._loop.time()
        orders, needs_metadata = self._fetching.plan(self._client.cluster, now_s)
        for order in orders:
            task = self._loop.create_task(self._fetch(order))
            self._tasks.add(task)
            task.add_done_callback(self._fetched)
        if needs_metadata:
            self._watch.ask_soon()
        self._finder.look(now_s)
        self._set_alarm(now_s)

    def _set_alarm(self, now_s: float) -> None:
        """Sets a timer for partitions in back-off."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        next_try_s = self._fetching.next_try_s(now_s)
        if next_try_s is not None:
            self._later = self._loop.call_at(next_try_s, self.pump_soon)

    async def _fetch(self, order: FetchOrder) -> None:
        begun_s = self._loop.time()
        try:
            connection = await self._connect(order.broker_id)
            response = await connection.ask(
                order.request,
                at_most=order.at_most_version,
                timeout_ms=self._client.settings.request_timeout_ms + order.request.max_wait_ms,
            )
        except ClientError as error:
            self._fetching.failed(order, error, self._loop.time())
            self._news()
            if error.retriable:
                self._watch.ask_soon()
        except BaseException:
            self._fetching.failed(order, None, self._loop.time())
            raise
        else:
            self._take(order, response, begun_s)

    async def _connect(self, broker_id: int) -> BrokerConnection:
        broker = self._client.cluster.brokers.get(broker_id)
        if broker is None:
            # The leader has just gone; newer metadata has the next one. (BROKER_NOT_AVAILABLE counts as final.)
            raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, subject=f"broker {broker_id}")
        return await self._connections.to(broker.address)

    def _take(self, order: FetchOrder, response: FetchResponse, begun_s: float) -> None:
        now_s = self._loop.time()
        findings = self._fetching.take(order, response, now_s)
        self._metrics.fetched(findings.size_bytes, now_s - begun_s, now_s)
        if findings.leaders:
            brokers = [
                Broker(node.node_id, Address(node.host, node.port), node.rack) for node in response.node_endpoints
            ]
            self._client.cluster = self._client.cluster.led_by(findings.leaders, brokers)
        if findings.needs_metadata:
            self._watch.ask_soon()
        if findings.size_bytes:
            self._watch.calm()
        if findings.size_bytes or findings.has_errors:
            self._news()

    def _fetched(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self.pump_soon()
        if not task.cancelled():
            # Report a bug, instead of a hanging consumer.
            task.result()
