"""Groups that migrate from one protocol to the other, and the classic members of consumer groups."""

from __future__ import annotations

from typing import Any

import pytest

from cordwood.coordinator.groups.classic.classic_group import ClassicGroup
from cordwood.coordinator.groups.classic.join import Joining
from cordwood.coordinator.groups.classic_requests import heartbeat, join_group, leave_group, sync_group
from cordwood.shard.promise import Promise
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.heartbeat import HeartbeatRequest
from cordwood.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from cordwood.wire.messages.leave_group import MemberIdentity
from cordwood.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.coordinator.consumer_stage import GROUP, Stage, assigned, play
from tests.coordinator.notation import parse_fields

_SESSION_MS = 10_000
_REBALANCE_MS = 20_000
_AT_ONCE = {"group_initial_rebalance_delay_ms": "0"}


def _bytes(notation: str) -> bytes:
    """`subscription(…)` or `assignment(…)`, as transcripts have them."""
    value: bytes = parse_fields(f"value={notation}", {})["value"]
    return value


def _join(stage: Stage, member_id: str = "", *, says: bytes = _bytes("subscription(orders)"), **options: Any) -> Any:
    options = {"protocol_type": "consumer", "rebalance_timeout_ms": _REBALANCE_MS, **options}
    request = JoinGroupRequest(
        group_id=GROUP,
        member_id=member_id,
        session_timeout_ms=_SESSION_MS,
        protocols=[JoinGroupRequestProtocol(name="range", metadata=says)],
        **options,
    )
    joining = Joining(request, 3, "client", "/host", (("range", says),))
    return stage.shard.decide(lambda state: join_group(state, joining))


def _sync(stage: Stage, member_id: str, generation: int, assignment: bytes | None = None) -> Any:
    request = SyncGroupRequest(
        group_id=GROUP,
        member_id=member_id,
        generation_id=generation,
        assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=assignment or b"")],
    )
    return stage.shard.decide(lambda state: sync_group(state, request))


def _heartbeat(stage: Stage, member_id: str, generation: int) -> ErrorCode:
    request = HeartbeatRequest(group_id=GROUP, member_id=member_id, generation_id=generation)
    response = stage.shard.decide(lambda state: heartbeat(state, request))
    assert not isinstance(response, Promise)
    return ErrorCode(response.error_code)


async def _classic_group(stage: Stage, assignment: str = "assignment(orders=[0, 1])", **options: Any) -> str:
    """With one member; its id."""
    stage.create("orders", 2)
    later = _join(stage, **options)
    await stage.wait(0.1)
    member_id: str = later.result().member_id
    _sync(stage, member_id, 1, _bytes(assignment))
    return member_id


def _refused(error: ErrorCode, match: str | None = None) -> Any:
    return pytest.raises(Refusal, match=match, check=lambda refusal: refusal.error == error)


# To a consumer group


def test_members_keep_their_partitions_when_a_classic_group_is_upgraded() -> None:
    async def test(stage: Stage) -> None:
        member_id = await _classic_group(stage)
        stage.join("b", "orders")
        held = stage.group.members[member_id].assigned
        assert held == {stage.topic_id("orders"): {0: 1, 1: 1}}
        assert (stage.group.epoch, stage.group.members[member_id].epoch) == (2, 1)

    play(test, **_AT_ONCE)


def test_partitions_not_yet_revoked_still_belong_to_the_member_after_an_upgrade() -> None:
    """Cooperative members give up first; then, in the next generation, others get it."""

    async def test(stage: Stage) -> None:
        member_id = await _classic_group(stage)
        claims = _bytes("subscription(orders, owned={orders: [0, 1]}, generation=1)")
        assert _join(stage, member_id, says=claims).generation_id == 2
        _sync(stage, member_id, 2, _bytes("assignment(orders=[0])"))
        # The answer is lost.
        assert assigned(stage.join("b", "orders")) == set()
        _join(stage, member_id, says=claims)
        assert _sync(stage, member_id, 2).assignment == _bytes("assignment(orders=[0])")
        assert assigned(stage.heartbeat("b", 3)) is None, "nothing new"
        _join(stage, member_id, says=_bytes("subscription(orders, owned={orders: [0]}, generation=2)"))
        assert assigned(stage.heartbeat("b", 3)) == {(stage.topic_id("orders"), 1)}

    play(test, **_AT_ONCE)


