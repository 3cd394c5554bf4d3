"""The driver of a group's member: the coordinator's address, calls of the application, and the end."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.consumer.membership.classic import ClassicMember
from cordwood.client.consumer.membership.driver import MembershipDriver
from cordwood.client.consumer.membership.events import Assign, Lose, Revoke
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import AuthorizationFailed
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.world import World
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.find_coordinator import FindCoordinatorRequest
from cordwood.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from cordwood.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from cordwood.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from cordwood.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.client.scripted_broker import Cut, ScriptedBroker, scripted_brokers
from tests.client.scripted_coordinators import Coordinators

SETTINGS = ConsumerSettings(group_id="g", partition_assignment_strategy=["range"])
P0 = TopicPartition("t", 0)


class Stage:
    """Brokers that take part in a group of one, wherever its coordinator is said to be."""

    def __init__(self, brokers: list[ScriptedBroker], client: Client, driver: MembershipDriver) -> None:
        self.brokers = brokers
        self.client = client
        self.driver = driver
        self.coordinators = Coordinators(brokers)
        for broker in brokers:
            broker.answers |= {
                JoinGroupRequest.api_key: self._join(broker),
                SyncGroupRequest.api_key: self._sync,
                HeartbeatRequest.api_key: self._heartbeat(broker),
                LeaveGroupRequest.api_key: lambda request, version: LeaveGroupResponse(),
            }

    async def subscribe(self) -> None:
        await self.client.topics(["t"])
        self.driver.topics_changed()
        self.driver.subscribe(frozenset({"t"}))

    async def poll_until(self, condition: Callable[[], object]) -> None:
        """An application that does what waits for it."""
        async with asyncio.timeout(120):
            with self.driver.polling():
                while not condition():
                    self.driver.changed.clear()
                    if self.driver.waiting is not None:
                        self.driver.settled()
                    else:
                        await self.driver.changed.wait()

    async def join(self) -> None:
        await self.subscribe()
        await self.poll_until(lambda: self.driver.assignment == {P0})

    def _is_there(self, broker: ScriptedBroker) -> bool:
        return self.coordinators.of.get("g", 1) == broker.id

    def _join(self, broker: ScriptedBroker) -> Callable[[JoinGroupRequest, int], JoinGroupResponse]:
        def answer(request: JoinGroupRequest, version: int) -> JoinGroupResponse:
            if not self._is_there(broker):
                return JoinGroupResponse(error_code=ErrorCode.NOT_COORDINATOR, protocol_name="")
            (offered,) = request.protocols
            return JoinGroupResponse(
                generation_id=1,
                protocol_type="consumer",
                protocol_name=offered.name,
                leader="m",
                member_id="m",
                members=[JoinGroupResponseMember(member_id="m", metadata=offered.metadata)],
            )

        return answer

    def _sync(self, request: SyncGroupRequest, version: int) -> SyncGroupResponse:
        return SyncGroupResponse(assignment=request.assignments[0].assignment)

    def _heartbeat(self, broker: ScriptedBroker) -> Callable[[HeartbeatRequest, int], HeartbeatResponse]:
        def answer(request: HeartbeatRequest, version: int) -> HeartbeatResponse:
            there = self._is_there(broker)
            return HeartbeatResponse(error_code=ErrorCode.NONE if there else ErrorCode.NOT_COORDINATOR)

        return answer

    def seen(self, kind: type[Any]) -> list[int]:
        """The brokers that received requests, with repetitions."""
        return [broker.id for broker in self.brokers for _ in broker.seen_of(kind)]


def play(scene: Callable[[Stage], Awaitable[None]], settings: ConsumerSettings = SETTINGS) -> None:
    world = World(1)

    async def main() -> None:
        async with scripted_brokers(2, world) as brokers:
            network, random = world.network.host("client"), SeededRandom(1)
            client = await Client.connect([brokers[0].address], settings, network=network, random=random)
            driver = MembershipDriver(client, ClassicMember(settings, random), "g", network=network, random=random)
            try:
                await scene(Stage(brokers, client, driver))
            finally:
                await driver.close()
                await client.close()

    world.run(main())


def test_a_member_joins_within_the_first_poll() -> None:
    async def scene(stage: Stage) -> None:
        await stage.subscribe()
        await asyncio.sleep(60)
        assert stage.seen(JoinGroupRequest) == []
        await stage.poll_until(lambda: isinstance(stage.driver.waiting, Assign))
        assert stage.driver.assignment == frozenset()
        stage.driver.settled()
        assert stage.driver.assignment == {P0}
        assert stage.driver.metadata.generation_id == 1

    play(scene)


def test_a_removed_member_is_still_known_by_its_last_generation() -> None:
    """Offsets that a transaction commits without a member would be accepted."""

    async def scene(stage: Stage) -> None:
        assert stage.driver.last_metadata == GroupMetadata("g")
        await stage.join()
        stage.brokers[0].answers[HeartbeatRequest.api_key] = lambda request, version: HeartbeatResponse(
            error_code=ErrorCode.UNKNOWN_MEMBER_ID
        )
        async with asyncio.timeout(60):
            while stage.driver.waiting is None:
                stage.driver.changed.clear()
                await stage.driver.changed.wait()
        assert stage.driver.waiting == Lose(frozenset({P0}))
        assert stage.driver.metadata == GroupMetadata("g")
        assert stage.driver.last_metadata == GroupMetadata("g", 1, "m")
        stage.driver.settled()
        assert stage.driver.last_metadata == GroupMetadata("g", 1, "m")

    play(scene)


def test_a_member_that_has_left_is_unknown() -> None:
    async def scene(stage: Stage) -> None:
        await stage.join()
        stage.driver.leave("done")
        assert stage.driver.last_metadata == GroupMetadata("g", 1, "m")
        stage.driver.settled()
        assert stage.driver.last_metadata == GroupMetadata("g")

    play(scene)


def test_heartbeats_continue_while_the_application_works() -> None:
    async def scene(stage: Stage) -> None:
        await stage.join()
        await asyncio.sleep(60)
        assert 19 <= len(stage.seen(HeartbeatRequest)) <= 20

    play(scene)


def test_the_look_up_of_a_missing_coordinator_is_repeated() -> None:
    async def scene(stage: Stage) -> None:
        stage.coordinators.errors = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3
        await stage.join()
        assert len(stage.seen(FindCoordinatorRequest)) == 4

    play(scene)


def test_a_member_follows_its_coordinator_and_keeps_its_partitions() -> None:
    async def scene(stage: Stage) -> None:
        await stage.join()
        assert set(stage.seen(HeartbeatRequest)) <= {1}
        stage.coordinators.of["g"] = 2
        await stage.poll_until(lambda: 2 in stage.seen(HeartbeatRequest))
        assert stage.driver.assignment == {P0}
        assert stage.seen(JoinGroupRequest) == [1]
        assert (await stage.driver.coordinator()) is (await stage.driver.coordinator())

    play(scene)


def test_a_lost_connection_is_made_again() -> None:
    async def scene(stage: Stage) -> None:
        await stage.join()
        beat = stage.brokers[0].answers[HeartbeatRequest.api_key]

        def cut(request: HeartbeatRequest, version: int) -> HeartbeatResponse:
            stage.brokers[0].answers[HeartbeatRequest.api_key] = beat
            raise Cut

        stage.brokers[0].answers[HeartbeatRequest.api_key] = cut
        await stage.poll_until(lambda: len(stage.seen(HeartbeatRequest)) >= 3)
        assert stage.driver.assignment == {P0}
        assert stage.seen(JoinGroupRequest) == [1]

    play(scene)


def test_a_permanent_error_stays_until_the_application_subscribes_again() -> None:
    async def scene(stage: Stage) -> None:
        stage.coordinators.errors = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
        await stage.subscribe()
        await stage.poll_until(lambda: stage.driver.error)
        await asyncio.sleep(60)
        assert isinstance(stage.driver.error, AuthorizationFailed)
        assert len(stage.seen(FindCoordinatorRequest)) == 1
        await stage.join()
        assert stage.driver.error is None

    play(scene)


def test_calls_after_an_error_take_effect_on_the_next_subscription() -> None:
    async def scene(stage: Stage) -> None:
        await stage.subscribe()
        stage.driver.polled()
        async with asyncio.timeout(120):
            while stage.driver.waiting is None:
                await asyncio.sleep(0.1)
            # Its partitions wait for the application, and a heartbeat cannot be sent.
            stage.coordinators.errors = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
            stage.coordinators.of["g"] = 2
            while stage.driver.error is None:
                await asyncio.sleep(0.1)
        stage.driver.settled()
        await stage.join()

    play(scene)


def test_leaving_completes_when_the_coordinator_knows() -> None:
    async def scene(stage: Stage) -> None:
        await stage.join()
        stage.driver.leave("done")
        assert stage.driver.waiting == Revoke(frozenset({P0}))
        assert not stage.driver.has_left
        stage.driver.settled()
        assert not stage.driver.has_left
        await stage.poll_until(lambda: stage.driver.has_left)
        (leave,) = stage.brokers[0].seen_of(LeaveGroupRequest)
        assert [(member.member_id, member.reason) for member in leave.members] == [("m", "done")]

    play(scene)


def test_leaving_without_having_joined_completes_at_once() -> None:
    async def scene(stage: Stage) -> None:
        await stage.subscribe()
        stage.driver.leave("done")
        assert stage.driver.has_left

    play(scene)


def test_leaving_does_not_wait_for_a_dead_coordinator() -> None:
    async def scene(stage: Stage) -> None:
        await stage.join()

        def cut(request: LeaveGroupRequest, version: int) -> LeaveGroupResponse:
            raise Cut

        stage.brokers[0].answers[LeaveGroupRequest.api_key] = cut
        stage.driver.leave("done")
        await stage.poll_until(lambda: stage.driver.has_left)
        assert len(stage.seen(LeaveGroupRequest)) == 1

    play(scene)


def test_leaving_during_a_new_generation_waits_for_the_release() -> None:
    async def scene(stage: Stage) -> None:
        await stage.join()
        broker = stage.brokers[0]
        broker.answers[SyncGroupRequest.api_key] = lambda request, version: None
        broker.answers[HeartbeatRequest.api_key] = lambda request, version: HeartbeatResponse(
            error_code=ErrorCode.REBALANCE_IN_PROGRESS
        )
        await stage.poll_until(lambda: len(stage.seen(SyncGroupRequest)) == 2)
        stage.driver.leave("done")
        assert not stage.driver.has_left
        await stage.poll_until(lambda: stage.driver.has_left)
        assert stage.driver.assignment == frozenset()
        assert len(stage.seen(LeaveGroupRequest)) == 1

    play(scene, replace(SETTINGS, partition_assignment_strategy=["cooperative-sticky"]))


@pytest.mark.parametrize("assignment", [b"\x00", b"\x00\x03\x00\x00\x00\x09"])
def test_an_undecodable_assignment_is_reported(assignment: bytes) -> None:
    async def scene(stage: Stage) -> None:
        stage.brokers[0].answers[SyncGroupRequest.api_key] = lambda request, version: SyncGroupResponse(
            assignment=assignment
        )
        await stage.subscribe()
        await stage.poll_until(lambda: stage.driver.error)
        assert "unreadable metadata" in str(stage.driver.error)

    play(scene)
