"""The coordinator of a node: when it knows its shards, and when it says that it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cordwood.broker.broker import Broker
from cordwood.broker.start.standalone import standalone_config
from cordwood.config.layers import Layer
from cordwood.net.peers.channel import Channel
from cordwood.shard.decision import Decision
from cordwood.shard.promise import Promise
from cordwood.shard.refusal import Refusal
from cordwood.sim.machine import Machine
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.sim.world import World
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from cordwood.wire.messages.delete_groups import DeleteGroupsRequest
from cordwood.wire.messages.delete_topics import DeleteTopicsRequest
from cordwood.wire.messages.find_coordinator import FindCoordinatorRequest
from cordwood.wire.messages.list_groups import ListGroupsRequest
from cordwood.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from cordwood.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

_ODDS = NetworkOdds(delay_s=0.0001, slow=0.0, split=0.0)
GROUPS = 20


class Stage:
    """A node in virtual time, and a client of it."""

    def __init__(self, world: World, settings: dict[str, str]) -> None:
        self.world = world
        self.machine = Machine(world, "broker", settings)

    @property
    def broker(self) -> Broker:
        assert self.machine.node is not None
        return self.machine.node.broker

    async def ask(self, request: Any, version: int) -> Any:
        channel = await Channel.open(self.world.network.host("client"), "broker", 9092, client_id="test")
        try:
            return await channel.request(request, version)
        finally:
            channel.close()

    async def create(self, topic: str) -> None:
        topics = [CreatableTopic(name=topic, num_partitions=1, replication_factor=1)]
        await self.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)

    async def find(self, group_id: str) -> ErrorCode:
        response = await self.ask(FindCoordinatorRequest(coordinator_keys=[group_id]), 4)
        return ErrorCode(response.coordinators[0].error_code)

    async def commit(self, group_id: str, offset: int) -> ErrorCode:
        response = await self.ask(offset_commit(group_id, offset), 9)
        return ErrorCode(response.topics[0].partitions[0].error_code)

    async def fetch(self, group_id: str) -> int | ErrorCode:
        response = await self.ask(
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)]), 9
        )
        [group] = response.groups
        if group.error_code:
            return ErrorCode(group.error_code)
        return int(group.topics[0].partitions[0].committed_offset)


def offset_commit(group_id: str, offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    topics = [OffsetCommitRequestTopic(name="orders", partitions=[partition])]
    return OffsetCommitRequest(group_id=group_id, topics=topics)


def simulate(test: Callable[[Stage], Awaitable[None]], **settings: str) -> None:
    """Settings by their names, with underscores for dots."""
    world = World(1, odds=_ODDS, limit_s=10_000.0)

    async def main() -> None:
        stage = Stage(world, {name.replace("_", "."): value for name, value in settings.items()})
        assert await stage.machine.start()
        await test(stage)

    world.run(main())


async def until_loaded(stage: Stage) -> None:
    while stage.broker.groups.is_loading:
        await asyncio.sleep(0)


def test_a_group_can_be_used_as_soon_as_its_coordinator_is_found() -> None:
    """The first request creates the topic; no client needs to retry."""

    async def test(stage: Stage) -> None:
        await stage.create("orders")
        assert await stage.find("g") == ErrorCode.NONE
        assert await stage.commit("g", 5) == ErrorCode.NONE

    simulate(test)


def test_concurrent_first_requests_create_the_topic_once() -> None:
    async def test(stage: Stage) -> None:
        assert await asyncio.gather(*(stage.find(f"g{number}") for number in range(10))) == [ErrorCode.NONE] * 10
        assert len(list(stage.broker.groups.shards)) == 50

    simulate(test)


def test_there_is_no_coordinator_before_the_first_look_up() -> None:
    async def test(stage: Stage) -> None:
        await stage.create("orders")
        assert await stage.commit("g", 5) == ErrorCode.NOT_COORDINATOR
        assert await stage.fetch("g") == ErrorCode.NOT_COORDINATOR

    simulate(test)


def test_a_topic_that_cannot_be_created_makes_the_coordinator_not_available() -> None:
    async def test(stage: Stage) -> None:
        assert await stage.find("g") == ErrorCode.COORDINATOR_NOT_AVAILABLE

    simulate(test, offsets_topic_replication_factor="3")


async def with_offsets(stage: Stage) -> None:
    await stage.create("orders")
    for number in range(GROUPS):
        await stage.find(f"g{number}")
        assert await stage.commit(f"g{number}", number) == ErrorCode.NONE


@pytest.mark.parametrize("how", ["stop", "kill", "lose_power"])
def test_committed_offsets_survive_a_restart(how: str) -> None:
    async def test(stage: Stage) -> None:
        await with_offsets(stage)
        ended = getattr(stage.machine, how)()
        if ended is not None:
            await ended
        assert await stage.machine.start()
        await until_loaded(stage)
        assert [await stage.fetch(f"g{number}") for number in range(GROUPS)] == list(range(GROUPS))

    simulate(test, log_flush_interval_messages="1")


def test_a_loading_shard_refuses_requests() -> None:
    async def test(stage: Stage) -> None:
        await with_offsets(stage)
        groups = stage.broker.groups
        groups.stop()
        groups.start()
        assert groups.is_loading
        with pytest.raises(Refusal) as refused:
            groups.shard("g0")
        assert refused.value.error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await until_loaded(stage)
        assert await stage.fetch("g0") == 0

    simulate(test)


def test_groups_are_listed_once_all_are_loaded() -> None:
    async def test(stage: Stage) -> None:
        await with_offsets(stage)
        groups = stage.broker.groups
        held = asyncio.Event()
        loading = asyncio.get_running_loop().create_task(held.wait())
        # One that takes its time.
        groups._loading[0] = loading  # type: ignore[assignment]
        listed = await stage.ask(ListGroupsRequest(), 5)
        assert listed.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        del groups._loading[0]
        held.set()
        listed = await stage.ask(ListGroupsRequest(), 5)
        assert {group.group_id for group in listed.groups} == {f"g{number}" for number in range(GROUPS)}

    simulate(test)


def test_offsets_of_a_topic_deleted_during_loading_are_deleted() -> None:
    async def test(stage: Stage) -> None:
        await with_offsets(stage)
        coordinators, groups = stage.broker.coordinators, stage.broker.groups
        apply = coordinators.apply

        def begin_anew_and_apply(*change: Any) -> None:
            groups.stop()
            groups.start()
            apply(*change)

        coordinators.apply = begin_anew_and_apply  # type: ignore[method-assign, assignment]
        await stage.ask(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=10_000), 5)
        await until_loaded(stage)
        await asyncio.sleep(1)
        assert not any(state.offsets.by_group for state in groups.states)

    simulate(test)


def test_waiters_get_an_error_when_the_coordinators_topic_is_deleted() -> None:
    async def test(stage: Stage) -> None:
        await with_offsets(stage)
        waiting: Promise[str] = Promise()
        stage.broker.groups.shard("g0").decide(lambda _state: Decision[str](waiting))
        await stage.ask(DeleteTopicsRequest(topic_names=["__consumer_offsets"], timeout_ms=10_000), 5)
        with pytest.raises(Refusal) as refused:
            waiting.result()
        assert refused.value.error == ErrorCode.NOT_COORDINATOR
        assert await stage.fetch("g0") == ErrorCode.NOT_COORDINATOR

    simulate(test)


def test_the_number_of_shards_is_that_of_the_topic_whatever_is_configured_later() -> None:
    async def test(stage: Stage) -> None:
        await with_offsets(stage)
        indexes = [stage.broker.groups.index_of(f"g{number}") for number in range(GROUPS)]
        await stage.machine.stop()
        fewer = {"offsets.topic.num.partitions": "7", "log.dirs": "/data"}
        stage.machine.config = standalone_config(Layer("the test", fewer), host="broker", port=9092)
        assert await stage.machine.start()
        await until_loaded(stage)
        assert [stage.broker.groups.index_of(f"g{number}") for number in range(GROUPS)] == indexes
        assert await stage.fetch("g3") == 3

    simulate(test)


# Requests about several groups


def test_a_request_about_several_groups_waits_until_all_its_results_are_committed() -> None:
    """With a flush for every commit: each request sees those before it, and none of them is on the disk yet."""

    async def test(stage: Stage) -> None:
        await stage.create("orders")
        await stage.find("g0")
        names = [f"g{number}" for number in range(GROUPS)]
        groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
        channel = await Channel.open(stage.world.network.host("client"), "broker", 9092, client_id="test")
        answers: Any = await asyncio.gather(
            *(channel.request(offset_commit(name, number), 9) for number, name in enumerate(names)),
            channel.request(OffsetFetchRequest(groups=groups), 9),
            channel.request(ListGroupsRequest(), 5),
            channel.request(DeleteGroupsRequest(groups_names=[*names, "nobody"]), 2),
            channel.request(ListGroupsRequest(), 5),
        )
        channel.close()
        fetched, listed, deleted, left = answers[GROUPS:]
        assert {group.group_id: group.topics[0].partitions[0].committed_offset for group in fetched.groups} == {
            name: number for number, name in enumerate(names)
        }
        assert {group.group_id for group in listed.groups} == set(names)
        assert {result.group_id: result.error_code for result in deleted.results} == {
            **dict.fromkeys(names, ErrorCode.NONE),
            "nobody": ErrorCode.GROUP_ID_NOT_FOUND,
        }
        assert left.groups == []

    simulate(test, log_flush_interval_messages="1")