def test_the_later_generation_wins_conflicting_claims() -> None:
    async def test(stage: Stage) -> None:
        first_id = await _classic_group(stage)
        waiting = _join(stage, says=_bytes("subscription(orders, owned={orders: [0, 1]}, generation=0)"))
        _join(stage, first_id, says=_bytes("subscription(orders, owned={orders: [0]}, generation=1)"))
        second_id = waiting.result().member_id
        # The first is the leader, and has assigned nothing yet to either.
        _sync(stage, first_id, 2, _bytes("assignment()"))
        stage.join("b", "orders")
        members = stage.group.members
        assert members[first_id].assigned == {stage.topic_id("orders"): {0: 2}}
        assert members[second_id].assigned == {stage.topic_id("orders"): {1: 2}}

    play(test, **_AT_ONCE)


def test_reassigned_partitions_no_longer_belong_to_the_former_owner() -> None:
    async def test(stage: Stage) -> None:
        first_id = await _classic_group(stage)
        waiting = _join(stage, says=_bytes("subscription(orders, owned={orders: [0, 1]}, generation=0)"))
        _join(stage, first_id)
        _sync(stage, first_id, 2, _bytes("assignment(orders=[0, 1])"))
        stage.join("b", "orders")
        members = stage.group.members
        assert members[first_id].assigned == {stage.topic_id("orders"): {0: 2, 1: 2}}
        assert members[waiting.result().member_id].assigned == {}

    play(test, **_AT_ONCE)


def test_a_group_whose_assignor_has_its_own_data_stays_as_it_is() -> None:
    async def test(stage: Stage) -> None:
        stage.create("orders", 2)
        later = _join(stage)
        await stage.wait(0.1)
        assignment = _bytes("assignment(orders=[0])")[:-4] + b"\x00\x00\x00\x01x"
        _sync(stage, later.result().member_id, 1, assignment)
        with _refused(ErrorCode.GROUP_ID_NOT_FOUND, "custom assignor"):
            stage.join("b", "orders")
        assert isinstance(stage.state.groups[GROUP], ClassicGroup)

    play(test, **_AT_ONCE)


def test_a_group_that_is_not_of_consumers_stays_as_it_is() -> None:
    async def test(stage: Stage) -> None:
        await _classic_group(stage, protocol_type="connect", says=b"what workers say")
        with _refused(ErrorCode.GROUP_ID_NOT_FOUND, "embedded protocol"):
            stage.join("b", "orders")

    play(test, **_AT_ONCE)


def test_a_group_whose_members_cannot_be_understood_stays_as_it_is() -> None:
    async def test(stage: Stage) -> None:
        await _classic_group(stage, says=b"\x00\x00\x7f")
        with _refused(ErrorCode.GROUP_ID_NOT_FOUND, "malformed"):
            stage.join("b", "orders")

    play(test, **_AT_ONCE)


@pytest.mark.parametrize("policy", ["disabled", "DOWNGRADE"])
def test_the_policy_may_forbid_upgrades(policy: str) -> None:
    async def test(stage: Stage) -> None:
        await _classic_group(stage)
        with _refused(ErrorCode.GROUP_ID_NOT_FOUND, "disabled"):
            stage.join("b", "orders")

    play(test, group_consumer_migration_policy=policy, **_AT_ONCE)


def test_an_upgrade_that_cannot_be_written_leaves_everyone_waiting_as_before() -> None:
    async def test(stage: Stage) -> None:
        await _classic_group(stage)
        waiting = _join(stage)
        stage.log.refusal = Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, "not now")
        with pytest.raises(Refusal):
            stage.join("b", "orders")
        assert isinstance(stage.state.groups[GROUP], ClassicGroup)
        assert not waiting.done
        stage.log.refusal = None
        stage.join("b", "orders")
        assert waiting.result().error_code == ErrorCode.REBALANCE_IN_PROGRESS

    play(test, **_AT_ONCE)


