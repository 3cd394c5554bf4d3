"""Runs a group member: performs its machine's effects in the background, independent of the application.

The consumer, within its calls of poll:

    with driver.polling():
        while (step := driver.waiting) is not None:
            ...                         # commit, call the listener, change what is fetched
            driver.settled()
        if driver.error is not None:
            raise driver.error
        driver.changed.clear()
        ...                             # records, or else wait for them or for driver.changed

and when it closes or unsubscribes:

    driver.leave("the consumer is being closed")
    while not driver.has_left:
        ...                             # as above
    await driver.close()
"""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from cordwood.client.admin.coordinators import CoordinatorKind, find_coordinators
from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.connection import BrokerConnection, BrokerConnections
from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.consumer.membership.consumer_protocol import explained
from cordwood.client.consumer.membership.events import (
    Answered,
    Ask,
    Assign,
    CountPartitions,
    Declined,
    Effect,
    Event,
    Failed,
    FindTopics,
    ForgetCoordinator,
    Leave,
    Lose,
    Machine,
    Polled,
    Raise,
    Revoke,
    Settled,
    Subscribed,
    Tick,
    TopicsChanged,
    WakeAt,
)
from cordwood.client.consumer.membership.topic_names import find_topic_names
from cordwood.client.errors import BrokerError, ClientError, NetworkFailed
from cordwood.runtime.network import Network
from cordwood.runtime.randomness import Random
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from cordwood.wire.primitives import Uuid


