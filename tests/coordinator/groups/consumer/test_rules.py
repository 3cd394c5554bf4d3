"""The rules of the consumer protocol (KIP-848), one by one. How they play together is in the transcripts."""

from __future__ import annotations

from typing import Any

import pytest

from cordwood.coordinator.groups.consumer import records
from cordwood.coordinator.groups.consumer.consumer_group import ConsumerGroup
from cordwood.coordinator.groups.consumer.member import Member, MemberState
from cordwood.coordinator.groups.consumer.topics import SubscribedTopics
from cordwood.coordinator.record import CoordinatorRecord
from cordwood.metadata.image import Broker, MetadataImage, PartitionRegistration, Topic, Topics
from cordwood.metadata.persistent_map import PersistentMap, hash_number, hash_text, hash_uuid
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.group_records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from cordwood.wire.messages.group_records.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)
from cordwood.wire.primitives import Uuid
from tests.coordinator.consumer_stage import GROUP, REBALANCE_MS, SESSION_MS, Owned, Stage, assigned, play


def _owned(stage: Stage, *numbers: int, topic: str = "orders") -> Owned:
    return {(stage.topic_id(topic), number) for number in numbers}


def _refused(error: ErrorCode) -> Any:
    return pytest.raises(Refusal, check=lambda refusal: refusal.error == error)


# Heartbeats


def test_a_heartbeat_without_changes_writes_nothing_and_returns_no_assignment() -> None:
    async def test(stage: Stage) -> None:
        stage.create("orders", 2)
        stage.join("a", "orders")
        stage.heartbeat("a", 2)
        written = len(stage.log.records)
        response = stage.heartbeat("a", 2)
        assert (response.member_epoch, response.assignment) == (2, None)
        assert len(stage.log.records) == written

    play(test)


def test_a_complete_heartbeat_gets_a_complete_response() -> None:
    async def test(stage: Stage) -> None:
        stage.create("orders", 2)
        stage.join("a", "orders")
        response = stage.heartbeat(
            "a", 2, owned=set(), rebalance_timeout_ms=REBALANCE_MS, subscribed_topic_names=["orders"]
        )
        assert assigned(response) == _owned(stage, 0, 1)

    play(test)


def test_a_session_lasts_from_heartbeat_to_heartbeat() -> None:
    async def test(stage: Stage) -> None:
        stage.create("orders", 2)
        stage.join("a", "orders")
        for _ in range(3):
            await stage.wait(SESSION_MS / 1000 - 1)
            stage.heartbeat("a", 2)
        await stage.wait(SESSION_MS / 1000 + 1)
        assert stage.group.members == {}
        assert stage.group.state_name == "Empty"

    play(test)


def test_a_member_may_be_one_epoch_behind_after_a_lost_response() -> None:
    async def test(stage: Stage) -> None:
        stage.create("orders", 2)
        stage.join("a", "orders")
        stage.join("b", "orders")
        # It gives up one at once, and goes to epoch 3 without hearing of it.
        stage.heartbeat("a", 2, owned=_owned(stage, 0))
        assert stage.group.members["a"].epoch == 3
        assert stage.heartbeat("a", 2, owned=_owned(stage, 0)).member_epoch == 3
        with _refused(ErrorCode.FENCED_MEMBER_EPOCH):
            stage.heartbeat("a", 2, owned=_owned(stage, 0, 1))
        with _refused(ErrorCode.FENCED_MEMBER_EPOCH):
            stage.heartbeat("a", 2)

    play(test)


@pytest.mark.parametrize("goes", ["dies", "leaves for a while"])
def test_a_static_member_that_came_back_under_its_own_id_has_a_session(goes: str) -> None:
    async def test(stage: Stage) -> None:
        stage.create("orders", 2)
        stage.join("a", "orders", instance_id="i")
        stage.heartbeat("a", -2, instance_id="i")
        stage.join("a", "orders", instance_id="i")
        if goes != "dies":
            stage.heartbeat("a", -2, instance_id="i")
        assert "a" in stage.group.members
        await stage.wait(SESSION_MS / 1000 + 1)
        assert stage.group.members == {}

    play(test)


# Reconciliation


def test_a_partition_is_given_only_after_its_owner_has_given_it_up() -> None:
    async def test(stage: Stage) -> None:
        stage.create("orders", 2)
        stage.join("a", "orders")
        assert assigned(stage.join("b", "orders")) == set()
        assert assigned(stage.heartbeat("a", 2)) == _owned(stage, 0)
        assert stage.group.members["b"].state is MemberState.UNRELEASED_PARTITIONS
        assert assigned(stage.heartbeat("b", 3)) is None
        stage.heartbeat("a", 2, owned=_owned(stage, 0))
        assert assigned(stage.heartbeat("b", 3)) == _owned(stage, 1)

    play(test)


def test_a_member_stays_in_its_epoch_until_it_has_revoked_partitions() -> None:
    async def test(stage: Stage) -> None:
        stage.create("orders", 2)
        stage.join("a", "orders")
        stage.join("b", "orders")
        assert stage.heartbeat("a", 2, owned=_owned(stage, 0, 1)).member_epoch == 2
        assert stage.heartbeat("a", 2, owned=_owned(stage, 0, 1)).member_epoch == 2
        assert stage.heartbeat("a", 2, owned=_owned(stage, 0)).member_epoch == 3

    play(test)


