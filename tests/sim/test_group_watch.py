"""The duration of a member's ownership, as derived from its coordinator's answers."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from cordwood.sim.clients.client import Client, Run
from cordwood.sim.groups.hands import Hands
from cordwood.sim.groups.leading import encode_assignment
from cordwood.sim.groups.member import GroupPlan
from cordwood.sim.histories.groups import Tenure
from cordwood.sim.histories.history import History, Promise
from cordwood.sim.library.group_watch import GroupWatch
from cordwood.sim.machine import Machine
from cordwood.sim.partition import Partition
from cordwood.sim.world import World
from cordwood.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ResponseTopicPartitions,
)
from cordwood.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from cordwood.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_TOPIC_ID = b"\x01" * 16
_P0, _P1 = ("topic", 0), ("topic", 1)
_PLAN = GroupPlan(
    "group", ("topic",), session_timeout_s=10.0, rebalance_timeout_s=4.0, has_both_protocols=True, is_cooperative=True
)


class Stage:
    """A member that gets answers at once."""

    def __init__(self, world: World) -> None:
        self.run = Run(world, Machine(world, "broker", {}), History(Promise.DURABLE))
        self.run.topic_ids["topic"] = _TOPIC_ID
        self.hands = Hands(self.run, "group", _PLAN.session_timeout_s, _PLAN.rebalance_timeout_s)
        self._watch = GroupWatch(Client(self.run, "member"), _PLAN, self.hands)

    @property
    def tenures(self) -> list[Tenure]:
        return self.run.history.groups.tenures

    def heartbeat(self, *assigned: Partition, is_told: bool = True) -> None:
        topics = [ResponseTopicPartitions(topic_id=_TOPIC_ID, partitions=[index for _, index in assigned])]
        response = ConsumerGroupHeartbeatResponse(
            member_epoch=1, assignment=Assignment(topic_partitions=topics if assigned else []) if is_told else None
        )
        self._watch.answered(ConsumerGroupHeartbeatRequest(member_epoch=1), response, self.run.now_s)

    def rejoin(self, generation: int, *assigned: Partition, leader: str = "", instance_id: str | None = None) -> None:
        request = JoinGroupRequest(group_instance_id=instance_id)
        joined = JoinGroupResponse(generation_id=generation, leader=leader, member_id="m")
        self._watch.answered(request, joined, self.run.now_s)
        synced = SyncGroupResponse(assignment=encode_assignment(list(assigned)))
        self._watch.answered(SyncGroupRequest(), synced, self.run.now_s)


def _play(scene: Callable[[Stage], Awaitable[None]]) -> None:
    world = World(1)

    async def main() -> None:
        await scene(Stage(world))

    world.run(main())


def test_a_heartbeat_without_a_revocation_leaves_the_rebalance_timeout_unchanged() -> None:
    async def scene(stage: Stage) -> None:
        stage.heartbeat(_P0)
        stage.hands.take([_P0], "m")
        await asyncio.sleep(3)
        stage.heartbeat(is_told=False)
        await asyncio.sleep(3)
        stage.hands.let_go([_P0])
        assert round(stage.tenures[0].ended_s, 3) == 6.0

    _play(scene)


def test_the_revocation_timeout_runs_even_if_heartbeats_do_not_repeat_it() -> None:
    async def scene(stage: Stage) -> None:
        stage.heartbeat(_P0)
        stage.hands.take([_P0], "m")
        await asyncio.sleep(1)
        stage.heartbeat()
        await asyncio.sleep(2)
        stage.heartbeat(is_told=False)
        await asyncio.sleep(3)
        stage.hands.let_go([_P0])
        assert round(stage.tenures[0].ended_s, 3) == 4.0

    _play(scene)


def test_after_a_revocation_the_member_has_its_full_timeout_again() -> None:
    async def scene(stage: Stage) -> None:
        stage.heartbeat(_P0, _P1)
        stage.hands.take([_P0, _P1], "m")
        await asyncio.sleep(1)
        stage.heartbeat(_P1)
        stage.hands.let_go([_P0])
        await asyncio.sleep(2)
        stage.heartbeat(is_told=False)
        await asyncio.sleep(3)
        stage.hands.let_go([_P1])
        assert [round(tenure.ended_s, 3) for tenure in stage.tenures] == [1.0, 6.0]

    _play(scene)


@pytest.mark.parametrize(
    ("leader", "instance_id", "tenures"),
    [("", None, 1), ("other", None, 2), ("", "instance", 2)],
    ids=["the coordinator knows", "a leader may not", "nor who has missed it and stayed"],
)
def test_a_member_owns_partitions_kept_through_missed_epochs_unless_they_were_reassigned(
    leader: str, instance_id: str | None, tenures: int
) -> None:
    async def scene(stage: Stage) -> None:
        stage.rejoin(1, leader=leader, instance_id=instance_id)
        stage.hands.take([_P0], "m")
        stage.rejoin(2, _P0, leader=leader, instance_id=instance_id)
        assert len(stage.tenures) == 1
        stage.rejoin(5, _P0, leader=leader, instance_id=instance_id)
        assert len(stage.tenures) == tenures

    _play(scene)
