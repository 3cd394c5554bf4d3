"""A member of a KIP-848 group: what it says, what it makes of answers, and when."""

import pytest
from consumer_protocol_stage import BILLS, INTERVAL_S, ORDERS, Stage, partitions

from cordwood.client.consumer.membership.consumer_states import NEXT_STATES, MemberState
from cordwood.client.consumer.membership.events import (
    Assign,
    FindTopics,
    ForgetCoordinator,
    GroupMetadata,
    Lose,
    Revoke,
    TopicsChanged,
)
from cordwood.client.errors import BrokerError, GroupFenced, UnsupportedByBroker
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.consumer_group_heartbeat import RequestTopicPartitions

# ---- joining


def test_it_joins_within_the_first_poll_after_it_subscribed() -> None:
    stage = Stage()
    stage.poll()
    stage.subscribe("orders")
    assert stage.asked == []
    stage.poll()
    assert [request.member_epoch for request in stage.asked] == [0]


def test_who_joins_says_everything() -> None:
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


def test_what_it_is_given_is_assigned_and_acknowledged_when_the_application_has_taken_it() -> None:
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


def test_the_application_hears_of_a_first_assignment_that_is_empty() -> None:
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


def test_a_heartbeat_says_only_what_is_new() -> None:
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


def test_a_new_subscription_is_told_at_once() -> None:
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


def test_a_pattern_is_told_to_the_coordinator() -> None:
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


def test_partitions_are_let_go_of_and_that_is_told_before_new_ones_come() -> None:
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


def test_what_the_application_is_just_being_given_counts_as_taken() -> None:
    """Or else the coordinator could give it to another, when it is wanted back meanwhile."""
    stage = Stage().joined(0)
    stage.sleep(INTERVAL_S)
    stage.answer({ORDERS: [0, 1]}, epoch=2)
    stage.sleep(INTERVAL_S)
    assert stage.asked[0].topic_partitions == [RequestTopicPartitions(topic_id=ORDERS, partitions=[0, 1])]
    assert stage.answer({ORDERS: [0]}, epoch=3) == []
    assert stage.settle() == [Revoke(partitions("orders", 1))]


def test_heartbeats_go_on_while_the_application_lets_go() -> None:
    stage = Stage().joined(0, 1)
    stage.sleep(INTERVAL_S)
    stage.answer({ORDERS: []}, epoch=2)
    stage.sleep(INTERVAL_S)
    assert stage.asked[0].member_epoch == 2
    assert stage.asked[0].topic_partitions is None


def test_an_assignment_that_is_said_again_changes_nothing() -> None:
    stage = Stage().joined(0)
    stage.sleep(INTERVAL_S)
    assert stage.answer({ORDERS: [0]}) == []
    assert stage.member.state is MemberState.STABLE


def test_topics_without_a_known_name_are_looked_for_and_the_others_do_not_wait_for_them() -> None:
    stage = Stage()
    stage.subscribe(pattern=".*")
    stage.poll()
    unknown = b"u" * 16
    effects = stage.answer({ORDERS: [0], unknown: [0]})
    assert FindTopics(frozenset({unknown})) in effects
    assert Assign(partitions("orders", 0)) in effects
    assert stage.settle() == []
    assert stage.hear(TopicsChanged({}, {"new": unknown})) == [Assign(partitions("new", 0))]


def test_topics_are_looked_for_again_with_each_heartbeat() -> None:
    stage = Stage(knows_topics=False)
    stage.subscribe("orders")
    stage.poll()
    assert stage.answer({ORDERS: [0]}) == [FindTopics(frozenset({ORDERS}))]
    stage.sleep(INTERVAL_S)
    assert stage.answer() == [FindTopics(frozenset({ORDERS}))]


@pytest.mark.parametrize("is_known_before", [True, False])
def test_a_topic_that_was_created_anew_is_let_go_of_and_taken_again(is_known_before: bool) -> None:
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


def test_the_id_of_a_topic_that_was_deleted_means_nothing_any_more() -> None:
    stage = Stage().joined(0)
    stage.hear(TopicsChanged({"orders": 1}, {"orders": b"a" * 16}))
    stage.sleep(INTERVAL_S)
    assert stage.answer() == [FindTopics(frozenset({ORDERS}))]


