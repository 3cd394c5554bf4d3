"""A consumer's part in its group: partitions that come and go within the application's calls, and commits."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.commits import Commits
from cordwood.client.consumer.membership.classic import ClassicMember
from cordwood.client.consumer.membership.consumer_protocol import ConsumerProtocolMember
from cordwood.client.consumer.membership.driver import MembershipDriver
from cordwood.client.consumer.membership.events import Assign, Lose, Machine, Revoke
from cordwood.client.consumer.offset_requests import Offsets
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.consumer.subscription import Subscription
from cordwood.runtime.network import Network
from cordwood.runtime.randomness import Random

_log = logging.getLogger(__name__)

Call = Callable[..., Awaitable[Any]]


class Group:
    """`call` calls what belongs to the application, `dropped` hears of partitions that are not read any more."""

    def __init__(
        self,
        client: Client,
        settings: ConsumerSettings,
        subscription: Subscription,
        *,
        network: Network,
        random: Random,
        call: Call,
        consumed: Callable[[], Offsets],
        dropped: Callable[[Collection[TopicPartition]], None],
    ) -> None:
        assert settings.group_id is not None
        self._settings = settings
        self._subscription = subscription
        self._call = call
        self._dropped = dropped
        self._loop = asyncio.get_running_loop()
        machine: Machine
        if settings.group_protocol == "consumer":
            machine = ConsumerProtocolMember(settings, random)
        else:
            machine = ClassicMember(settings, random)
        self.driver = MembershipDriver(client, machine, settings.group_id, network=network, random=random)
        self.commits = Commits(client, settings, self.driver, consumed=consumed)

    def subscribe(self) -> None:
        """Tells the group what is wanted now."""
        self.commits.is_member = True
        self.driver.subscribe(self._subscription.topics, self._subscription.remote_pattern)

    async def settle(self) -> None:
        """What waits for the application. Raises what keeps the member from taking part."""
        while (step := self.driver.waiting) is not None:
            match step:
                case Revoke(partitions):
                    await self._revoke(partitions)
                case Lose(partitions):
                    await self._lose(partitions)
                case Assign(added):
                    await self._assign(added)
            self.driver.settled()
        if self.driver.error is not None:
            raise self.driver.error

    async def leave(self, reason: str, timeout_s: float, *, stays_static: bool = True) -> None:
        """After the application has let go of its partitions."""
        deadline_s = self._loop.time() + timeout_s
        self.driver.leave(reason, stays_static=stays_static)
        try:
            async with asyncio.timeout_at(deadline_s):
                while not self.driver.has_left:
                    self.driver.changed.clear()
                    await self._settle_leaving()
                    if not self.driver.has_left:
                        await self.driver.changed.wait()
        except TimeoutError:
            _log.warning("group %s was not told in %g s: %s", self._settings.group_id, timeout_s, reason)
        self.commits.is_member = False

    async def _settle_leaving(self) -> None:
        while (step := self.driver.waiting) is not None:
            match step:
                case Revoke(partitions):
                    await self._revoke(partitions)
                case Lose(partitions):
                    await self._lose(partitions)
                case Assign():
                    pass
            self.driver.settled()

    # ---- what the group does

    async def _revoke(self, partitions: frozenset[TopicPartition]) -> None:
        held = sorted(partitions & self._subscription.states.keys())
        await self.commits.before_release(self._settings.default_api_timeout_ms / 1000)
        try:
            await self._tell("on_partitions_revoked", held)
        finally:
            self._withdraw(held)

    async def _lose(self, partitions: frozenset[TopicPartition]) -> None:
        held = sorted(partitions & self._subscription.states.keys())
        try:
            if getattr(self._subscription.listener, "on_partitions_lost", None) is None:
                await self._tell("on_partitions_revoked", held)
            else:
                await self._tell("on_partitions_lost", held)
        finally:
            self._withdraw(held)

    async def _assign(self, added: frozenset[TopicPartition]) -> None:
        self._subscription.grant(added)
        try:
            await self._tell("on_partitions_assigned", sorted(added))
        finally:
            for partition in added:
                self._subscription.states[partition].awaits_listener = False
            self._dropped(())

    async def _tell(self, name: str, partitions: list[TopicPartition]) -> None:
        told = getattr(self._subscription.listener, name, None)
        if told is not None:
            await self._call(told, partitions)

    def _withdraw(self, partitions: Collection[TopicPartition]) -> None:
        self._subscription.withdraw(partitions)
        self._dropped(partitions)
