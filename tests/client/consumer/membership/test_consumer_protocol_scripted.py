"""A KIP-848 member and brokers that are too old for it, or cease to be its coordinator; on virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.membership.consumer_protocol import ConsumerProtocolMember
from cordwood.client.consumer.membership.driver import MembershipDriver
from cordwood.client.consumer.membership.events import Assign
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import UnsupportedByBroker
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.world import World
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from cordwood.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ResponseTopicPartitions,
)
from tests.client.scripted_broker import TOPIC_ID, ScriptedBroker, scripted_brokers
from tests.client.scripted_coordinators import Coordinators

HEARTBEAT = ConsumerGroupHeartbeatRequest.api_key


def play(scene: Callable[[list[ScriptedBroker], Coordinators, MembershipDriver], Awaitable[None]]) -> None:
    world = World(1, limit_s=600)

    async def main() -> None:
        settings = ConsumerSettings(group_id="g", group_protocol="consumer")
        network = world.network.host("client")
        random = SeededRandom(1)
        async with scripted_brokers(2, world) as brokers:
            coordinators = Coordinators(brokers)
            async with await Client.connect([brokers[0].address], settings, network=network, random=random) as client:
                machine = ConsumerProtocolMember(settings, random)
                driver = MembershipDriver(client, machine, "g", network=network, random=random)
                await client.topics(["t"])
                driver.topics_changed()
                await scene(brokers, coordinators, driver)
                await driver.close()

    world.run(main())


async def until(condition: Callable[[], Any]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def test_a_broker_without_kip_848_is_reported_with_advice() -> None:
    async def scene(brokers: list[ScriptedBroker], coordinators: Coordinators, driver: MembershipDriver) -> None:
        for broker in brokers:
            whole = broker.answers[ApiVersionsRequest.api_key]

            def without(request: ApiVersionsRequest, version: int, whole: Any = whole) -> ApiVersionsResponse:
                said: ApiVersionsResponse = whole(request, version)
                said.api_keys = [api for api in said.api_keys if api.api_key != HEARTBEAT]
                return said

            broker.answers[ApiVersionsRequest.api_key] = without
        driver.subscribe(frozenset({"t"}))
        driver.polled()
        await until(lambda: driver.error)
        assert isinstance(driver.error, UnsupportedByBroker)
        assert "group_protocol='classic'" in str(driver.error)

    play(scene)


def test_a_broker_without_patterns_is_reported_with_advice() -> None:
    async def scene(brokers: list[ScriptedBroker], coordinators: Coordinators, driver: MembershipDriver) -> None:
        for broker in brokers:
            broker.max_versions[HEARTBEAT] = 0
        driver.subscribe(frozenset(), ".*")
        driver.polled()
        await until(lambda: driver.error)
        assert isinstance(driver.error, UnsupportedByBroker)
        assert "group_protocol='classic'" in str(driver.error)

    play(scene)


def serve(broker: ScriptedBroker, coordinators: Coordinators) -> None:
    """As the coordinator of a group of one, if it is."""
    given = Assignment(topic_partitions=[ResponseTopicPartitions(topic_id=TOPIC_ID, partitions=[0])])

    def heartbeat(request: ConsumerGroupHeartbeatRequest, version: int) -> ConsumerGroupHeartbeatResponse:
        if coordinators.default != broker.id:
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=1,
            heartbeat_interval_ms=1000,
            assignment=given if request.member_epoch == 0 else None,
        )

    broker.answers[HEARTBEAT] = heartbeat


def test_a_member_finds_the_coordinator_that_took_over_and_reports_it_everything() -> None:
    async def scene(brokers: list[ScriptedBroker], coordinators: Coordinators, driver: MembershipDriver) -> None:
        for broker in brokers:
            serve(broker, coordinators)
        driver.subscribe(frozenset({"t"}))
        driver.polled()
        await until(lambda: driver.waiting)
        assert driver.waiting == Assign(frozenset({TopicPartition("t", 0)}))
        driver.settled()
        await until(lambda: len(brokers[0].seen_of(ConsumerGroupHeartbeatRequest)) > 2)
        coordinators.default = 2
        await until(lambda: brokers[1].seen_of(ConsumerGroupHeartbeatRequest))
        first = brokers[1].seen_of(ConsumerGroupHeartbeatRequest)[0]
        assert (first.member_epoch, first.subscribed_topic_names) == (1, ["t"])
        assert first.topic_partitions[0].partitions == [0]
        assert driver.assignment == {TopicPartition("t", 0)}

    play(scene)


def test_a_member_that_is_wanted_again_after_an_error_sends_its_heartbeats_again() -> None:
    """Performs everything that became due."""

    async def scene(brokers: list[ScriptedBroker], coordinators: Coordinators, driver: MembershipDriver) -> None:
        for broker in brokers:
            serve(broker, coordinators)
        driver.subscribe(frozenset({"t"}))
        driver.polled()
        await until(lambda: driver.waiting)
        driver.settled()
        coordinators.errors = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
        coordinators.default = 2
        await until(lambda: driver.error)
        # Longer than max_poll_interval_ms.
        await asyncio.sleep(310)
        driver.subscribe(frozenset({"t"}))
        driver.polled()
        await until(lambda: driver.waiting)
        driver.settled()
        driver.polled()
        async with asyncio.timeout(30):
            await until(lambda: len(brokers[1].seen_of(ConsumerGroupHeartbeatRequest)) > 2)

    play(scene)