# ---- being removed


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_who_was_removed_loses_all_and_joins_again_then(code: int) -> None:
    stage = Stage().joined(0, 1)
    stage.sleep(INTERVAL_S)
    assert stage.answer(error=code) == [Lose(partitions("orders", 0, 1))]
    assert stage.member.metadata.generation_id == -1
    assert stage.asked == []
    stage.settle()
    assert stage.member.assignment == frozenset()
    assert stage.asked[0].member_epoch == 0
    assert stage.asked[0].topic_partitions == []
    assert stage.answer({ORDERS: [0]}, epoch=9) == [Assign(partitions("orders", 0))]


def test_who_is_removed_while_it_is_being_given_partitions_loses_those_too() -> None:
    stage = Stage().joined(0)
    stage.sleep(INTERVAL_S)
    stage.answer({ORDERS: [0, 1]}, epoch=2)
    stage.sleep(INTERVAL_S)
    assert stage.answer(error=ErrorCode.FENCED_MEMBER_EPOCH) == []
    assert stage.settle() == [Lose(partitions("orders", 0, 1))]


def test_who_is_removed_again_and_again_gives_the_coordinator_a_rest() -> None:
    stage = Stage().joined(0)
    stage.sleep(INTERVAL_S)
    stage.answer(error=ErrorCode.UNKNOWN_MEMBER_ID)
    stage.settle()
    stage.answer(error=ErrorCode.UNKNOWN_MEMBER_ID)
    assert stage.asked == []
    stage.sleep(1)
    assert stage.asked[0].member_epoch == 0


# ---- errors


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_coordinator_that_moved_is_looked_for(code: int) -> None:
    stage = Stage().joined(0)
    stage.sleep(INTERVAL_S)
    assert stage.answer(error=code) == [ForgetCoordinator()]
    stage.sleep(1)
    assert stage.asked[0].member_epoch == 1
    assert stage.asked[0].subscribed_topic_names == ["orders"]
    assert stage.member.assignment == partitions("orders", 0)


def test_a_coordinator_that_loads_is_asked_again_after_a_pause_that_grows() -> None:
    stage = Stage(retry_backoff_ms=100, retry_backoff_max_ms=1000)
    stage.subscribe("orders")
    stage.poll()
    pauses = []
    for _ in range(4):
        assert stage.answer(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) == []
        assert stage.wake_s is not None
        pauses.append(stage.wake_s - stage.now_s)
        stage.sleep(pauses[-1])
    assert pauses == sorted(pauses)
    assert 0.08 <= pauses[0] <= 0.12
    assert pauses[-1] >= 0.6


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_an_error_that_will_not_pass_is_raised_and_ends_the_membership(code: ErrorCode) -> None:
    stage = Stage()
    stage.subscribe("orders")
    stage.poll()
    stage.answer(error=code)
    (error,) = stage.errors
    assert isinstance(error, BrokerError)
    assert error.code == code
    stage.poll()
    stage.sleep(600)
    assert stage.asked == []
    assert stage.member.state is MemberState.FATAL


def test_a_static_member_whose_place_was_taken_is_fenced_for_good_and_loses_all() -> None:
    stage = Stage(group_instance_id="i").joined(0)
    stage.sleep(INTERVAL_S)
    stage.answer(error=ErrorCode.FENCED_INSTANCE_ID)
    assert isinstance(stage.errors[0], GroupFenced)
    assert stage.waiting == Lose(partitions("orders", 0))
    stage.settle()
    stage.sleep(600)
    assert stage.asked == []


def test_a_static_member_whose_join_was_heard_and_whose_answer_was_lost_takes_its_own_place_again() -> None:
    stage = Stage(group_instance_id="i")
    stage.subscribe("orders")
    stage.poll()
    stage.lose_answer()
    stage.sleep(1)
    stage.answer(error=ErrorCode.UNRELEASED_INSTANCE_ID)
    assert [request.member_epoch for request in stage.asked] == [-2]
    stage.answer(epoch=-2)
    assert [request.member_epoch for request in stage.asked] == [0]
    stage.answer({})
    assert stage.errors == []


