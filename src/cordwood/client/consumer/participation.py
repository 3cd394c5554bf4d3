"""A consumer's part in its group: assignments and revocations within the application's calls, and commits."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.membership.classic import ClassicMember
from cordwood.client.consumer.membership.consumer_protocol import ConsumerProtocolMember
from cordwood.client.consumer.membership.driver import MembershipDriver
from cordwood.client.consumer.membership.events import Assign, Lose, Machine, Revoke
from cordwood.client.consumer.membership.possession import Step
from cordwood.client.consumer.offsets.commits import Commits
from cordwood.client.consumer.offsets.requests import Offsets
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.consumer.subscription import Subscription
from cordwood.runtime.network import Network
from cordwood.runtime.randomness import Random

_log = logging.getLogger(__name__)

Call = Callable[..., Awaitable[Any]]


class Participation:
    """`call` runs the application's code; `dropped` is called with partitions that are no longer read."""

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
        # The application's current step, within one of its calls.
        self._taken: Step | None = None
        machine: Machine
        if settings.group_protocol == "consumer":
            machine = ConsumerProtocolMember(settings, random)
        else:
            machine = ClassicMember(settings, random)
        self.driver = MembershipDriver(client, machine, settings.group_id, network=network, random=random)
        self.commits = Commits(client, settings, self.driver, consumed=consumed)

    def subscribe(self) -> None:
        """Tells the group about a new subscription."""
        self.commits.is_member = True
        self.driver.subscribe(self._subscription.topics, self._subscription.remote_pattern)

    async def settle(self) -> None:
        """Performs pending steps for the application. Raises its listener's error, or the reason why it cannot be a
        member.

        If it is cancelled, the same step is repeated.
        """
        while (step := self.driver.waiting) is not None:
            failure = await self._take(step)
            if failure is not None:
                raise failure
        if self.driver.error is not None:
            raise self.driver.error

    async def leave(self, reason: str, timeout_s: float) -> None:
        """Leaves, after the application has released its partitions. The listener's error is raised at the end."""
        if self._taken is not None:
            # The listener itself called leave: don't call it again for this step.
            self._conclude(self._taken)
        self.driver.leave(reason)
        failures: list[Exception] = []
        try:
            async with asyncio.timeout(timeout_s):
                while not self.driver.has_left and self.driver.error is None:
                    self.driver.changed.clear()
                    if (step := self.driver.waiting) is None:
                        await self.driver.changed.wait()
                    elif (failure := await self._take(step)) is not None:
                        failures.append(failure)
        except TimeoutError:
            _log.warning(
                "Group %s: LeaveGroup got no response within %g s: %s", self._settings.group_id, timeout_s, reason
            )
        finally:
            self.commits.is_member = False
        if self.driver.error is not None:
            # A member that has given up has nothing to leave.
            _log.warning("group %s: %s (%s)", self._settings.group_id, self.driver.error, reason)
        if failures:
            raise failures[0]

    async def _take(self, step: Step) -> Exception | None:
        """Returns the listener's exception; the step is done nevertheless."""
        if isinstance(step, Assign) and not self.driver.is_member:
            # The application was busy for so long that the group has removed it.
            self.driver.declined()
            return None
        failure: Exception | None = None
        self._taken = step
        try:
            await self._perform(step)
        except Exception as error:  # noqa: BLE001  # the application's listener may raise anything
            failure = error
        finally:
            # The listener may have left the group, which cancels this step.
            is_taken = self._taken is step
            if is_taken:
                self._taken = None
        if is_taken:
            self._conclude(step)
        return failure

    async def _perform(self, step: Step) -> None:
        match step:
            case Revoke(partitions):
                await self.commits.before_release(self._settings.default_api_timeout_ms / 1000)
                await self._tell("on_partitions_revoked", self._held(partitions))
            case Lose(partitions):
                has_method = getattr(self._subscription.listener, "on_partitions_lost", None) is not None
                name = "on_partitions_lost" if has_method else "on_partitions_revoked"
                await self._tell(name, self._held(partitions))
            case Assign(added):
                self._subscription.grant(added)
                await self._tell("on_partitions_assigned", sorted(added))

    def _conclude(self, step: Step) -> None:
        self._taken = None
        if isinstance(step, Assign):
            for partition in step.added:
                self._subscription.states[partition].awaits_listener = False
            self._dropped(())
        else:
            self._subscription.withdraw(step.partitions)
            self._dropped(step.partitions)
        self.driver.settled()

    def _held(self, partitions: frozenset[TopicPartition]) -> list[TopicPartition]:
        return sorted(partitions & self._subscription.states.keys())

    async def _tell(self, name: str, partitions: list[TopicPartition]) -> None:
        told = getattr(self._subscription.listener, name, None)
        if told is not None:
            await self._call(told, partitions)
