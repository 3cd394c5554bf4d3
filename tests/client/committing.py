"""A coordinator that takes commits as a test says, and who commits to it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.connection import BrokerConnection
from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.consumer.offsets.commits import Commits, Completed
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.world import World
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from cordwood.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from tests.client.scripted_broker import Cut, ScriptedBroker, scripted_brokers

P0 = TopicPartition("t", 0)
P1 = TopicPartition("t", 1)
MEMBER = GroupMetadata("g", 5, "m", None)


@dataclass
class Membership:
    """A place in the group that changes when the test says so."""

    client: Client
    metadata: GroupMetadata = MEMBER
    assignment: frozenset[TopicPartition] = frozenset()
    is_rebalancing: bool = False
    forgotten: int = 0

    async def coordinator(self) -> BrokerConnection:
        return await self.client.broker(1)

    def forget_coordinator(self) -> None:
        self.forgotten += 1


@dataclass
class Stage:
    broker: ScriptedBroker
    commits: Commits
    group: Membership
    client: Client
    position: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    codes: list[Any] = field(default_factory=list)
    """The outcomes of the next commits, followed by success: a code, a code by partition, or `Cut`."""
    stored: dict[tuple[str, int], tuple[int, str | None, int]] = field(default_factory=dict)
    refusals: list[int] = field(default_factory=list)
    """The outcomes of the next offset fetches."""

    @property
    def seen(self) -> list[OffsetCommitRequest]:
        return self.broker.seen_of(OffsetCommitRequest)

    @property
    def seen_offsets(self) -> list[dict[int, int]]:
        return [
            {told.partition_index: told.committed_offset for topic in request.topics for told in topic.partitions}
            for request in self.seen
        ]

    async def finished(self, count: int) -> list[Completed]:
        done: list[Completed] = []
        while len(done) < count:
            await asyncio.sleep(0.01)
            done += self.commits.take_completed()
        return done

    def answer_commit(self, request: OffsetCommitRequest, version: int) -> OffsetCommitResponse:
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        if code is Cut:
            raise Cut
        topics = []
        for topic in request.topics:
            told = []
            for partition in topic.partitions:
                its_code = code.get(partition.partition_index, 0) if isinstance(code, dict) else code
                told.append(
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=its_code)
                )
                if its_code == ErrorCode.NONE:
                    name = "t" if version >= 10 else topic.name
                    self.stored[name, partition.partition_index] = (
                        partition.committed_offset,
                        partition.committed_metadata,
                        partition.committed_leader_epoch,
                    )
            topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=told))
        return OffsetCommitResponse(topics=topics)

    def answer_committed(self, request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
        code = self.refusals.pop(0) if self.refusals else ErrorCode.NONE
        asked: Any = request.topics if version < 8 else request.groups[0].topics
        kinds: Any = (
            (OffsetFetchResponseTopic, OffsetFetchResponsePartition)
            if version < 8
            else (OffsetFetchResponseTopics, OffsetFetchResponsePartitions)
        )
        topics = []
        for topic in asked:
            told = []
            for index in topic.partition_indexes:
                name = "t" if version >= 10 else topic.name
                offset, metadata, epoch = self.stored.get((name, index), (-1, "", -1))
                told.append(
                    kinds[1](
                        partition_index=index,
                        committed_offset=offset,
                        metadata=metadata,
                        committed_leader_epoch=epoch,
                        error_code=code if code == ErrorCode.UNSTABLE_OFFSET_COMMIT else 0,
                    )
                )
            answered = kinds[0](partitions=told)
            if version >= 10:
                answered.topic_id = topic.topic_id
            else:
                answered.name = topic.name
            topics.append(answered)
        group_code = 0 if code == ErrorCode.UNSTABLE_OFFSET_COMMIT else code
        if version < 8:
            return OffsetFetchResponse(topics=topics, error_code=group_code)
        group = OffsetFetchResponseGroup(group_id=request.groups[0].group_id, topics=topics, error_code=group_code)
        return OffsetFetchResponse(groups=[group])


def play(
    scene: Callable[[Stage], Awaitable[None]],
    *,
    versions: dict[int, int] | None = None,
    is_member: bool = True,
    knows_topic: bool = True,
    **settings: Any,
) -> None:
    world = World(1, limit_s=3_600)

    async def main() -> None:
        options = ConsumerSettings(group_id="g", **settings)
        async with scripted_brokers(1, world) as (broker,):
            broker.leaders = [1, 1]
            broker.max_versions = versions or {}
            async with await Client.connect(
                [broker.address], options, network=world.network.host("client"), random=SeededRandom(1)
            ) as client:
                if knows_topic:
                    await client.topics(["t"])
                group = Membership(client)
                position: dict[TopicPartition, OffsetAndMetadata] = {}
                commits = Commits(client, options, group, consumed=lambda: position)
                commits.is_member = is_member
                stage = Stage(broker, commits, group, client, position)
                broker.answers[OffsetCommitRequest.api_key] = stage.answer_commit
                broker.answers[OffsetFetchRequest.api_key] = stage.answer_committed
                await scene(stage)
                await commits.close(1)

    world.run(main())
