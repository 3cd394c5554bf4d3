"""The reading side of a consumer: partition states, fetcher, and buffers."""

import asyncio
from collections.abc import Callable, Collection, Iterable

from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.connection import BrokerConnections
from cordwood.client.consumer.fetches.buffers import Buffers
from cordwood.client.consumer.fetches.fetching import Fetching
from cordwood.client.consumer.fetches.prefetcher import Prefetcher
from cordwood.client.consumer.metrics import ConsumerMetrics
from cordwood.client.consumer.offsets.position_finder import Committed, PositionFinder
from cordwood.client.consumer.offsets.positions import UNKNOWN, Phase
from cordwood.client.consumer.offsets.reset_strategy import ResetStrategy
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.consumer.subscription import Subscription
from cordwood.client.consumer.topic_watch import TopicWatch
from cordwood.client.errors import TimedOut
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.net.peers.backoff import Backoff
from cordwood.runtime.clock import Clock
from cordwood.runtime.network import Network
from cordwood.runtime.randomness import Random


class Reader:
    """Belongs to one event loop; fetches in the background from `changed` on."""

    def __init__(
        self,
        client: Client,
        settings: ConsumerSettings,
        subscription: Subscription,
        *,
        network: Network,
        clock: Clock,
        random: Random,
        metrics: ConsumerMetrics,
        also_wanted: Callable[[], frozenset[str]],
        refreshed: Callable[[], None],
        committed: Committed | None,
    ) -> None:
        """`also_wanted` names topics that others read, `refreshed` is called after each metadata response."""
        self.news = asyncio.Event()
        """Set when there may be something for the application. The waiting task clears it."""
        self._settings = settings
        self._subscription = subscription
        self._also_wanted = also_wanted
        self._refreshed = refreshed
        self._loop = asyncio.get_running_loop()
        self.buffers = Buffers(
            subscription,
            drained=self.changed,
            taken=lambda count: metrics.consumed(count, self._loop.time()),
        )
        self.watch = TopicWatch(
            client, settings, self._wanted_topics, self._know_topics, lambda: self._subscription.states
        )
        backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms, random)
        self._finder = PositionFinder(
            client,
            settings,
            subscription,
            self.buffers,
            clock,
            backoff,
            committed=committed,
            found=self._find_position,
            stale=self.watch.ask_soon,
        )
        self._fetching = Fetching(settings, subscription, self.buffers, backoff)
        self._prefetcher = Prefetcher(
            client,
            BrokerConnections(network, settings, random),
            self._fetching,
            self._finder,
            self.watch,
            metrics,
            news=self._tell,
        )
        self._positions_found = asyncio.Event()
        self._may_have_errors = False

    def changed(self) -> None:
        """The assignment or its state has changed: starts fetches that are now possible."""
        self._prefetcher.pump_soon()

    def wait_for(self, partitions: Collection[TopicPartition]) -> None:
        """Sets the partitions that the application waits for; empty means any."""
        if partitions or self._fetching.hungry_for:
            self._fetching.hungry_for = frozenset(partitions)
            self.changed()

    async def close(self) -> None:
        # The iteration has consumed its records.
        for partition in list(self._subscription.states):
            self.buffers.discard(partition)
        await self._prefetcher.close()
        await self._finder.close()
        await self.watch.close()

    def raise_errors(self) -> None:
        """Raises errors from the background, once each."""
        if not self._may_have_errors:
            return
        error = self.watch.take_error()
        if error is not None:
            raise error
        for state in self._subscription.states.values():
            if state.error is not None:
                error = state.take_error()
                self.changed()
                assert error is not None
                raise error
        self._may_have_errors = False

    def _tell(self) -> None:
        self._may_have_errors = True
        self.news.set()

    # ---- partitions

    def dropped(self, partitions: Iterable[TopicPartition]) -> None:
        """Drops partitions that are no longer read."""
        for partition in partitions:
            self.buffers.discard(partition)
        self.changed()

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self._subscription.state(partition)
        for partition in partitions:
            self._subscription.state(partition).paused = True
        self.buffers.stop_handing()

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self._subscription.state(partition)
        for partition in partitions:
            self._subscription.state(partition).paused = False
        self.news.set()
        self.changed()

    # ---- positions

    def seek(self, partition: TopicPartition, offset: int, epoch: int | None) -> None:
        self._subscription.state(partition).seek(offset, UNKNOWN if epoch is None else epoch)
        self.buffers.discard(partition)
        self.changed()

    def reset(self, partitions: Collection[TopicPartition], strategy: ResetStrategy) -> None:
        for state in self._subscription.select(partitions):
            state.reset(strategy)
            self.buffers.discard(state.partition)
        self.changed()

    async def position(self, partition: TopicPartition, timeout_s: float) -> int:
        """Waits until the position is known."""
        deadline_s = self._loop.time() + timeout_s
        while True:
            state = self._subscription.state(partition)
            if state.error is not None:
                error = state.take_error()
                assert error is not None
                raise error
            if state.has_position:
                return state.offset
            self._positions_found.clear()
            self.changed()
            try:
                async with asyncio.timeout_at(deadline_s):
                    await self._positions_found.wait()
            except TimeoutError as error_:
                raise TimedOut(
                    f"the position of {partition} could not be determined within {timeout_s:g} s"
                ) from error_

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The position of the application in each partition, for commits."""
        return {
            partition: OffsetAndMetadata(state.offset, "", state.epoch if state.epoch >= 0 else None)
            for partition, state in self._subscription.states.items()
            if state.phase is Phase.FETCHING
        }

    def _find_position(self) -> None:
        self._positions_found.set()
        self._tell()
        self.changed()

    # ---- topics

    def _wanted_topics(self) -> Collection[str] | None:
        if self._subscription.pattern is not None:
            return None
        read = {partition.topic for partition in self._subscription.states}
        return sorted(read | self._subscription.topics | self._also_wanted())

    def _know_topics(self) -> None:
        self._refreshed()
        self._tell()
        self.changed()