class MembershipDriver:
    """Belongs to one event loop. Nothing here blocks but `coordinator` and `close`."""

    def __init__(self, client: Client, machine: Machine, group_id: str, *, network: Network, random: Random) -> None:
        self.changed = asyncio.Event()
        """Set when there may be news: a waiting step, an error, the end of leaving. The waiting task clears it."""
        self.waiting: Revoke | Lose | Assign | None = None
        """The next action for the application, which calls `settled` afterwards."""
        self.error: ClientError | None = None
        """The member takes no part until it subscribes again."""
        self.group_topics: frozenset[str] = frozenset()
        """Topics that other members of the group read, if this member leads: the client keeps their metadata fresh."""
        self._client = client
        self._machine = machine
        self._last_metadata = machine.metadata
        self._group_id = group_id
        self._loop = asyncio.get_running_loop()
        # Responses come in request order. A join waits for all members, and a fetch for records: neither may delay
        # heartbeats and commits. So those have their own connection, and joins another one.
        self._connections = BrokerConnections(network, client.settings, random)
        self._joining_connections = BrokerConnections(network, client.settings, random)
        self._coordinator_id: int | None = None
        self._finding: asyncio.Task[int] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_polling = False
        # A final error, and later events: the machine gets them when it is active again.
        self._unheard: list[Event] = []
        self._is_leaving = False
        self._leaving: set[asyncio.Task[None]] = set()

    # ---- state for the consumer

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return self._machine.assignment

    @property
    def metadata(self) -> GroupMetadata:
        """The current membership; none if it is no member."""
        return self._machine.metadata

    @property
    def last_metadata(self) -> GroupMetadata:
        """The membership under which the application got its partitions, even if it has ended since: then a
        transaction's offsets are refused, while those without a member would be accepted (KIP-447)."""
        return self._last_metadata

    @property
    def is_member(self) -> bool:
        """As far as is known. Without membership, the partitions belong, or will belong, to others."""
        return self.metadata.generation_id > 0

    @property
    def is_rebalancing(self) -> bool:
        return self._machine.is_rebalancing

    @property
    def has_left(self) -> bool:
        """True once `leave` is complete: the application has released everything, and the coordinator knows, or cannot
        be told."""
        return self._is_leaving and not (self.assignment or self.waiting or self._leaving)

    # ---- events from the consumer

    def subscribe(self, topics: frozenset[str], pattern: str | None = None) -> None:
        """The member joins within the application's next poll, or updates its subscription."""
        self._is_leaving = False
        self._come_back()
        self._hear(Subscribed(topics, pattern))

    def topics_changed(self) -> None:
        """Called when the client has new metadata."""
        self._hear(self._topics({}))

    def polled(self) -> None:
        """The application is alive. `polling` implies that throughout."""
        self._hear(Polled())

    @contextmanager
    def polling(self) -> Iterator[None]:
        """Marks the application as waiting in a poll; its work on `waiting` may still exceed the poll interval."""
        self.polled()
        self._is_polling = True
        try:
            yield
        finally:
            self._is_polling = False
            self.polled()

    def settled(self) -> None:
        """The application has finished the `waiting` step."""
        assert self.waiting is not None, "nothing waited for the application"
        self.waiting = None
        self._hear(Settled())

    def declined(self) -> None:
        """The pending assignment was revoked before the application received it."""
        assert isinstance(self.waiting, Assign), "nothing waited to be given"
        self.waiting = None
        self._hear(Declined())

    def leave(self, reason: str, *, stays_static: bool = True) -> None:
        """Starts to leave; `has_left` follows, after the steps that wait for the application."""
        self._come_back()
        self._is_leaving = True
        self._hear(Leave(reason, stays_static))
        self.changed.set()

    async def close(self) -> None:
        """Stops at once, whether or not the member has left."""
        if self._timer is not None:
            self._timer.cancel()
        going_on: list[asyncio.Task[Any]] = [*self._tasks]
        if self._finding is not None:
            going_on.append(self._finding)
        for task in going_on:
            task.cancel()
        await asyncio.gather(*going_on, return_exceptions=True)
        await self._connections.close()
        await self._joining_connections.close()

    # ---- the coordinator

    async def coordinator(self) -> BrokerConnection:
        """Returns the coordinator for commits. One try; raises a `ClientError`."""
        return await self._connect(self._connections)

    def forget_coordinator(self) -> None:
        """Drops a coordinator that denied being one, or did not answer."""
        self._coordinator_id = None

    async def _connect(self, connections: BrokerConnections) -> BrokerConnection:
        broker_id = await self._find_coordinator()
        broker = self._client.cluster.brokers.get(broker_id)
        if broker is None:
            self.forget_coordinator()
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, subject=self._group_id)
        try:
            return await connections.to(broker.address)
        except NetworkFailed:
            self.forget_coordinator()
            raise

    async def _find_coordinator(self) -> int:
        if self._coordinator_id is not None:
            return self._coordinator_id
        if self._finding is None:
            self._finding = self._loop.create_task(self._look_for_coordinator())
            self._finding.add_done_callback(self._found)
        # Several tasks may wait for it; cancelling one must not affect the others.
        return await asyncio.shield(self._finding)

    async def _look_for_coordinator(self) -> int:
        found = (await find_coordinators(self._client, CoordinatorKind.GROUP, [self._group_id]))[self._group_id]
        if isinstance(found, BrokerError):
            raise found
        return found

    def _found(self, finding: asyncio.Task[int]) -> None:
        self._finding = None
        # The waiting tasks got the error.
        if not finding.cancelled() and finding.exception() is None:
            self._coordinator_id = finding.result()

    # ---- the machine

    def _hear(self, event: Event) -> None:
        if self._unheard:
            if not isinstance(event, Polled | Tick | TopicsChanged):
                self._unheard.append(event)
            return
        for effect in self._machine.step(event, self._loop.time()):
            self._perform(effect)
        # Not a member: polls have no effect, and there may be one per record.
        if not isinstance(event, Polled):
            self._note_metadata()

    def _note_metadata(self) -> None:
        metadata = self._machine.metadata
        has_left = self._is_leaving and not self._machine.assignment
        if metadata.generation_id > 0 or has_left:
            self._last_metadata = metadata

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Ask():
                task = self._start(self._ask(effect))
                # A leaving member does not wait for other members.
                if self._is_leaving and effect.timeout_ms is None:
                    self._leaving.add(task)
            case ForgetCoordinator():
                self.forget_coordinator()
            case Revoke() | Lose() | Assign():
                assert self.waiting is None, f"{effect} while the application is to {self.waiting}"
                self.waiting = effect
                self.changed.set()
            case FindTopics(topic_ids):
                self._start(self._find_topics(topic_ids))
            case CountPartitions(topics):
                self.group_topics = topics
                self._start(self._count_partitions(topics))
            case Raise(error):
                self.error = error
                self.changed.set()
            case WakeAt(at_s):
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = self._loop.call_at(at_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._is_polling and self.waiting is None:
            self.polled()
        self._hear(Tick())

    def _come_back(self) -> None:
        self.error = None
        if self._unheard:
            unheard, self._unheard = self._unheard, []
            for event in unheard:
                self._hear(event)
            # Only the last one of these matters.
            self._hear(self._topics({}))
            self._hear(Tick())

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._end)
        return task

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._leaving.discard(task)
        self.changed.set()
        if not task.cancelled():
            # Report a machine's bug, instead of a hanging member.
            task.result()

    async def _ask(self, ask: Ask) -> None:
        waits_for_others = ask.timeout_ms is not None
        try:
            connection = await self._connect(self._joining_connections if waits_for_others else self._connections)
            response = await connection.ask(ask.request, timeout_ms=ask.timeout_ms)
        except ClientError as error:
            if isinstance(error, NetworkFailed):
                self.forget_coordinator()
            self._failed(Failed(ask.request, error))
        else:
            self._hear(Answered(ask.request, response))

    def _failed(self, failed: Failed) -> None:
        if failed.error.retriable or self._is_leaving:
            self._hear(failed)
        else:
            if not self._unheard:
                self.error = explained(failed.request, failed.error)
                self.changed.set()
            self._unheard.append(failed)

    # ---- metadata for the machine

    async def _find_topics(self, topic_ids: frozenset[Uuid]) -> None:
        try:
            names = await find_topic_names(self._client, topic_ids)
        except ClientError:
            # The machine asks again.
            return
        self._hear(self._topics(names))

    async def _count_partitions(self, topics: frozenset[str]) -> None:
        asked = [MetadataRequestTopic(name=name) for name in sorted(topics)]
        try:
            response = await self._client.ask_any(
                MetadataRequest(topics=asked, allow_auto_topic_creation=False), at_least=4
            )
        except ClientError:
            # The leader assigns with known metadata, and again when it knows more.
            pass
        else:
            self._client.cluster = self._client.cluster.updated(response)
        self._hear(self._topics({}))

    def _topics(self, ids: dict[str, Uuid]) -> TopicsChanged:
        topics = self._client.cluster.topics
        brokers = self._client.cluster.brokers
        racks = {broker.id: broker.rack for broker in brokers.values() if broker.rack is not None}
        return TopicsChanged(
            {name: len(topic.partitions) for name, topic in topics.items()},
            {name: topic.id for name, topic in topics.items()} | ids,
            {
                TopicPartition(name, partition.index): frozenset(
                    racks[replica] for replica in partition.replicas if replica in racks
                )
                for name, topic in topics.items()
                for partition in topic.partitions
            }
            if racks
            else {},
        )
