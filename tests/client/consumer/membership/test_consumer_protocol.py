"""A member of a KIP-848 group: it joins, reports changes, and takes and releases partitions."""

import pytest

from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.consumer.membership.consumer_states import MemberState
from cordwood.client.consumer.membership.events import (
    Assign,
    FindTopics,
    Revoke,
    TopicsChanged,
)
from cordwood.wire.messages.consumer_group_heartbeat import RequestTopicPartitions
from tests.client.consumer_protocol_stage import BILLS, INTERVAL_S, ORDERS, Stage, partitions

# ---- joining


def test_it_joins_within_the_first_poll_after_it_subscribed() -> None:
    stage = Stage()
    stage.poll()
    stage.subscribe("orders")
    assert stage.asked == []
    stage.poll()
    assert [request.member_epoch for request in stage.asked] == [0]


def test_a_joining_member_sends_a_complete_heartbeat() -> None:
    stage = Stage(client_rack="r1", group_remote_assignor="range", max_poll_interval_ms=1234)
    stage.subscribe("orders", "bills")
    stage.poll()
    request = stage.asked[0]
    assert request.group_id == "g"
    assert len(request.member_id) == 22
    assert request.subscribed_topic_names == ["bills", "orders"]
    assert request.subscribed_topic_regex is None
    assert (request.rack_id, request.server_assignor, request.rebalance_timeout_ms) == ("r1", "range", 1234)
    assert request.topic_partitions == []


def test_an_assignment_is_confirmed_once_the_application_has_taken_it() -> None:
    stage = Stage()
    stage.subscribe("orders")
    stage.poll()
    assert stage.answer({ORDERS: [0, 1]}, epoch=3) == [Assign(partitions("orders", 0, 1))]
    assert stage.member.assignment == frozenset()
    assert stage.asked == []
    stage.settle()
    assert stage.member.assignment == partitions("orders", 0, 1)
    request = stage.asked[0]
    assert request.member_epoch == 3
    assert request.topic_partitions == [RequestTopicPartitions(topic_id=ORDERS, partitions=[0, 1])]
    assert stage.member.state is MemberState.STABLE


def test_listeners_are_called_for_an_empty_first_assignment() -> None:
    stage = Stage()
    stage.subscribe("orders")
    stage.poll()
    assert stage.answer({}) == [Assign(frozenset())]
    stage.settle()
    assert stage.member.state is MemberState.STABLE
    assert stage.asked == []


def test_a_member_is_known_by_its_id_and_epoch_once_it_has_joined() -> None:
    stage = Stage(group_instance_id="i")
    assert stage.member.metadata == GroupMetadata("g", -1, "", "i")
    stage.joined(0, epoch=7)
    assert stage.member.metadata.generation_id == 7
    assert len(stage.member.metadata.member_id) == 22
    assert not stage.member.is_rebalancing


# ---- heartbeats


def test_a_heartbeat_contains_only_changes() -> None:
    stage = Stage(client_rack="r1").joined(0)
    stage.sleep(INTERVAL_S)
    request = stage.asked[0]
    assert request.member_epoch == 1
    assert request.rebalance_timeout_ms == -1
    assert request.rack_id is None
    assert request.subscribed_topic_names is None
    assert request.topic_partitions is None


def test_heartbeats_come_as_often_as_the_coordinator_says_also_while_the_application_works() -> None:
    stage = Stage().joined(0)
    stage.sleep(INTERVAL_S - 0.001)
    assert stage.asked == []
    for _ in range(5):
        stage.sleep(INTERVAL_S)
        stage.answer()
    assert stage.asked == []


def test_there_is_one_heartbeat_at_a_time() -> None:
    stage = Stage().joined(0)
    stage.sleep(10 * INTERVAL_S)
    assert len(stage.asked) == 1


def test_a_new_subscription_is_sent_at_once() -> None:
    stage = Stage().joined(0)
    stage.subscribe("orders", "bills")
    assert stage.asked[0].subscribed_topic_names == ["bills", "orders"]
    assert stage.asked[0].topic_partitions is None


def test_after_a_lost_answer_the_next_heartbeat_says_everything() -> None:
    stage = Stage(client_rack="r1").joined(0)
    stage.sleep(INTERVAL_S)
    stage.lose_answer()
    stage.sleep(1)
    request = stage.asked[0]
    assert request.member_epoch == 1
    assert request.rack_id == "r1"
    assert request.subscribed_topic_names == ["orders"]
    assert request.topic_partitions == [RequestTopicPartitions(topic_id=ORDERS, partitions=[0])]


def test_a_join_that_was_lost_is_sent_again_with_the_same_member_id() -> None:
    stage = Stage()
    stage.subscribe("orders")
    stage.poll()
    member_id = stage.asked[0].member_id
    stage.lose_answer()
    assert stage.asked == []
    stage.sleep(1)
    assert (stage.asked[0].member_epoch, stage.asked[0].member_id) == (0, member_id)


# ---- patterns


