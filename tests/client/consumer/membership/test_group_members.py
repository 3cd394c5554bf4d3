"""Members of groups on a real node, on virtual time: joins, leaves, stalls, deaths, restarts; of either protocol."""

import asyncio

import pytest

from cordwood.client.admin.topics import NewTopic, create_partitions, create_topics
from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.membership.events import Assign, Lose, Revoke
from cordwood.client.errors import BrokerError, CommitFailed
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.wire.errors import ErrorCode
from tests.client.group_members import ALL, Group, play

PROTOCOLS = ["consumer", "classic"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_share_the_partitions_and_no_two_have_the_same_at_any_time(protocol: str) -> None:
    async def scene(group: Group) -> None:
        first = await group.alone(protocol)
        second = await group.member("second", protocol)
        third = await group.member("third", protocol)
        await group.until_shared(first, second, third)

    play(scene)


def test_moved_partitions_are_revoked_before_the_new_owner_gets_them() -> None:
    async def scene(group: Group) -> None:
        first = await group.alone("consumer")
        second = await group.member("second", "consumer")
        await group.until_shared(first, second)
        revoked = [step.partitions for step in first.log if isinstance(step, Revoke)]
        assert revoked == [second.assignment]
        assert not any(isinstance(step, Lose) for step in first.log)

    play(scene)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_that_leaves_is_replaced_at_once(protocol: str) -> None:
    async def scene(group: Group) -> None:
        first, second = await group.pair(protocol)
        await first.stop()
        assert first.assignment == frozenset()
        await group.until_shared(second)

    play(scene)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_dead_member_is_replaced_when_its_session_ends(protocol: str) -> None:
    async def scene(group: Group) -> None:
        first, second = await group.pair(protocol)
        await first.kill()
        await group.until_shared(second)

    play(scene)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stalled_member_is_replaced_and_loses_its_partitions(protocol: str) -> None:
    async def scene(group: Group) -> None:
        first, second = await group.pair(protocol, max_poll_interval_ms=20_000)
        await first.stall()
        await group.until_shared(second)
        had, first.log = first.assignment, []
        first.resume()
        await group.until_shared(first, second)
        assert first.log[0] == Lose(had)

    play(scene)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_static_member_that_restarts_has_its_partitions_again_and_others_notice_nothing(protocol: str) -> None:
    async def scene(group: Group) -> None:
        first = await group.member("first", protocol, group_instance_id="1")
        second = await group.member("second", protocol, group_instance_id="2")
        await group.until_shared(first, second)
        had, second.log = first.assignment, []
        await first.stop()
        again = await group.member("again", protocol, group_instance_id="1")
        await group.until_shared(again, second)
        assert again.assignment == had
        assert second.log == []

    play(scene)


def test_a_static_member_cannot_take_the_place_of_one_that_is_still_there() -> None:
    async def scene(group: Group) -> None:
        first = await group.alone("consumer", group_instance_id="1")
        other = await group.member("other", "consumer", group_instance_id="1")
        await group.until(lambda: other.error is not None)
        assert isinstance(other.error, BrokerError)
        assert other.error.code == ErrorCode.UNRELEASED_INSTANCE_ID
        await group.until_shared(first)

    play(scene)


def test_a_broker_that_matches_patterns_gives_topics_that_come_later() -> None:
    async def scene(group: Group) -> None:
        member = await group.member("first", "consumer")
        member.subscribe_to_pattern("t|later-.*")
        await group.until_shared(member)
        await create_topics(group.client, [NewTopic("later-1", 2)])
        later = frozenset(TopicPartition("later-1", index) for index in range(2))
        await group.until_shared(member, partitions=ALL | later)

    play(scene, group_consumer_regex_refresh_interval_ms="10000")


def test_a_pattern_that_the_broker_cannot_read_is_raised() -> None:
    async def scene(group: Group) -> None:
        member = await group.member("first", "consumer")
        member.subscribe_to_pattern("(")
        await group.until(lambda: member.error is not None)
        assert isinstance(member.error, BrokerError)
        assert member.error.code == ErrorCode.INVALID_REGULAR_EXPRESSION

    play(scene)


def test_partitions_that_are_added_are_read() -> None:
    async def scene(group: Group) -> None:
        member = await group.member("first", "consumer")
        await group.until_shared(member)
        await create_partitions(group.client, {"t": 6})
        await group.until_shared(member, partitions=frozenset(TopicPartition("t", index) for index in range(6)))
        assert not any(isinstance(step, Revoke | Lose) for step in member.log)

    play(scene)


def test_an_assignor_that_the_broker_does_not_have_is_raised() -> None:
    async def scene(group: Group) -> None:
        member = await group.member("first", "consumer", group_remote_assignor="mine")
        await group.until(lambda: member.error is not None)
        assert isinstance(member.error, BrokerError)
        assert member.error.code == ErrorCode.UNSUPPORTED_ASSIGNOR

    play(scene)


def test_joining_a_full_group_is_refused() -> None:
    async def scene(group: Group) -> None:
        await group.alone("consumer")
        other = await group.member("other", "consumer")
        await group.until(lambda: other.error is not None)
        assert isinstance(other.error, BrokerError)
        assert other.error.code == ErrorCode.GROUP_MAX_SIZE_REACHED

    play(scene, group_consumer_max_size="1")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_keep_their_partitions_when_the_node_restarts(protocol: str) -> None:
    async def scene(group: Group) -> None:
        first, second = await group.pair(protocol)
        had = (first.assignment, second.assignment)
        first.log, second.log = [], []
        group.node.kill()
        await asyncio.sleep(5)
        assert await group.node.start()
        await asyncio.sleep(120)
        await group.until_shared(first, second)
        if protocol == "consumer":
            assert (first.assignment, second.assignment) == had
            assert first.log == second.log == []

    play(scene)


def test_an_application_that_wants_other_topics_has_those() -> None:
    async def scene(group: Group) -> None:
        await create_topics(group.client, [NewTopic("u", 2)])
        member = await group.member("first", "consumer")
        await group.until_shared(member)
        await member.subscribe("u")
        await group.until_shared(member, partitions=frozenset(TopicPartition("u", index) for index in range(2)))

    play(scene)


# ---- from one protocol to the other


@pytest.mark.parametrize(("old", "new"), [("classic", "consumer"), ("consumer", "classic")])
def test_members_move_to_the_other_protocol_one_by_one(old: str, new: str) -> None:
    async def scene(group: Group) -> None:
        strategy = ["cooperative-sticky"]
        olds = [await group.member(f"old-{number}", old, partition_assignment_strategy=strategy) for number in range(2)]
        await group.until_shared(*olds)
        first = await group.member("new-0", new, partition_assignment_strategy=strategy)
        await group.until_shared(*olds, first)
        await olds[0].stop()
        await group.until_shared(olds[1], first)
        second = await group.member("new-1", new, partition_assignment_strategy=strategy)
        await group.until_shared(olds[1], first, second)
        await olds[1].stop()
        await group.until_shared(first, second)

    play(scene, group_consumer_migration_policy="bidirectional")


# ---- commits


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_new_owner_starts_at_the_committed_offset(protocol: str) -> None:
    async def scene(group: Group) -> None:
        first = await group.alone(protocol)
        first.position = {part: OffsetAndMetadata(10 + part.partition, "so far", 0) for part in ALL}
        second = await group.member("second", protocol)
        await group.until_shared(first, second)
        await group.until(lambda: second.position.keys() == second.assignment)
        assert second.position == {
            part: OffsetAndMetadata(10 + part.partition, "so far", 0) for part in second.assignment
        }

    play(scene)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stalled_member_cannot_commit_partitions_of_others(protocol: str) -> None:
    async def scene(group: Group) -> None:
        first, second = await group.pair(protocol, max_poll_interval_ms=20_000)
        await first.stall()
        await group.until_shared(second)
        with pytest.raises(CommitFailed, match="max_poll_interval_ms"):
            await first.commits.commit({part: OffsetAndMetadata(99) for part in first.assignment})

    play(scene)


def test_a_member_commits_while_its_epoch_grows() -> None:
    async def scene(group: Group) -> None:
        first = await group.alone("consumer")
        part = min(first.assignment)

        async def commit_on() -> None:
            for offset in range(200):
                await first.commits.commit({part: OffsetAndMetadata(offset)})
                await asyncio.sleep(0.05)

        committing = asyncio.ensure_future(commit_on())
        for number in range(2):
            await group.member(f"other-{number}", "consumer")
        await group.until_shared(*group.members)
        await committing
        assert await first.commits.committed([part]) == {part: OffsetAndMetadata(199)}

    play(scene)


def test_a_consumer_without_membership_commits_and_fetches_its_offsets() -> None:
    async def scene(group: Group) -> None:
        member = await group.member("first", "consumer")
        await member.stop()
        alone = await group.member("alone", "consumer")
        await alone.stall()
        alone.driver.leave("it assigns by hand")
        await group.until(lambda: alone.driver.has_left)
        alone.commits.is_member = False
        part = TopicPartition("t", 2)
        await alone.commits.commit({part: OffsetAndMetadata(5, "by hand", 0)})
        assert await alone.commits.committed([part]) == {part: OffsetAndMetadata(5, "by hand", 0)}

    play(scene)


def test_the_first_step_of_every_member_is_an_assignment() -> None:
    async def scene(group: Group) -> None:
        members = [await group.member(f"m{number}", "consumer") for number in range(6)]
        await group.until(lambda: all(member.log for member in members))
        assert all(isinstance(member.log[0], Assign) for member in members)

    play(scene)