# Classic members


def test_a_classic_member_joins_at_once_and_gets_its_assignment_by_sync() -> None:
    async def test(stage: Stage) -> None:
        stage.create("orders", 2)
        stage.join("a", "orders")
        stage.heartbeat("a", 2)
        joined = _join(stage)
        assert joined.generation_id == 3
        assert _sync(stage, joined.member_id, 3).assignment == _bytes("assignment()")
        stage.heartbeat("a", 2)
        stage.heartbeat("a", 2, owned={(stage.topic_id("orders"), 0)})
        # Its awaited partition is free: it must rejoin, and gets it.
        assert _heartbeat(stage, joined.member_id, 3) == ErrorCode.REBALANCE_IN_PROGRESS
        assert _join(stage, joined.member_id).generation_id == 3
        assert _sync(stage, joined.member_id, 3).assignment == _bytes("assignment(orders=[1])")

    play(test)


def test_a_classic_member_that_does_not_sync_in_time_is_out() -> None:
    async def test(stage: Stage) -> None:
        member_id = await _classic_group(stage)
        stage.join("b", "orders")
        _join(stage, member_id)
        for _ in range(4):
            await stage.wait(4.5)
            assert _heartbeat(stage, member_id, 2) == ErrorCode.NONE
        await stage.wait(4)
        assert list(stage.group.members) == ["b"]

    play(test, **_AT_ONCE)


def test_a_classic_member_that_does_not_join_again_in_time_is_out() -> None:
    async def test(stage: Stage) -> None:
        member_id = await _classic_group(stage)
        stage.join("b", "orders")
        for _ in range(4):
            assert _heartbeat(stage, member_id, 1) == ErrorCode.REBALANCE_IN_PROGRESS
            await stage.wait(4.5)
        await stage.wait(4)
        assert list(stage.group.members) == ["b"]

    play(test, **_AT_ONCE)


def test_a_classic_member_has_the_session_that_it_requested() -> None:
    async def test(stage: Stage) -> None:
        member_id = await _classic_group(stage)
        stage.join("b", "orders")
        await stage.wait(_SESSION_MS / 1000 + 1)
        assert list(stage.group.members) == ["b"]
        with _refused(ErrorCode.UNKNOWN_MEMBER_ID):
            _heartbeat(stage, member_id, 1)

    play(test, **_AT_ONCE)


def test_a_removed_classic_member_does_not_return_with_its_partitions() -> None:
    """Others may have had it since then, and committed: it has to begin where they left off."""

    async def test(stage: Stage) -> None:
        member_id = await _classic_group(stage)
        stage.join("b", "orders")
        await stage.wait(_SESSION_MS / 1000 + 1)
        with _refused(ErrorCode.UNKNOWN_MEMBER_ID, "not a member of the group any more"):
            _join(stage, member_id, says=_bytes("subscription(orders, owned={orders: [0, 1]}, generation=1)"))
        assert list(stage.group.members) == ["b"]
        joined = _join(stage, member_id)
        assert list(stage.group.members) == ["b", joined.member_id], "with nothing it may"

    play(test, **_AT_ONCE)


def test_a_subscription_that_cannot_be_read_is_refused() -> None:
    async def test(stage: Stage) -> None:
        stage.create("orders", 2)
        stage.join("a", "orders")
        with _refused(ErrorCode.UNKNOWN_SERVER_ERROR):
            _join(stage, says=b"\x00\x00\x7f")

    play(test)


def test_members_of_the_other_protocol_are_unknown() -> None:
    async def test(stage: Stage) -> None:
        stage.create("orders", 2)
        stage.join("a", "orders")
        with _refused(ErrorCode.UNKNOWN_MEMBER_ID, "does not use the classic protocol"):
            _heartbeat(stage, "a", 2)
        with _refused(ErrorCode.UNKNOWN_MEMBER_ID, "does not use the classic protocol"):
            _sync(stage, "a", 2)

    play(test)


# Back to a classic group


def _leave(stage: Stage, member_id: str) -> None:
    leaving = [MemberIdentity(member_id=member_id)]
    stage.shard.decide(lambda state: leave_group(state, GROUP, leaving))