def test_partitions_of_a_leaving_member_are_free_at_once() -> None:
    async def test(stage: Stage) -> None:
        stage.create("orders", 2)
        stage.join("a", "orders")
        stage.join("b", "orders")
        stage.heartbeat("a", -1)
        assert assigned(stage.heartbeat("b", 3)) == _owned(stage, 0, 1)

    play(test)


def test_a_topic_that_a_member_is_not_subscribed_to_any_more_it_gives_up_before_the_target_knows() -> None:
    async def test(stage: Stage) -> None:
        stage.create("orders", 1)
        stage.create("refunds", 1)
        stage.join("a", "orders", "refunds")
        response = stage.heartbeat("a", 2, subscribed_topic_names=["refunds"])
        assert assigned(response) == _owned(stage, 0, topic="refunds")
        # The next assignment is not due yet.
        assert stage.group.epoch > stage.group.assignment_epoch
        assert stage.group.members["a"].state is MemberState.UNREVOKED_PARTITIONS

    play(test, group_consumer_assignment_interval_ms="1000")


def test_a_member_in_an_unknown_state_starts_over() -> None:
    async def test(stage: Stage) -> None:
        stage.create("orders", 1)
        stage.join("a", "orders")
        later = records.current_assignment_record(GROUP, stage.group.members["a"])
        assert isinstance(later.value, ConsumerGroupCurrentMemberAssignmentValue)
        later.value.state = 9
        stage.state.replay([later], 0, -1)
        with _refused(ErrorCode.FENCED_MEMBER_EPOCH):
            stage.heartbeat("a", 2)
        assert assigned(stage.join("a", "orders")) == _owned(stage, 0)

    play(test)


# Assignment


def test_assignments_are_an_interval_apart() -> None:
    async def test(stage: Stage) -> None:
        stage.create("orders", 4)
        stage.join("a", "orders")
        stage.join("b", "orders")
        stage.join("c", "orders")
        assert (stage.group.epoch, stage.group.assignment_epoch) == (4, 2)
        await stage.wait(1.1)
        stage.heartbeat("a", 2)
        assert (stage.group.epoch, stage.group.assignment_epoch) == (4, 4)

    play(test, group_consumer_assignment_interval_ms="1000")


def test_a_member_without_a_subscription_is_assigned_nothing() -> None:
    async def test(stage: Stage) -> None:
        stage.create("orders", 4)
        stage.join("a", "orders")
        stage.join("b", "orders")
        await stage.wait(1.1)
        stage.join("c")
        sizes = {member: sum(map(len, target.values())) for member, target in stage.group.target.items()}
        assert sizes == {"a": 2, "b": 2, "c": 0}

    play(test, group_consumer_assignment_interval_ms="1000")


def test_a_group_without_a_vote_has_the_first_assignor_of_the_broker() -> None:
    async def test(stage: Stage) -> None:
        stage.create("orders", 3)
        stage.create("refunds", 3)
        stage.join("a", "orders", "refunds")
        stage.join("b", "orders", "refunds")
        # Range gives the one more of each topic to the same member.
        assert sorted(len(numbers) for numbers in stage.group.target["a"].values()) == [2, 2]

    play(test, group_consumer_assignors="org.apache.kafka.coordinator.group.assignor.RangeAssignor,uniform")


def test_changes_of_unsubscribed_topics_are_ignored() -> None:
    async def test(stage: Stage) -> None:
        stage.create("orders", 1)
        stage.join("a", "orders")
        stage.create("refunds", 1)
        stage.heartbeat("a", 2)
        written = len(stage.log.records)
        stage.grow("refunds", 3)
        stage.heartbeat("a", 2)
        assert len(stage.log.records) == written

    play(test)


def test_an_epoch_that_could_not_be_written_is_written_with_the_next_heartbeat() -> None:
    async def test(stage: Stage) -> None:
        stage.create("orders", 1)
        stage.join("a", "orders")
        stage.heartbeat("a", 2)
        stage.grow("orders", 2)
        stage.log.refusal = Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, "not now")
        with pytest.raises(Refusal):
            stage.heartbeat("a", 2)
        assert stage.group.epoch == 2
        stage.log.refusal = None
        assert assigned(stage.heartbeat("a", 2)) == _owned(stage, 0, 1)

    play(test)


@pytest.mark.parametrize(
    ("topic_id", "name", "rack", "expected"),
    [
        ("53177920dcbc406fa0989ca4dfea9e2b", "hash-a4340", None, 1253063254660841479),
        ("d194fe038c1142a6ba1db6260747b5ae", "hash-a4363", "r-eins", -4069300420439184458),
    ],
)
def test_the_hash_over_a_groups_topics_is_kafkas(topic_id: str, name: str, rack: str | None, expected: int) -> None:
    """Of topics with one partition, in a cluster of one broker; as a Kafka 4.3.1 wrote it."""
    topic = Topic(name, bytes.fromhex(topic_id), _map({0: PartitionRegistration((1,), (1,), 1, 0, 0)}, hash_number))
    topics = Topics(_map({topic.id: topic}, hash_uuid), _map({name: topic.id}, hash_text))
    image = MetadataImage(topics=topics, brokers={1: Broker(1, 0, bytes(16), rack=rack)})
    assert SubscribedTopics().hash_of([name, "nowhere"], image) == expected