def test_a_static_member_that_left_unheard_takes_its_own_place_again() -> None:
    stage = Stage(group_instance_id="i", max_poll_interval_ms=1_000).joined()
    stage.sleep(1)
    assert stage.asked[0].member_epoch == -2
    stage.lose_answer()
    stage.poll()
    stage.sleep(0.5)
    stage.answer(error=ErrorCode.UNRELEASED_INSTANCE_ID)
    assert [request.member_epoch for request in stage.asked] == [-2]
    stage.answer(epoch=-2)
    stage.answer({})
    assert stage.errors == []


def test_a_static_member_that_finds_another_in_its_place_says_so() -> None:
    stage = Stage(group_instance_id="i")
    stage.subscribe("orders")
    stage.poll()
    stage.answer(error=ErrorCode.UNRELEASED_INSTANCE_ID)
    stage.answer(error=ErrorCode.FENCED_INSTANCE_ID)
    stage.answer(error=ErrorCode.UNRELEASED_INSTANCE_ID)
    assert [error.code for error in stage.errors] == [ErrorCode.UNRELEASED_INSTANCE_ID]


def test_a_cluster_that_is_too_old_is_told_of_with_the_way_out() -> None:
    stage = Stage()
    stage.subscribe("orders")
    stage.poll()
    stage.answer(error=ErrorCode.UNSUPPORTED_VERSION)
    (error,) = stage.errors
    assert isinstance(error, UnsupportedByBroker)
    assert "group_protocol='classic'" in str(error)


def test_who_subscribes_again_after_an_error_joins_again() -> None:
    stage = Stage()
    stage.subscribe(pattern="(")
    stage.poll()
    stage.answer(error=ErrorCode.INVALID_REGULAR_EXPRESSION)
    stage.subscribe("orders")
    stage.poll()
    assert stage.asked[0].subscribed_topic_names == ["orders"]


# ---- an application that does not poll


def test_a_member_whose_application_does_not_poll_leaves_and_comes_back_with_it() -> None:
    stage = Stage(max_poll_interval_ms=12_000).joined(0)
    stage.sleep(INTERVAL_S)
    stage.answer()
    stage.sleep(INTERVAL_S)
    stage.answer()
    stage.sleep(2)
    assert stage.asked[0].member_epoch == -1
    assert stage.waiting == Lose(partitions("orders", 0))
    stage.answer(epoch=-1)
    stage.sleep(600)
    assert stage.asked == []
    stage.poll()
    assert stage.asked == []
    stage.settle()
    assert stage.asked[0].member_epoch == 0


def test_a_member_without_partitions_stays_away_as_well_until_its_application_polls() -> None:
    stage = Stage(max_poll_interval_ms=12_000).joined()
    stage.sleep(INTERVAL_S)
    stage.answer()
    stage.sleep(12)
    assert stage.asked.pop(0).member_epoch == 1
    stage.answer(epoch=-1)
    assert stage.asked == []
    stage.poll()
    assert stage.asked[0].member_epoch == 0


def test_an_application_that_polls_stays() -> None:
    stage = Stage(max_poll_interval_ms=12_000).joined(0)
    for _ in range(10):
        stage.sleep(INTERVAL_S)
        stage.poll()
        stage.answer()
    assert stage.member.state is MemberState.STABLE


def test_it_joins_again_only_when_the_coordinator_has_heard_that_it_left() -> None:
    stage = Stage(max_poll_interval_ms=1_000).joined(0)
    stage.sleep(1)
    stage.poll()
    stage.settle()
    assert [request.member_epoch for request in stage.asked] == [-1]
    stage.answer(epoch=-1)
    assert [request.member_epoch for request in stage.asked] == [0]


