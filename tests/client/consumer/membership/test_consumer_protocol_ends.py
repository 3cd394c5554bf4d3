"""A member of a KIP-848 group that is removed, refused, left behind by its application, or leaves."""

import pytest

from cordwood.client.consumer.membership.consumer_states import NEXT_STATES, MemberState
from cordwood.client.consumer.membership.events import (
    Assign,
    ForgetCoordinator,
    Lose,
    Revoke,
)
from cordwood.client.errors import BrokerError, GroupFenced, UnsupportedByBroker
from cordwood.wire.errors import ErrorCode
from tests.client.consumer_protocol_stage import INTERVAL_S, ORDERS, Stage, partitions

# ---- being removed


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_removed_member_loses_everything_and_rejoins(code: int) -> None:
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


def test_a_member_removed_during_an_assignment_loses_those_partitions_too() -> None:
    stage = Stage().joined(0)
    stage.sleep(INTERVAL_S)
    stage.answer({ORDERS: [0, 1]}, epoch=2)
    stage.sleep(INTERVAL_S)
    assert stage.answer(error=ErrorCode.FENCED_MEMBER_EPOCH) == []
    assert stage.settle() == [Lose(partitions("orders", 0, 1))]


def test_repeated_removals_back_off() -> None:
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
def test_a_coordinator_that_moved_is_looked_up(code: int) -> None:
    stage = Stage().joined(0)
    stage.sleep(INTERVAL_S)
    assert stage.answer(error=code) == [ForgetCoordinator()]
    stage.sleep(1)
    assert stage.asked[0].member_epoch == 1
    assert stage.asked[0].subscribed_topic_names == ["orders"]
    assert stage.member.assignment == partitions("orders", 0)


def test_a_loading_coordinator_is_retried_with_back_off() -> None:
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


def test_a_static_member_whose_join_response_was_lost_rejoins_in_its_own_place() -> None:
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


def test_a_static_member_whose_leave_was_lost_rejoins_in_its_own_place() -> None:
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


def test_a_replaced_static_member_raises_the_reason() -> None:
    stage = Stage(group_instance_id="i")
    stage.subscribe("orders")
    stage.poll()
    stage.answer(error=ErrorCode.UNRELEASED_INSTANCE_ID)
    stage.answer(error=ErrorCode.FENCED_INSTANCE_ID)
    stage.answer(error=ErrorCode.UNRELEASED_INSTANCE_ID)
    assert [error.code for error in stage.errors] == [ErrorCode.UNRELEASED_INSTANCE_ID]


def test_a_cluster_that_is_too_old_is_reported_with_advice() -> None:
    stage = Stage()
    stage.subscribe("orders")
    stage.poll()
    stage.answer(error=ErrorCode.UNSUPPORTED_VERSION)
    (error,) = stage.errors
    assert isinstance(error, UnsupportedByBroker)
    assert "group_protocol='classic'" in str(error)


def test_subscribing_after_an_error_rejoins() -> None:
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


def test_it_rejoins_only_after_the_coordinator_has_processed_its_leave() -> None:
    stage = Stage(max_poll_interval_ms=1_000).joined(0)
    stage.sleep(1)
    stage.poll()
    stage.settle()
    assert [request.member_epoch for request in stage.asked] == [-1]
    stage.answer(epoch=-1)
    assert [request.member_epoch for request in stage.asked] == [0]


def test_an_application_that_hangs_during_revocation_is_removed() -> None:
    stage = Stage(max_poll_interval_ms=12_000).joined(0, 1)
    stage.sleep(INTERVAL_S)
    stage.answer({ORDERS: [0]}, epoch=2)
    stage.sleep(INTERVAL_S)
    stage.answer(epoch=2)
    stage.sleep(2)
    assert stage.asked[0].member_epoch == -1
    assert stage.settle() == [Lose(partitions("orders", 0))]


# ---- leaving


def test_leaving_releases_all_partitions_first() -> None:
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


def test_leaving_does_not_wait_for_a_heartbeat_in_flight() -> None:
    stage = Stage().joined()
    stage.sleep(INTERVAL_S)
    stage.leave()
    assert [request.member_epoch for request in stage.asked] == [1, -1]
    assert stage.answer({ORDERS: [0]}) == []
    assert stage.member.state.name == "LEAVING"
    stage.answer(epoch=-1)
    assert stage.member.state is MemberState.UNSUBSCRIBED


def test_leaving_during_a_join_sends_a_leave_request() -> None:
    stage = Stage()
    stage.subscribe("orders")
    stage.poll()
    stage.leave()
    assert [request.member_epoch for request in stage.asked] == [0, -1]


def test_leaving_without_having_joined_sends_nothing() -> None:
    stage = Stage()
    stage.subscribe("orders")
    stage.leave()
    stage.poll()
    assert stage.asked == []


@pytest.mark.parametrize(("stays_static", "epoch"), [(True, -2), (False, -1)])
def test_a_static_member_leaves_temporarily_by_default(stays_static: bool, epoch: int) -> None:
    stage = Stage(group_instance_id="i").joined()
    stage.leave(stays_static=stays_static)
    assert (stage.asked[0].member_epoch, stage.asked[0].instance_id) == (epoch, "i")


def test_leaving_ends_whether_or_not_the_coordinator_answers() -> None:
    stage = Stage().joined()
    stage.leave()
    stage.lose_answer()
    assert stage.member.state is MemberState.UNSUBSCRIBED


def test_leaving_during_a_pending_step_continues_after_it() -> None:
    stage = Stage().joined(0)
    stage.sleep(INTERVAL_S)
    stage.answer({ORDERS: [0, 1]}, epoch=2)
    assert stage.leave() == []
    assert stage.settle() == [Revoke(partitions("orders", 0, 1))]


def test_a_member_removed_while_leaving_sends_nothing_more() -> None:
    stage = Stage().joined(0)
    stage.leave()
    stage.sleep(INTERVAL_S)
    stage.answer(error=ErrorCode.UNKNOWN_MEMBER_ID)
    stage.settle()
    assert stage.asked == []
    assert stage.member.state is MemberState.UNSUBSCRIBED


def test_subscribing_while_leaving_joins_afterwards() -> None:
    stage = Stage().joined(0)
    stage.leave()
    stage.subscribe("bills")
    stage.poll()
    stage.settle()
    assert stage.asked[0].member_epoch == -1
    stage.answer(epoch=-1)
    assert stage.asked[0].member_epoch == 0
    assert stage.asked[0].subscribed_topic_names == ["bills"]


def test_a_member_that_lost_everything_and_leaves_does_not_return() -> None:
    stage = Stage().joined(0)
    stage.sleep(INTERVAL_S)
    stage.answer(error=ErrorCode.FENCED_MEMBER_EPOCH)
    stage.leave()
    stage.settle()
    stage.poll()
    assert stage.asked == []
    assert stage.member.state is MemberState.UNSUBSCRIBED


def test_every_state_has_a_transition() -> None:
    assert set(NEXT_STATES) == set(MemberState)
    assert all(NEXT_STATES.values())
