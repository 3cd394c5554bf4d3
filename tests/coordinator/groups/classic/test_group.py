"""A classic group as a value: protocols, members, and what it says about offsets."""

from __future__ import annotations

import pytest

from cordwood.coordinator.groups.classic.classic_group import ClassicGroup
from cordwood.coordinator.groups.classic.member import ClassicMember
from cordwood.coordinator.groups.classic.states import ClassicState
from cordwood.shard.refusal import Refusal
from cordwood.wire.codec import encode
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.data.consumer_protocol_subscription import ConsumerProtocolSubscription

_NOW_MS = 1_700_000_000_000


def _member(member_id: str, *protocols: str, instance_id: str | None = None, metadata: bytes = b"m") -> ClassicMember:
    offered = tuple((name, metadata) for name in protocols or ("range",))
    return ClassicMember(member_id, instance_id, "client", "/127.0.0.1", 60_000, 10_000, offered)


def _group(*members: ClassicMember, state: ClassicState = ClassicState.STABLE, type: str = "consumer") -> ClassicGroup:
    group = ClassicGroup("g", _NOW_MS)
    group.protocol_type = type
    for member in members:
        group.add(member)
    group.state = state
    if members:
        group.generation = 1
        group.protocol_name = group.select_protocol()
    return group


def _subscription(*topics: str, version: int = 3) -> bytes:
    return version.to_bytes(2) + encode(ConsumerProtocolSubscription(topics=list(topics)), version)


# Protocols


def test_the_protocol_with_most_votes_of_those_that_all_know_is_chosen() -> None:
    group = _group(_member("a", "range", "sticky"), _member("b", "sticky", "range"), _member("c", "sticky", "range"))
    assert group.protocol_name == "sticky"


def test_protocols_unknown_to_one_member_get_no_vote() -> None:
    group = _group(_member("a", "range", "sticky"), _member("b", "sticky", "range"), _member("c", "range"))
    assert group.protocol_name == "range"


def test_a_newcomer_needs_one_protocol_that_all_members_know() -> None:
    group = _group(_member("a", "range", "sticky"), _member("b", "range"))
    assert group.supports("consumer", [("range", b"")])
    assert not group.supports("consumer", [("sticky", b"")])


def test_a_newcomer_needs_the_type_of_the_group() -> None:
    assert not _group(_member("a")).supports("connect", [("range", b"")])


def test_an_empty_group_takes_whatever_has_a_type_and_a_protocol() -> None:
    group = _group(state=ClassicState.EMPTY)
    assert group.supports("connect", [("compatible", b"")])
    assert not group.supports("", [("compatible", b"")])
    assert not group.supports("connect", [])


def test_a_leaving_member_removes_its_protocols() -> None:
    group = _group(_member("a", "range", "sticky"), _member("b", "range"))
    group.remove("b")
    assert group.supports("consumer", [("sticky", b"")])


# Members


def test_the_first_member_leads_and_the_eldest_of_the_others_after_it() -> None:
    group = _group(_member("a"), _member("b"), _member("c"))
    assert group.leader_id == "a"
    group.remove("a")
    assert group.leader_id == "b"


def test_a_returning_static_leader_still_leads() -> None:
    old = _member("old", instance_id="one")
    group = _group(old, _member("b"))
    group.replace(old, _member("new", instance_id="one"))
    assert group.leader_id == "new"
    assert group.static_members == {"one": "new"}