def test_an_application_that_hangs_while_it_lets_go_is_left_behind_too() -> None:
    stage = Stage(max_poll_interval_ms=12_000).joined(0, 1)
    stage.sleep(INTERVAL_S)
    stage.answer({ORDERS: [0]}, epoch=2)
    stage.sleep(INTERVAL_S)
    stage.answer(epoch=2)
    stage.sleep(2)
    assert stage.asked[0].member_epoch == -1
    assert stage.settle() == [Lose(partitions("orders", 0))]


# ---- leaving


def test_who_leaves_lets_go_of_all_it_has_first() -> None:
    stage = Stage().joined(0, 1)
    assert stage.leave() == [Revoke(partitions("orders", 0, 1))]
    assert stage.asked == []
    assert stage.member.metadata.generation_id == 1
    stage.settle()
    assert stage.asked[0].member_epoch == -1
    stage.answer(epoch=-1)
    assert stage.member.state is MemberState.UNSUBSCRIBED
    stage.sleep(600)
    assert stage.asked == []


def test_who_leaves_does_not_wait_for_a_heartbeat_that_is_under_way() -> None:
    stage = Stage().joined()
    stage.sleep(INTERVAL_S)
    stage.leave()
    assert [request.member_epoch for request in stage.asked] == [1, -1]
    assert stage.answer({ORDERS: [0]}) == []
    assert stage.member.state.name == "LEAVING"
    stage.answer(epoch=-1)
    assert stage.member.state is MemberState.UNSUBSCRIBED


def test_who_leaves_while_it_joins_tells_that_it_leaves() -> None:
    stage = Stage()
    stage.subscribe("orders")
    stage.poll()
    stage.leave()
    assert [request.member_epoch for request in stage.asked] == [0, -1]


def test_who_never_joined_has_nothing_to_leave() -> None:
    stage = Stage()
    stage.subscribe("orders")
    stage.leave()
    stage.poll()
    assert stage.asked == []


@pytest.mark.parametrize(("stays_static", "epoch"), [(True, -2), (False, -1)])
def test_a_static_member_leaves_for_a_while_unless_it_is_told_to_go_for_good(stays_static: bool, epoch: int) -> None:
    stage = Stage(group_instance_id="i").joined()
    stage.leave(stays_static=stays_static)
    assert (stage.asked[0].member_epoch, stage.asked[0].instance_id) == (epoch, "i")


def test_leaving_ends_whether_or_not_the_coordinator_answers() -> None:
    stage = Stage().joined()
    stage.leave()
    stage.lose_answer()
    assert stage.member.state is MemberState.UNSUBSCRIBED


def test_who_leaves_while_a_step_waits_for_the_application_goes_on_after_it() -> None:
    stage = Stage().joined(0)
    stage.sleep(INTERVAL_S)
    stage.answer({ORDERS: [0, 1]}, epoch=2)
    assert stage.leave() == []
    assert stage.settle() == [Revoke(partitions("orders", 0, 1))]


def test_who_is_removed_while_it_leaves_says_nothing_more() -> None:
    stage = Stage().joined(0)
    stage.leave()
    stage.sleep(INTERVAL_S)
    stage.answer(error=ErrorCode.UNKNOWN_MEMBER_ID)
    stage.settle()
    assert stage.asked == []
    assert stage.member.state is MemberState.UNSUBSCRIBED


def test_who_subscribes_again_while_it_leaves_joins_when_it_has_left() -> None:
    stage = Stage().joined(0)
    stage.leave()
    stage.subscribe("bills")
    stage.poll()
    stage.settle()
    assert stage.asked[0].member_epoch == -1
    stage.answer(epoch=-1)
    assert stage.asked[0].member_epoch == 0
    assert stage.asked[0].subscribed_topic_names == ["bills"]


def test_who_lost_all_and_leaves_does_not_come_back() -> None:
    stage = Stage().joined(0)
    stage.sleep(INTERVAL_S)
    stage.answer(error=ErrorCode.FENCED_MEMBER_EPOCH)
    stage.leave()
    stage.settle()
    stage.poll()
    assert stage.asked == []
    assert stage.member.state is MemberState.UNSUBSCRIBED


def test_every_state_has_a_way_on() -> None:
    assert set(NEXT_STATES) == set(MemberState)
    assert all(NEXT_STATES.values())