def _map(values: dict[Any, Any], hash_of: Any) -> PersistentMap[Any, Any]:
    editor: Any = PersistentMap(hash_of).edit()
    for key, value in values.items():
        editor[key] = value
    finished: PersistentMap[Any, Any] = editor.finish()
    return finished


def test_topics_created_between_heartbeats_are_matched_by_regular_expressions() -> None:
    async def test(stage: Stage) -> None:
        stage.create("orders", 1)
        stage.join("a", subscribed_topic_regex="o.*")
        await stage.wait(11)
        stage.create("others", 1)
        stage.load_again()
        stage.heartbeat("a", 1)
        await stage.wait(1)
        expected = _owned(stage, 0) | _owned(stage, 0, topic="others")
        assert assigned(stage.heartbeat("a", 2)) == expected

    play(test)


# Committing

_TOPIC: Uuid = b"t" * 16


def _group(member: Member) -> ConsumerGroup:
    group = ConsumerGroup(GROUP)
    group.put_member(member)
    return group


def _check_commit(group: ConsumerGroup, epoch: int, partition: int = 0, **options: Any) -> None:
    options = {"transactional": False, "version": 9, **options}
    check = group.check_offset_commit("a", None, epoch, **options)
    if check is not None:
        check("orders", _TOPIC, partition)


def test_a_member_commits_for_its_epoch_or_for_an_earlier_one_in_which_it_had_the_partition() -> None:
    group = _group(Member("a", epoch=5, assigned={_TOPIC: {0: 3}}, pending_revocation={_TOPIC: {1: 2}}))
    _check_commit(group, 5, partition=7)
    _check_commit(group, 4)
    _check_commit(group, 3)
    _check_commit(group, 2, partition=1)
    for epoch, partition in ((6, 0), (2, 0), (4, 7)):
        with _refused(ErrorCode.STALE_MEMBER_EPOCH):
            _check_commit(group, epoch, partition)


def test_a_member_with_epochs_must_commit_with_a_version_that_knows_them() -> None:
    group = _group(Member("a", epoch=5))
    with _refused(ErrorCode.UNSUPPORTED_VERSION):
        _check_commit(group, 5, version=8)
    _check_commit(group, 5, version=3, transactional=True)


def test_non_members_commit_only_to_groups_without_members() -> None:
    group = _group(Member("a", epoch=5))
    with _refused(ErrorCode.UNKNOWN_MEMBER_ID):
        group.check_offset_commit("", None, -1, transactional=False, version=9)
    assert group.check_offset_commit("", None, -1, transactional=True, version=3) is None
    group.remove_member("a")
    assert group.check_offset_commit("", None, -1, transactional=False, version=9) is None


# The log


def test_an_assignment_without_partition_epochs_has_the_members_epoch() -> None:
    async def test(stage: Stage) -> None:
        stage.state.replay([_old_assignment(epoch=4), _old_assignment(epoch=-2, member_id="static")], 0, -1)
        assert stage.group.members["a"].assigned == {_TOPIC: {0: 4, 1: 4}}
        assert stage.group.members["static"].assigned == {_TOPIC: {0: 0, 1: 0}}

    play(test)


def _old_assignment(epoch: int, member_id: str = "a") -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id=member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=epoch,
            assigned_partitions=[TopicPartitions(topic_id=_TOPIC, partitions=[0, 1], assignment_epochs=None)],
        ),
    )


def test_old_topic_metadata_records_of_kafka_are_removed() -> None:
    async def test(stage: Stage) -> None:
        stage.create("orders", 1)
        stage.join("a", "orders")
        key = ConsumerGroupPartitionMetadataKey(group_id=GROUP)
        stage.state.replay([CoordinatorRecord(key, ConsumerGroupPartitionMetadataValue())], 0, -1)
        stage.grow("orders", 2)
        stage.heartbeat("a", 2)
        assert CoordinatorRecord(key, None) in stage.log.records
        assert not stage.group.has_partition_metadata

    play(test)


def test_tombstones_of_missing_entries_are_accepted() -> None:
    async def test(stage: Stage) -> None:
        stage.create("orders", 1)
        stage.join("a", "orders")
        tombstones = stage.group.tombstones()
        stage.state.replay([*tombstones, *tombstones], 0, -1)
        assert stage.state.groups == {}

    play(test)


def test_a_loaded_group_follows_changes_of_its_topics() -> None:
    async def test(stage: Stage) -> None:
        stage.create("orders", 1)
        stage.join("a", "orders")
        stage.load_again()
        stage.heartbeat("a", 2)
        stage.grow("orders", 2)
        assert assigned(stage.heartbeat("a", 2)) == _owned(stage, 0, 1)

    play(test)