@pytest.mark.parametrize(
    ("member_id", "instance_id", "error"),
    [
        ("nobody", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("s", "nobody", ErrorCode.UNKNOWN_MEMBER_ID),
        ("d", "one", ErrorCode.FENCED_INSTANCE_ID),
        ("nobody", "one", ErrorCode.FENCED_INSTANCE_ID),
    ],
)
def test_a_replaced_member_is_refused(member_id: str, instance_id: str | None, error: ErrorCode) -> None:
    group = _group(_member("s", instance_id="one"), _member("d"))
    with pytest.raises(Refusal) as refused:
        group.checked_member(member_id, instance_id)
    assert refused.value.error == error


# Offsets


def _commit_error(
    group: ClassicGroup, member_id: str = "", generation: int = -1, *, transactional: bool = False
) -> ErrorCode:
    try:
        group.check_offset_commit(member_id, None, generation, transactional=transactional, version=8)
    except Refusal as refusal:
        return refusal.error
    return ErrorCode.NONE


def test_only_members_of_the_generation_commit_in_a_group_that_has_members() -> None:
    group = _group(_member("a"))
    assert _commit_error(group, "a", 1) == ErrorCode.NONE
    assert _commit_error(group, "a", 0) == ErrorCode.ILLEGAL_GENERATION
    assert _commit_error(group, "b", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert _commit_error(group) == ErrorCode.UNKNOWN_MEMBER_ID


def test_anyone_commits_in_a_group_without_members_unless_it_says_to_be_one() -> None:
    group = _group(state=ClassicState.EMPTY)
    assert _commit_error(group) == ErrorCode.NONE
    assert _commit_error(group, "a", 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_without_its_assignment_commits_only_in_a_transaction() -> None:
    group = _group(_member("a"), state=ClassicState.COMPLETING_REBALANCE)
    assert _commit_error(group, "a", 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert _commit_error(group, "a", 1, transactional=True) == ErrorCode.NONE


def test_a_transaction_of_an_old_client_says_nothing_of_members_and_commits_all_the_same() -> None:
    assert _commit_error(_group(_member("a")), transactional=True) == ErrorCode.NONE


def test_a_group_is_deleted_only_when_it_is_empty() -> None:
    _group(state=ClassicState.EMPTY).check_delete()
    with pytest.raises(Refusal) as refused:
        _group(_member("a")).check_delete()
    assert refused.value.error == ErrorCode.NON_EMPTY_GROUP


def test_offsets_are_deleted_under_consumers_and_not_under_others() -> None:
    _group(_member("a")).check_offset_delete()
    with pytest.raises(Refusal) as refused:
        _group(_member("a"), type="connect").check_offset_delete()
    assert refused.value.error == ErrorCode.NON_EMPTY_GROUP


def test_subscriptions_are_decoded_from_any_version_of_the_metadata() -> None:
    group = _group(
        _member("a", metadata=_subscription("orders", version=0)),
        _member("b", metadata=_subscription("bills", version=3)),
        _member("c", metadata=(99).to_bytes(2) + _subscription("later", version=3)[2:] + b"more"),
    )
    assert group.topics() == frozenset({"orders", "bills", "later"})
    assert group.is_subscribed_to("orders")
    assert not group.is_subscribed_to("payments")


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\0\3\0\0\0\7"])
def test_consumers_whose_metadata_cannot_be_read_count_as_subscribed_to_everything(metadata: bytes) -> None:
    group = _group(_member("a", metadata=metadata))
    assert group.topics() is None
    assert group.is_subscribed_to("orders")


def test_offsets_of_an_abandoned_group_expire_from_the_last_leave_on() -> None:
    assert _group(state=ClassicState.EMPTY).offsets_expire_from_ms == _NOW_MS


def test_offsets_of_a_group_that_never_had_members_expire_by_their_commits() -> None:
    assert _group(state=ClassicState.EMPTY, type="").offsets_expire_from_ms is None


def test_offsets_of_consumers_expire_by_their_commits_and_those_of_others_do_not_expire() -> None:
    assert _group(_member("a", metadata=_subscription("orders"))).offsets_expire_from_ms is None
    others = _group(_member("a"), type="connect").offsets_expire_from_ms
    assert others is not None
    assert others > 2 * _NOW_MS


def test_nothing_expires_while_a_group_rebalances() -> None:
    member = _member("a", metadata=_subscription("orders"))
    group = _group(member, state=ClassicState.PREPARING_REBALANCE)
    assert group.offsets_expire_from_ms is not None
    assert group.offsets_expire_from_ms > 2 * _NOW_MS