def test_without_members_of_the_consumer_protocol_a_group_is_classic_again_and_rebalances() -> None:
    async def test(stage: Stage) -> None:
        member_id = await _classic_group(stage)
        stage.join("b", "orders")
        stage.heartbeat("b", -1)
        await stage.wait(0.1)
        assert stage.state.groups[GROUP].state_name == "PreparingRebalance"
        joined = _join(stage, member_id)
        assert (joined.generation_id, joined.leader) == (3, member_id)

    play(test, **_AT_ONCE)


def test_a_downgraded_group_rebalances_at_the_first_heartbeat() -> None:
    async def test(stage: Stage) -> None:
        member_id = await _classic_group(stage)
        stage.join("b", "orders")
        stage.heartbeat("b", -1)
        # No time has passed.
        assert _heartbeat(stage, member_id, 2) == ErrorCode.REBALANCE_IN_PROGRESS
        assert _join(stage, member_id).leader == member_id

    play(test, **_AT_ONCE)


def test_loading_a_converted_group_rebalances_it() -> None:
    async def test(stage: Stage) -> None:
        member_id = await _classic_group(stage)
        stage.join("b", "orders")
        _join(stage, member_id, says=_bytes("subscription(orders, owned={orders: [0]})"))
        _sync(stage, member_id, 2)
        stage.heartbeat("b", -1)
        stage.load_again()
        for _ in range(6):
            await stage.wait(8)
            if _heartbeat(stage, member_id, 2) == ErrorCode.REBALANCE_IN_PROGRESS:
                break
        assert _join(stage, member_id).leader == member_id
        group: Any = stage.state.groups[GROUP]
        assert list(group.members) == [member_id]

    play(test, **_AT_ONCE)


def test_it_is_classic_again_even_if_the_last_consumer_expires() -> None:
    async def test(stage: Stage) -> None:
        member_id = await _classic_group(stage)
        stage.join("b", "orders")
        _join(stage, member_id)
        _sync(stage, member_id, 2)
        for _ in range(6):
            await stage.wait(8)
            group = stage.state.groups[GROUP]
            if isinstance(group, ClassicGroup):
                break
            _heartbeat(stage, member_id, 2)
        assert list(group.members) == [member_id]  # type: ignore[attr-defined]  # both kinds have them

    play(test, **_AT_ONCE)


def test_a_group_keeps_its_type_when_all_members_leave() -> None:
    async def test(stage: Stage) -> None:
        member_id = await _classic_group(stage)
        stage.join("b", "orders")
        _leave(stage, member_id)
        _leave(stage, "b")
        assert stage.group.state_name == "Empty"

    play(test, **_AT_ONCE)


def test_the_policy_may_forbid_downgrades() -> None:
    async def test(stage: Stage) -> None:
        member_id = await _classic_group(stage)
        stage.join("b", "orders")
        stage.heartbeat("b", -1)
        assert list(stage.group.members) == [member_id]

    play(test, group_consumer_migration_policy="upgrade", **_AT_ONCE)


def test_a_converted_group_is_loaded_with_its_new_type() -> None:
    async def test(stage: Stage) -> None:
        member_id = await _classic_group(stage)
        stage.join("b", "orders")
        stage.load_again()
        assert stage.group.members[member_id].classic is not None
        stage.heartbeat("b", -1)
        stage.load_again()
        assert isinstance(stage.state.groups[GROUP], ClassicGroup)
        stage.join("c", "orders")
        assert assigned(stage.heartbeat("c", 3)) is None
        # Until its session has certainly expired.
        assert list(stage.group.members) == [member_id, "b", "c"]
        assert stage.group.members["b"].assigned == {}

    play(test, **_AT_ONCE)


def test_removed_members_have_no_timers() -> None:
    async def test(stage: Stage) -> None:
        stage.create("orders", 2)
        before = len(stage.state.timers)
        stage.join("a", "orders")
        stage.join("b", "orders")
        stage.heartbeat("a", 2)
        stage.heartbeat("a", -1)
        stage.heartbeat("b", -1)
        assert len(stage.state.timers) == before

    play(test)
