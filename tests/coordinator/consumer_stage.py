"""A shard of the group coordinator in virtual time, with a log in memory and topics: for consumer groups."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from cordwood.config.broker import BrokerConfig
from cordwood.coordinator.groups.consumer.consumer_group import ConsumerGroup
from cordwood.coordinator.groups.consumer.heartbeat import heartbeat
from cordwood.coordinator.groups.shard_state import GroupShardState
from cordwood.metadata.delta import MetadataDelta
from cordwood.metadata.image import MetadataImage, OffsetAndEpoch
from cordwood.runtime.randomness import SeededRandom
from cordwood.shard.promise import Promise
from cordwood.shard.refusal import Refusal
from cordwood.shard.shard import Shard
from cordwood.sim.world import World
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from cordwood.wire.messages.metadata_records.partition_record import PartitionRecord
from cordwood.wire.messages.metadata_records.remove_topic_record import RemoveTopicRecord
from cordwood.wire.messages.metadata_records.topic_record import TopicRecord
from cordwood.wire.primitives import Uuid
from cordwood.wire.schema import MetadataRecord
from tests.coordinator.classic_stage import MemoryLog

GROUP = "g"
SESSION_MS = 45_000
REBALANCE_MS = 60_000
Owned = set[tuple[Uuid, int]]
_SETTINGS = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@localhost:9093",
    "group.consumer.assignment.interval.ms": "0",
}


class Stage:
    def __init__(self, world: World, settings: dict[str, str]) -> None:
        self._config = BrokerConfig({**_SETTINGS, **settings})
        self._world = world
        self._image = MetadataImage()
        self._created = 0
        # One for all states: what is loaded again does not give the same ids again.
        self._random = SeededRandom(1)
        self.log = MemoryLog()
        self.state = self._new_state()
        self.shard = Shard(self.state, self.log, world.clock, lambda: 5_000)

    def _new_state(self) -> GroupShardState:
        return GroupShardState(
            self._world.clock, self._random, lambda: self._config, lambda: self._image, lambda _group_id: {}
        )

    @property
    def group(self) -> ConsumerGroup:
        group = self.state.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    # Topics

    def topic_id(self, name: str) -> Uuid:
        return self._image.topics.ids[name]

    def create(self, name: str, partitions: int) -> None:
        self._created += 1
        topic_id = self._created.to_bytes(8) + name.encode().ljust(8, b".")[:8]
        self._change(
            TopicRecord(name=name, topic_id=topic_id),
            *(_partition(topic_id, number) for number in range(partitions)),
        )

    def grow(self, name: str, partitions: int) -> None:
        topic_id = self.topic_id(name)
        there = len(self._image.topics.by_id[topic_id].partitions)
        self._change(*(_partition(topic_id, number) for number in range(there, partitions)))

    def delete(self, name: str) -> None:
        self._change(RemoveTopicRecord(topic_id=self.topic_id(name)))

    def partitions(self, *names: str) -> Owned:
        topics = [topic for name in names if (topic := self._image.topics.get(name)) is not None]
        return {(topic.id, number) for topic in topics for number in topic.partitions}

    def _change(self, *records: MetadataRecord) -> None:
        delta = MetadataDelta(self._image).replay_all(list(records))
        covers = OffsetAndEpoch(self._image.covers.offset + len(records), 1)
        self._image = delta.apply(covers, 0)
        self.state.metadata_changed(delta, self._image)

    # Heartbeats

    def heartbeat(self, member_id: str, epoch: int = 0, *, owned: Owned | None = None, **said: Any) -> Any:
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=epoch,
            topic_partitions=None if owned is None else as_topics(owned),
            **said,
        )
        result = self.shard.decide(lambda state: heartbeat(state, request, "client", "/host"))
        assert not isinstance(result, Promise)
        return result

    def join(self, member_id: str, *topics: str, **said: Any) -> ConsumerGroupHeartbeatResponse:
        said = {"subscribed_topic_names": list(topics), "rebalance_timeout_ms": REBALANCE_MS, **said}
        response: ConsumerGroupHeartbeatResponse = self.heartbeat(member_id, owned=set(), **said)
        return response

    # Failures and time

    def load_again(self) -> None:
        """As after a failover: what is not in the log is gone."""
        self.shard.close(Refusal(ErrorCode.NOT_COORDINATOR, "another loads it"))
        self.state = self.loaded_state()
        self.shard = Shard(self.state, self.log, self._world.clock, lambda: 5_000)
        self.shard.loaded()

    def loaded_state(self) -> GroupShardState:
        state = self._new_state()
        for offset, record in enumerate(self.log.records):
            state.replay([record], offset, -1)
        state.loaded()
        return state

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def play(test: Callable[[Stage], Awaitable[None]], **settings: str) -> None:
    """Settings of the broker by their names, with underscores for dots."""
    world = World(1, limit_s=10_000_000.0)

    async def main() -> None:
        await test(Stage(world, {name.replace("_", "."): value for name, value in settings.items()}))

    world.run(main())


def assigned(response: ConsumerGroupHeartbeatResponse) -> Owned | None:
    """The assignment in a response, if there is one."""
    if response.assignment is None:
        return None
    return {(topic.topic_id, number) for topic in response.assignment.topic_partitions for number in topic.partitions}


def as_topics(owned: Owned) -> list[RequestTopicPartitions]:
    topics: dict[Uuid, list[int]] = {}
    for topic_id, number in sorted(owned):
        topics.setdefault(topic_id, []).append(number)
    return [RequestTopicPartitions(topic_id=topic_id, partitions=numbers) for topic_id, numbers in topics.items()]


def _partition(topic_id: Uuid, number: int) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=[1],
        isr=[1],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=[bytes(16)],
    )
