"""The client: requests to any broker, to one, to a partition's leader or to the controller, with retries.

async with await Client.connect(parse_bootstrap("localhost:9092"), network=SocketNetwork()) as client:
    topics = await client.topics(["orders"])
    response = await client.ask_any(DescribeClusterRequest())
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import count
from types import TracebackType
from typing import TypeVar

from cordwood.client.cluster import Cluster, Topic
from cordwood.client.connection import BrokerConnection, BrokerConnections
from cordwood.client.errors import BrokerError, CannotReachCluster, ClientError, GaveUp, NetworkFailed
from cordwood.client.settings import Settings
from cordwood.net.peers.backoff import Backoff
from cordwood.runtime.network import Address, Network
from cordwood.runtime.randomness import Random, SeededRandom
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from cordwood.wire.schema import Request, ResponseT

T = TypeVar("T")

_log = logging.getLogger(__name__)

# A topic that was just created may be unknown to some brokers.
_UNKNOWN_TOPIC_PATIENCE_S = 0.5
_LEAST_REFRESH_PAUSE_S = 0.1


class Client:
    """Belongs to one event loop. `cluster` is its metadata; calls raise `ClientError` only."""

    def __init__(
        self, bootstrap: Sequence[Address], settings: Settings, *, network: Network, random: Random | None = None
    ) -> None:
        self.settings = settings
        self.cluster = Cluster()
        self._bootstrap = bootstrap
        self._random = random if random is not None else SeededRandom()
        self._loop = asyncio.get_running_loop()
        self._connections = BrokerConnections(network, settings, self._random)
        self._backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms, self._random)
        # Times of the last metadata response, and of the first failed request since.
        self._fetched_at = self._loop.time()
        self._in_vain_since: float | None = None
        self._refreshing: asyncio.Task[bool] | None = None
        # Addresses tried in the last search for a broker.
        self._failures: dict[Address, ClientError] = {}
        self._keeping: asyncio.Task[None] | None = None

    @classmethod
    async def connect(
        cls,
        bootstrap: Sequence[Address],
        settings: Settings | None = None,
        *,
        network: Network,
        random: Random | None = None,
    ) -> "Client":
        """Tries each address once. Raises `CannotReachCluster` if none answers, or on `default_api_timeout_ms`."""
        client = cls(bootstrap, settings if settings is not None else Settings(), network=network, random=random)

        async def attempt() -> None:
            try:
                await client._fetch_metadata(())
            except CannotReachCluster as error:
                # A mistyped address fails at once; a broker that is lost later is retried.
                error.retriable = False
                raise

        limit_s = client.settings.default_api_timeout_ms / 1000
        try:
            async with asyncio.timeout(limit_s):
                await client.retrying(attempt)
        except (TimeoutError, GaveUp) as error:
            await client.close()
            # For a broker that was reached and then lost repeatedly, the last error says more.
            last = error.last if isinstance(error, GaveUp) else NetworkFailed(f"no answer within {limit_s:g} s")
            failures = {address: client._failures.get(address) or last for address in bootstrap}
            raise CannotReachCluster(failures) from error
        except BaseException:
            await client.close()
            raise
        return client

    async def close(self) -> None:
        for task in (self._keeping, self._refreshing):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self._connections.close()

    async def until_read(self) -> None:
        """Waits until brokers have read requests without responses. Raises `NetworkFailed` if one hung up instead."""
        await self._connections.until_read()

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # ---- one try

    async def broker(self, broker_id: int) -> BrokerConnection:
        """Returns the connection to a broker of the cluster, for direct requests. One try."""
        broker = self.cluster.brokers.get(broker_id)
        if broker is None:
            raise BrokerError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not in the cluster")
        return await self._connections.to(broker.address)

    def opened(self, broker_id: int) -> BrokerConnection | None:
        """Returns that connection if it is open."""
        broker = self.cluster.brokers.get(broker_id)
        return None if broker is None else self._connections.opened(broker.address)

    async def connection(self, address: Address) -> BrokerConnection:
        """Returns a connection to a node that is no broker: a controller. One try."""
        return await self._connections.to(address)

    async def any_broker(self) -> BrokerConnection:
        """Returns the least busy broker, or the first reachable one: of the cluster, else by bootstrap."""
        opened = [connection for address in self._addresses() if (connection := self._connections.opened(address))]
        if opened:
            return min(opened, key=lambda connection: connection.in_flight)
        failures = self._failures = {}
        for address in self._addresses():
            try:
                return await self._connections.to(address)
            except ClientError as error:
                failures[address] = error
        raise CannotReachCluster(failures)

    def _addresses(self) -> Iterator[Address]:
        """All known addresses, once each: brokers from a random one on, to spread clients; then the bootstrap addresses
        (KIP-899)."""
        known = [broker.address for broker in self.cluster.brokers.values()]
        start = self._random.below(len(known)) if known else 0
        begin_again = not known or self.settings.metadata_recovery_strategy != "none"
        yield from dict.fromkeys([*known[start:], *known[:start], *(self._bootstrap if begin_again else ())])

    # ---- with retries

    async def ask_any(self, request: Request[ResponseT], *, at_least: int = 0) -> ResponseT:
        async def attempt() -> ResponseT:
            return await (await self.any_broker()).ask(request, at_least=at_least)

        return await self.retrying(attempt)

    async def ask_broker(self, broker_id: int, request: Request[ResponseT]) -> ResponseT:
        async def attempt() -> ResponseT:
            return await (await self.broker(broker_id)).ask(request)

        return await self.retrying(attempt)

    async def ask_controller(
        self, request: Request[ResponseT], errors: Callable[[ResponseT], Collection[int]]
    ) -> ResponseT:
        """`errors` extracts the error codes of a response: NOT_CONTROLLER triggers a look-up of the new controller.

        In KRaft any broker forwards such requests; before that only the controller accepted them.
        """

        async def attempt() -> ResponseT:
            if self.cluster.controller in self.cluster.brokers:
                connection = await self.broker(self.cluster.controller)
            else:
                connection = await self.any_broker()
            response = await connection.ask(request)
            if ErrorCode.NOT_CONTROLLER in errors(response):
                raise BrokerError(ErrorCode.NOT_CONTROLLER)
            return response

        return await self.retrying(attempt)

    async def retrying(self, attempt: Callable[[], Awaitable[T]], timeout_s: float | None = None) -> T:
        """Calls `attempt` until it succeeds, with a pause after each retriable error and a metadata refresh after some.

        Raises a final error at once, and `GaveUp` after `default_api_timeout_ms`.
        """
        timeout_s = self.settings.default_api_timeout_ms / 1000 if timeout_s is None else timeout_s
        deadline = self._loop.time() + timeout_s
        for failures in count(1):
            try:
                return await attempt()
            except ClientError as error:
                if not error.retriable:
                    raise
                pause_s = self._backoff.pause_s(failures)
                if self._loop.time() + pause_s >= deadline:
                    raise GaveUp(error, timeout_s) from error
                refresh = isinstance(error, NetworkFailed) or (
                    isinstance(error, BrokerError) and error.is_stale_metadata
                )
            await asyncio.sleep(pause_s)
            if refresh:
                await self.refresh()
        raise AssertionError("unreachable")

    async def pause_after(self, failures: int) -> None:
        """Returns the pause between two tries, for callers that retry themselves."""
        await asyncio.sleep(self._backoff.pause_s(failures))

    # ---- metadata

    async def refresh(self) -> bool:
        """Refreshes the metadata of known topics; False if no broker is reachable, which the next try will find out,
        too.

        Several callers may request it when a broker is lost: they share the request in flight.
        """
        if self._refreshing is None:
            self._refreshing = self._loop.create_task(self._refresh())
            self._refreshing.add_done_callback(self._refreshed)
        return await asyncio.shield(self._refreshing)

    async def _refresh(self) -> bool:
        try:
            await self._fetch_metadata(tuple(self.cluster.topics))
        except ClientError as error:
            if not error.retriable:
                raise
            return False
        return True

    def _refreshed(self, task: "asyncio.Task[bool]") -> None:
        self._refreshing = None
        if not task.cancelled():
            # The callers that waited got the error.
            task.exception()

    def keep_fresh(self) -> None:
        """Refreshes metadata periodically, at `metadata_max_age_ms`."""
        if self._keeping is None:
            self._keeping = self._loop.create_task(self._keep_fresh())

    async def _keep_fresh(self) -> None:
        max_age_s = self.settings.metadata_max_age_ms / 1000
        failures = 0
        while True:
            if failures:
                await self.pause_after(failures)
            else:
                # A minimum, so that an age of 0 does not keep the loop busy.
                await asyncio.sleep(max(self._fetched_at + max_age_s - self._loop.time(), _LEAST_REFRESH_PAUSE_S))
            if self._fetched_at + max_age_s > self._loop.time():
                continue
            try:
                failures = 0 if await self.refresh() else failures + 1
            except ClientError as error:
                failures += 1
                _log.warning("Cannot refresh metadata, retrying: %s", error)

    async def topics(
        self, names: Collection[str], *, create: bool = False, timeout_s: float | None = None
    ) -> dict[str, Topic]:
        """Raises a `BrokerError` for a missing topic. `create` lets the broker create it, if it is configured to."""
        if not names:
            return {}
        unknown_until = self._loop.time() + _UNKNOWN_TOPIC_PATIENCE_S

        async def attempt() -> dict[str, Topic]:
            response = await self._fetch_metadata(names, create=create)
            for told in response.topics:
                if told.error_code == ErrorCode.NONE:
                    continue
                error = BrokerError(told.error_code, subject=f"topic {told.name}")
                if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not create:
                    error.retriable = self._loop.time() < unknown_until
                raise error
            return {name: self.cluster.topics[name] for name in names}

        return await self.retrying(attempt, timeout_s)

    async def ask_for_topics(self, names: Collection[str] | None, *, create: bool = False) -> dict[str, BrokerError]:
        """One try, for callers that retry themselves; None requests all topics. Returns errors of single topics."""
        response = await self._fetch_metadata(names, create=create)
        return {
            told.name: BrokerError(told.error_code, subject=f"topic {told.name}")
            for told in response.topics
            if told.error_code != ErrorCode.NONE and told.name is not None
        }

    async def all_topics(self) -> dict[str, Topic]:
        async def attempt() -> dict[str, Topic]:
            await self._fetch_metadata(None)
            return dict(sorted(self.cluster.topics.items()))

        return await self.retrying(attempt)

    async def _fetch_metadata(self, names: Collection[str] | None, *, create: bool = False) -> MetadataResponse:
        """One try. None requests all topics."""
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=create)
        try:
            # Version 4 is the first that can prevent brokers from creating topics.
            response = await (await self.any_broker()).ask(request, at_least=4)
        except ClientError:
            self._note_in_vain()
            raise
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self._begin_again("a broker requested it")
        if response.error_code != ErrorCode.NONE:
            raise BrokerError(response.error_code)
        self._fetched_at = self._loop.time()
        self._in_vain_since = None
        self.cluster = self.cluster.updated(response, has_all_topics=names is None)
        return response

    def _note_in_vain(self) -> None:
        """Handles a long time without metadata: all brokers may have moved (KIP-1102)."""
        if self._in_vain_since is None:
            self._in_vain_since = self._loop.time()
        trigger_s = self.settings.metadata_recovery_rebootstrap_trigger_ms / 1000
        if self._loop.time() - self._in_vain_since >= trigger_s:
            self._begin_again(f"no metadata for {trigger_s:g} s")

    def _begin_again(self, reason: str) -> None:
        """Forgets the brokers, which leaves only the bootstrap addresses."""
        if self.settings.metadata_recovery_strategy == "none" or not self.cluster.brokers:
            return
        _log.warning("Re-bootstrapping from bootstrap_servers: %s", reason)
        self._in_vain_since = None
        self.cluster = replace(self.cluster, brokers={})
        self._connections.drop()
