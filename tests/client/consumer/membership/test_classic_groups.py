"""Classic groups on a real node, on virtual time: members that come, go, hang, and grow topics."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from cordwood.client.admin.topics import NewTopic, create_partitions, create_topics
from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.assignors.assignor import (
    Assignment,
    GroupTopics,
    RebalanceProtocol,
    Stateless,
    Subscription,
)
from cordwood.client.consumer.membership.events import Assign, Lose, Revoke
from cordwood.client.errors import BrokerError
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.describe_groups import DescribeGroupsRequest
from cordwood.wire.messages.heartbeat import HeartbeatRequest
from tests.client.group_members import ALL, Group, Member, play

EAGER: dict[str, Any] = {"partition_assignment_strategy": ["range"]}
COOPERATIVE: dict[str, Any] = {"partition_assignment_strategy": ["cooperative-sticky"]}
ASSIGNORS = ["range", "roundrobin", "sticky", "cooperative-sticky"]


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_members_share_partitions_and_take_over_from_departed_ones(assignor: str) -> None:
    async def scene(group: Group) -> None:
        settings: dict[str, Any] = {"partition_assignment_strategy": [assignor], "session_timeout_ms": 10_000}
        first = await group.alone("classic", **settings)
        second = await group.member("second", "classic", **settings)
        third = await group.member("third", "classic", **settings)
        await group.until_shared(first, second, third)
        await first.stop()
        await group.until_shared(second, third)
        await second.kill()
        group.members.remove(second)
        await group.until_shared(third)

    play(scene)


def test_cooperative_members_revoke_only_moved_partitions() -> None:
    async def scene(group: Group) -> None:
        first = await group.alone("classic", **COOPERATIVE)
        second = await group.member("second", "classic", **COOPERATIVE)
        await group.until_shared(first, second)
        revoked = [step.partitions for step in first.log if isinstance(step, Revoke)]
        assert revoked == [second.assignment]
        assert not any(isinstance(step, Lose) for step in first.log + second.log)

    play(scene)


def test_eager_members_revoke_everything_before_rejoining() -> None:
    async def scene(group: Group) -> None:
        first = await group.alone("classic", **EAGER)
        second = await group.member("second", "classic", **EAGER)
        await group.until_shared(first, second)
        assert [step for step in first.log if not isinstance(step, Assign)] == [Revoke(ALL)]

    play(scene)


def test_members_with_several_assignors_agree_on_one_that_all_have() -> None:
    async def scene(group: Group) -> None:
        first = await group.alone("classic", partition_assignment_strategy=["range", "roundrobin"])
        assert await assignor_of(group) == "range"
        second = await group.member("second", "classic", partition_assignment_strategy=["sticky", "roundrobin"])
        await group.until_shared(first, second)
        assert await assignor_of(group) == "roundrobin"

    play(scene)


def test_a_member_without_a_common_assignor_gets_an_error() -> None:
    async def scene(group: Group) -> None:
        first = await group.alone("classic", partition_assignment_strategy=["range"])
        second = await group.member("second", "classic", partition_assignment_strategy=["sticky"])
        await group.until(lambda: second.error is not None)
        assert second.error is not None
        assert second.error.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert first.assignment == ALL

    play(scene)


class AllToOne(Stateless):
    """The others stand by."""

    name = "all-to-one"
    supported_protocols = (RebalanceProtocol.EAGER,)

    def assign(self, topics: GroupTopics, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        first, *others = sorted(subscriptions)
        everything = topics.partitions(topics.partition_counts)
        return {first: Assignment(everything)} | {other: Assignment([]) for other in others}


def test_an_assignor_of_ones_own_decides() -> None:
    async def scene(group: Group) -> None:
        members = [
            await group.member(name, "classic", partition_assignment_strategy=[AllToOne()]) for name in ("a", "b", "c")
        ]
        await group.until(lambda: shares(members) == [0, 0, len(ALL)])
        assert await assignor_of(group) == "all-to-one"
        (owner,) = [member for member in members if member.assignment]
        await owner.stop()
        group.members.remove(owner)
        members.remove(owner)
        await group.until(lambda: shares(members) == [0, len(ALL)])

    play(scene)


@pytest.mark.parametrize("method", ["subscription_user_data", "assign", "on_assignment"])
def test_a_failing_assignor_is_reported_and_others_continue(method: str) -> None:
    def fail(*args: object) -> None:
        raise ValueError("not today")

    async def scene(group: Group) -> None:
        failing = AllToOne()
        setattr(failing, method, fail)
        first = await group.member("first", "classic", partition_assignment_strategy=[failing])
        await group.until(lambda: first.error is not None)
        assert str(first.error) == "the assignor all-to-one failed: ValueError('not today')"
        group.members.remove(first)
        second = await group.member("second", "classic", partition_assignment_strategy=[AllToOne()])
        await group.until_shared(second)

    play(scene)


def shares(members: list[Member]) -> list[int] | None:
    """Once all are of the same generation."""
    if any(member.driver.is_rebalancing for member in members):
        return None
    if len({member.driver.metadata.generation_id for member in members}) > 1:
        return None
    return sorted(len(member.assignment) for member in members)


@pytest.mark.parametrize("settings", [EAGER, COOPERATIVE], ids=["eager", "cooperative"])
def test_a_member_that_does_not_poll_loses_its_partitions_until_the_next_poll(settings: dict[str, Any]) -> None:
    async def scene(group: Group) -> None:
        first = await group.member("first", "classic", max_poll_interval_ms=20_000, **settings)
        second = await group.member("second", "classic", max_poll_interval_ms=20_000, **settings)
        await group.until_shared(first, second)
        had = first.assignment
        await first.stall()
        await group.until_shared(second)
        # It does not know yet, and what it would commit is refused.
        assert first.assignment == had
        assert first.driver.metadata.generation_id == -1
        first.resume()
        await group.until_shared(first, second)
        assert Lose(had) in first.log

    play(scene)


def test_an_application_that_waits_in_poll_is_alive_however_long() -> None:
    async def scene(group: Group) -> None:
        first = await group.alone("classic", kind=Patient, max_poll_interval_ms=5_000, **EAGER)
        await asyncio.sleep(60)
        assert [type(step) for step in first.log] == [Assign]
        assert first.driver.metadata.generation_id == 1

    play(scene)


class Patient(Member):
    """Polls for longer than `max_poll_interval_ms`."""

    async def _poll_forever(self) -> None:
        with self.driver.polling():
            while True:
                await self._do_what_waits()
                self.driver.changed.clear()
                await self.driver.changed.wait()


def test_a_returning_static_member_gets_its_partitions_without_a_rebalance() -> None:
    async def scene(group: Group) -> None:
        first = await group.member("first", "classic", group_instance_id="one", **EAGER)
        second = await group.member("second", "classic", group_instance_id="two", **EAGER)
        await group.until_shared(first, second)
        had, steps = first.assignment, list(second.log)
        await first.stop()
        group.members.remove(first)
        again = await group.member("again", "classic", group_instance_id="one", **EAGER)
        await group.until_shared(again, second)
        assert again.assignment == had
        assert second.log == steps

    play(scene)


def test_of_two_with_the_same_instance_id_the_first_is_fenced() -> None:
    async def scene(group: Group) -> None:
        first = await group.alone("classic", group_instance_id="one", **EAGER)
        group.overlaps = True
        second = await group.member("second", "classic", group_instance_id="one", **EAGER)
        await group.until(lambda: first.error is not None)
        assert first.error is not None
        assert first.error.code is ErrorCode.FENCED_INSTANCE_ID
        await group.until(lambda: second.assignment == ALL)

    play(scene)


def test_the_leader_notices_that_a_topic_has_grown() -> None:
    async def scene(group: Group) -> None:
        first = await group.member("first", "classic", **COOPERATIVE)
        second = await group.member("second", "classic", **COOPERATIVE)
        await group.until_shared(first, second)
        await create_partitions(group.client, {"t": 6})
        for member in (first, second):
            await member.client.topics(["t"])
            member.driver.topics_changed()
        more = frozenset(TopicPartition("t", index) for index in range(6))
        await group.until_shared(first, second, partitions=more)
        assert not any(isinstance(step, Lose) for step in first.log + second.log)

    play(scene)


def test_the_leader_assigns_topics_that_only_others_read() -> None:
    async def scene(group: Group) -> None:
        await create_topics(group.client, [NewTopic("u", 2)])
        first = await group.alone("classic", **EAGER)
        second = await group.member("second", "classic", **EAGER)
        await second.subscribe("u")
        others = frozenset(TopicPartition("u", index) for index in range(2))
        await group.until(lambda: first.assignment == ALL and second.assignment == others)
        assert first.driver.group_topics | second.driver.group_topics == {"t", "u"}

    play(scene)


def test_a_rebalance_continues_through_a_restart_of_the_node() -> None:
    async def scene(group: Group) -> None:
        first = await group.member("first", "classic", session_timeout_ms=30_000, **COOPERATIVE)
        second = await group.member("second", "classic", session_timeout_ms=30_000, **COOPERATIVE)
        await group.until_shared(first, second)
        steps = [list(first.log), list(second.log)]
        group.node.kill()
        await asyncio.sleep(5)
        assert await group.node.start()
        third = await group.member("third", "classic", session_timeout_ms=30_000, **COOPERATIVE)
        await group.until_shared(first, second, third)
        # Members outlive their coordinator: nothing was lost.
        for before, member in zip(steps, (first, second), strict=True):
            assert not any(isinstance(step, Lose) for step in member.log[len(before) :])

    play(scene)


def test_nothing_waits_behind_a_join_that_waits_for_others() -> None:
    async def scene(group: Group) -> None:
        first = await group.member("first", "classic", max_poll_interval_ms=60_000, **EAGER)
        second = await group.member("second", "classic", max_poll_interval_ms=60_000, **EAGER)
        await group.until_shared(first, second)
        await second.stall()
        third = await group.member("third", "classic", **EAGER)
        await group.until(lambda: first.driver.is_rebalancing)
        # Answers come in the order of the requests: on the same connection this one would come after a minute.
        async with asyncio.timeout(1):
            connection = await first.driver.coordinator()
            await connection.ask(HeartbeatRequest(group_id="g", generation_id=0, member_id="nobody"))
        assert first.driver.is_rebalancing
        await group.until_shared(first, third)

    play(scene)


async def assignor_of(group: Group) -> str:
    response = await group.client.ask_any(DescribeGroupsRequest(groups=["g"]))
    (told,) = response.groups
    if told.error_code != ErrorCode.NONE:
        raise BrokerError(told.error_code)
    return told.protocol_data
