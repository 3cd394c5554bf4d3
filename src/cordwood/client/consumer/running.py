"""A running consumer: everything that needs an event loop and a cluster."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.interceptors import Interceptors
from cordwood.client.consumer.metrics import ConsumerMetrics
from cordwood.client.consumer.reader import Reader
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.consumer.subscription import Subscription
from cordwood.client.errors import BadSetting
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.runtime.clock import Clock
from cordwood.runtime.network import Network
from cordwood.runtime.randomness import Random

if TYPE_CHECKING:
    from cordwood.client.consumer.participation import Participation

Call = Callable[..., Awaitable[Any]]

_DUE_AFTER_S = 1.0


class Running:
    """`call` runs the application's code."""

    def __init__(
        self,
        client: Client,
        settings: ConsumerSettings,
        subscription: Subscription,
        interceptors: Interceptors,
        *,
        network: Network,
        clock: Clock,
        random: Random,
        call: Call,
    ) -> None:
        self.client = client
        self.loop = asyncio.get_running_loop()
        self.metrics = ConsumerMetrics(self.loop.time())
        self._settings = settings
        self._subscription = subscription
        self._interceptors = interceptors
        self._call = call
        self.reader = Reader(
            client,
            settings,
            subscription,
            network=network,
            clock=clock,
            random=random,
            metrics=self.metrics,
            also_wanted=self._group_topics,
            refreshed=self._know_topics,
            committed=self._committed if settings.group_id is not None else None,
        )
        self.is_due = False
        """True if an iteration over records must return to `poll` before the next one: the group may be waiting."""
        self._due_timer: asyncio.TimerHandle | None = None
        self._group: Participation | None = None
        if settings.group_id is not None:
            # Imported when needed: a consumer without a group starts faster.
            from cordwood.client.consumer import participation

            self._group = participation.Participation(
                client,
                settings,
                subscription,
                network=network,
                random=random,
                call=call,
                consumed=self.reader.consumed,
                dropped=self.reader.dropped,
            )
            # A single event to wait for, for all sources of news.
            self._group.driver.changed = self._group.commits.changed = self.reader.news

    @property
    def group(self) -> "Participation":
        if self._group is None:
            raise BadSetting("group_id is not set: there is no group to commit for")
        return self._group

    async def close(self, timeout_s: float) -> None:
        """Commits automatically if enabled, and leaves the group, within that time."""
        deadline_s = self.loop.time() + timeout_s
        try:
            if self._group is not None:
                try:
                    await self._release("the consumer is being closed", timeout_s)
                finally:
                    await self._group.commits.close(max(0.0, deadline_s - self.loop.time()))
                await self.tell_commits()
        finally:
            if self._due_timer is not None:
                self._due_timer.cancel()
            if self._group is not None:
                await self._group.driver.close()
            await self.reader.close()
            await self.client.close()

    # ---- the group

    def subscribe(self) -> None:
        self.group.subscribe()

    async def unsubscribe(self) -> None:
        if self._group is not None:
            await self._release("the consumer has unsubscribed", self._settings.default_api_timeout_ms / 1000)
            await self.tell_commits()

    async def _release(self, reason: str, timeout_s: float) -> None:
        if self._subscription.is_group_managed:
            await self.group.leave(reason, timeout_s)
        else:
            await self.group.commits.before_release(timeout_s)

    def auto_commit(self) -> None:
        """Commits before other partitions are read."""
        if self._group is not None:
            self._group.commits.auto_commit()

    async def settle(self) -> None:
        """Handles everything that concerns the application before it gets records. Raises errors that it must see."""
        group = self._group
        if group is not None:
            group.commits.auto_commit()
            if group.driver.waiting is not None or self._subscription.is_group_managed:
                await group.settle()
            await self.tell_commits()
        self.reader.raise_errors()

    async def tell_commits(self) -> None:
        for completed in self.group.commits.take_completed() if self._group is not None else ():
            if completed.error is None and self._interceptors.hear_commits:
                await self._call(self._interceptors.on_commit, completed.offsets)
            if completed.callback is not None:
                await self._call(completed.callback, completed.offsets, completed.error)

    def hand_out(self) -> None:
        """Returns records for iteration: the application makes no other calls during the iteration."""
        self.is_due = False
        if self._due_timer is not None:
            self._due_timer.cancel()
        self._due_timer = self.loop.call_later(_DUE_AFTER_S, self._come_due)

    def _come_due(self) -> None:
        self.is_due = True

    def wake(self) -> None:
        """Wakes a task that waits for records or iterates over them."""
        self.is_due = True
        self.reader.news.set()

    def polling(self) -> AbstractContextManager[None]:
        """Marks the application as alive while it waits for records."""
        self.metrics.polled(self.loop.time())
        if self._group is None or not self._subscription.is_group_managed:
            return nullcontext()
        return self._group.driver.polling()

    async def wait(self, deadline_s: float | None) -> None:
        """Waits for news, or until a commit is due."""
        if self._group is not None and (due_in_s := self._group.commits.auto_commit_in_s) is not None:
            # A commit that is due may have to wait for the one before it.
            due_s = self.loop.time() + max(due_in_s, self._settings.retry_backoff_ms / 1000)
            deadline_s = due_s if deadline_s is None else min(deadline_s, due_s)
        try:
            async with asyncio.timeout_at(deadline_s):
                await self.reader.news.wait()
        except TimeoutError:
            pass

    async def _committed(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, OffsetAndMetadata | None]:
        return await self.group.commits.committed(partitions)

    # ---- topics

    def _know_topics(self) -> None:
        """Updates the topics that match the pattern, and those that the group may assign."""
        if not self._subscription.is_group_managed:
            return
        is_other = self._subscription.pattern is not None and self._subscription.match(self._matchable())
        # An empty subscription would leave the group; topics may match later.
        if is_other and self._subscription.topics:
            self.group.subscribe()
        self.group.driver.topics_changed()

    def _group_topics(self) -> frozenset[str]:
        return frozenset() if self._group is None else self._group.driver.group_topics

    def _matchable(self) -> Iterator[str]:
        for name, topic in self.client.cluster.topics.items():
            if not (topic.is_internal and self._settings.exclude_internal_topics):
                yield name