def test_a_pattern_is_sent_to_the_coordinator() -> None:
    stage = Stage()
    stage.subscribe(pattern="ord.*")
    stage.poll()
    assert stage.asked[0].subscribed_topic_regex == "ord.*"
    assert stage.asked[0].subscribed_topic_names == []


@pytest.mark.parametrize("after_an_error", [False, True])
def test_a_pattern_is_taken_back_when_topics_are_named_instead(after_an_error: bool) -> None:
    stage = Stage()
    stage.subscribe(pattern="ord.*")
    stage.poll()
    stage.answer({})
    stage.settle()
    if after_an_error:
        stage.sleep(INTERVAL_S)
        stage.lose_answer()
    stage.subscribe("orders")
    stage.sleep(1)
    assert stage.asked[0].subscribed_topic_regex == ""
    assert stage.asked[0].subscribed_topic_names == ["orders"]


# ---- reconciliation


def test_revocations_are_confirmed_before_new_partitions_are_assigned() -> None:
    stage = Stage().joined(0, 1)
    stage.sleep(INTERVAL_S)
    assert stage.answer({ORDERS: [0]}, epoch=2) == [Revoke(partitions("orders", 1))]
    assert stage.member.is_rebalancing
    assert stage.asked == []
    assert stage.settle() == [Assign(frozenset())]
    assert stage.asked[0].topic_partitions == [RequestTopicPartitions(topic_id=ORDERS, partitions=[0])]
    stage.settle()
    assert stage.answer({ORDERS: [0], BILLS: [1]}, epoch=3) == [Assign(partitions("bills", 1))]
    stage.settle()
    assert stage.member.assignment == partitions("orders", 0) | partitions("bills", 1)


def test_a_target_that_takes_and_gives_is_revoked_first_then_assigned() -> None:
    stage = Stage().joined(0, 1)
    stage.sleep(INTERVAL_S)
    assert stage.answer({ORDERS: [1, 2]}, epoch=2) == [Revoke(partitions("orders", 0))]
    assert stage.settle() == [Assign(partitions("orders", 2))]


def test_an_assignment_being_delivered_counts_as_taken() -> None:
    """Or else the coordinator could give it to another, when it is wanted back in the meantime."""
    stage = Stage().joined(0)
    stage.sleep(INTERVAL_S)
    stage.answer({ORDERS: [0, 1]}, epoch=2)
    stage.sleep(INTERVAL_S)
    assert stage.asked[0].topic_partitions == [RequestTopicPartitions(topic_id=ORDERS, partitions=[0, 1])]
    assert stage.answer({ORDERS: [0]}, epoch=3) == []
    assert stage.settle() == [Revoke(partitions("orders", 1))]


def test_heartbeats_continue_during_a_revocation() -> None:
    stage = Stage().joined(0, 1)
    stage.sleep(INTERVAL_S)
    stage.answer({ORDERS: []}, epoch=2)
    stage.sleep(INTERVAL_S)
    assert stage.asked[0].member_epoch == 2
    assert stage.asked[0].topic_partitions is None


def test_a_repeated_assignment_changes_nothing() -> None:
    stage = Stage().joined(0)
    stage.sleep(INTERVAL_S)
    assert stage.answer({ORDERS: [0]}) == []
    assert stage.member.state is MemberState.STABLE


def test_topics_without_a_known_name_are_looked_up_and_the_others_do_not_wait_for_them() -> None:
    stage = Stage()
    stage.subscribe(pattern=".*")
    stage.poll()
    unknown = b"u" * 16
    effects = stage.answer({ORDERS: [0], unknown: [0]})
    assert FindTopics(frozenset({unknown})) in effects
    assert Assign(partitions("orders", 0)) in effects
    assert stage.settle() == []
    assert stage.hear(TopicsChanged({}, {"new": unknown})) == [Assign(partitions("new", 0))]


def test_topics_are_looked_up_again_with_each_heartbeat() -> None:
    stage = Stage(knows_topics=False)
    stage.subscribe("orders")
    stage.poll()
    assert stage.answer({ORDERS: [0]}) == [FindTopics(frozenset({ORDERS}))]
    stage.sleep(INTERVAL_S)
    assert stage.answer() == [FindTopics(frozenset({ORDERS}))]


@pytest.mark.parametrize("is_known_before", [True, False])
def test_a_recreated_topic_is_released_and_assigned_again(is_known_before: bool) -> None:
    stage = Stage().joined(0)
    stage.sleep(INTERVAL_S)
    again = b"a" * 16
    if is_known_before:
        stage.hear(TopicsChanged({"orders": 1}, {"orders": again}))
    assert Revoke(partitions("orders", 0)) in stage.answer({again: [0]}, epoch=2)
    stage.settle()
    stage.hear(TopicsChanged({"orders": 1}, {"orders": again}))
    assert isinstance(stage.waiting, Assign)
    assert stage.waiting.added == partitions("orders", 0)


def test_the_id_of_a_deleted_topic_is_unknown() -> None:
    stage = Stage().joined(0)
    stage.hear(TopicsChanged({"orders": 1}, {"orders": b"a" * 16}))
    stage.sleep(INTERVAL_S)
    assert stage.answer() == [FindTopics(frozenset({ORDERS}))]
