"""Reads partitions as a stream: one request to each leader at a time, the next on its way while a result is used."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import BrokerError, ClientError
from cordwood.client.fetch_plan import Answer, Fetched, FetchPlan
from cordwood.client.offsets import EARLIEST, list_offsets
from cordwood.wire.errors import ErrorCode
from cordwood.wire.primitives import ZERO_UUID

Moved = Callable[[TopicPartition, int, int], None]

_TOPIC_IDS_FROM = 13


async def watch_for_partitions(client: Client, topic: str, plan: FetchPlan) -> None:
    """Has a plan read the partitions that a topic gets later, from their start. Does not return.

    Looks every `metadata_max_age_ms`, as Kafka's consumers do.
    """
    while True:
        await asyncio.sleep(client.settings.metadata_max_age_ms / 1000)
        try:
            await client.refresh()
        except ClientError:
            # Whoever reads will meet it, too, and tell.
            continue
        known = client.cluster.topics.get(topic)
        for partition in known.partitions if known is not None else ():
            found = TopicPartition(topic, partition.index)
            if found not in plan.positions:
                plan.add(found, 0)


class Fetcher:
    """`moved` is told of a partition whose records were deleted before they were read, with the old and new offset."""

    def __init__(self, client: Client, plan: FetchPlan, moved: Moved) -> None:
        self._client = client
        self._plan = plan
        self._moved = moved
        # Keyed by what they are asked; a partition is in one of them at most.
        self._tasks: dict[asyncio.Task[Answer], frozenset[TopicPartition]] = {}
        # Those that failed wait here until it makes sense to ask again.
        self._resting: dict[asyncio.Task[bool], frozenset[TopicPartition]] = {}
        self._failures = 0

    async def read(self) -> AsyncGenerator[Fetched, None]:
        """Ends when every partition is done, which is never without ends. Raises a `ClientError`."""
        try:
            while self._plan.left:
                self._ask()
                waiting: list[asyncio.Task[Any]] = [*self._tasks, *self._resting]
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for answer in await self._collect():
                    for fetched in answer.fetched:
                        yield fetched
        finally:
            await self._stop()

    def _ask(self) -> None:
        """Asks each leader for those of its partitions that nobody is asking for."""
        busy = frozenset[TopicPartition]().union(*self._tasks.values(), *self._resting.values())
        wanted: dict[int, list[TopicPartition]] = {}
        homeless = set()
        for partition in self._plan.left:
            if partition not in busy:
                try:
                    wanted.setdefault(self._client.cluster.leader(partition), []).append(partition)
                except BrokerError:
                    homeless.add(partition)
        loop = asyncio.get_running_loop()
        for leader, partitions in wanted.items():
            self._tasks[loop.create_task(self._fetch(leader, partitions))] = frozenset(partitions)
        if homeless:
            self._rest(frozenset(homeless))

    async def _fetch(self, leader: int, partitions: list[TopicPartition]) -> Answer:
        cluster = self._client.cluster
        without_id = any(cluster.topics[partition.topic].id == ZERO_UUID for partition in partitions)
        broker = await self._client.broker(leader)
        request = self._plan.request(partitions, cluster)
        response = await broker.ask(request, at_most=_TOPIC_IDS_FROM - 1 if without_id else None)
        return self._plan.take(response, cluster)

    async def _collect(self) -> list[Answer]:
        answers = []
        for rest in [rest for rest in self._resting if rest.done()]:
            del self._resting[rest]
            rest.result()
        for task in [task for task in self._tasks if task.done()]:
            partitions = self._tasks.pop(task)
            try:
                answer = task.result()
            except ClientError as error:
                if not error.retriable:
                    raise
                self._rest(partitions)
                continue
            await self._handle_errors(answer.errors)
            if answer.fetched or not answer.errors:
                self._failures = 0
            answers.append(answer)
        # What comes next is on its way while these are used.
        self._ask()
        return answers

    async def _handle_errors(self, errors: Mapping[TopicPartition, BrokerError]) -> None:
        failed = set()
        for partition, error in errors.items():
            if error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._move_to_start(partition, error)
            elif error.retriable:
                failed.add(partition)
            else:
                raise error
        if failed:
            self._rest(frozenset(failed))

    async def _move_to_start(self, partition: TopicPartition, error: BrokerError) -> None:
        """Retention deletes what nobody has read: go on with what is left. Past the end there is nothing left."""
        position = self._plan.positions[partition]
        start = (await list_offsets(self._client, {partition: EARLIEST}))[partition].offset
        if start <= position:
            raise error
        self._plan.move(partition, start)
        self._moved(partition, position, start)

    def _rest(self, partitions: frozenset[TopicPartition]) -> None:
        self._failures += 1
        task = asyncio.get_running_loop().create_task(self._pause(self._failures))
        self._resting[task] = partitions

    async def _pause(self, failures: int) -> bool:
        await self._client.pause_after(failures)
        return await self._client.refresh()

    async def _stop(self) -> None:
        tasks: list[asyncio.Task[Any]] = [*self._tasks, *self._resting]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
