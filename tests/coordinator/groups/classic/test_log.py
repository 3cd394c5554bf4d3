"""A classic group and its log: what is not written did not happen, what is written is found again."""

from __future__ import annotations

from copy import deepcopy

import pytest

from cordwood.shard.decision import Decision
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.group_records.group_metadata import GroupMetadataValue
from tests.coordinator.classic_stage import GROUP, INITIAL_DELAY_MS, REBALANCE_MS, SESSION_MS, Stage, play

_FULL = Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, "too few replicas are in sync")


# Where the log refuses


def test_a_failed_assignment_makes_all_members_rejoin() -> None:
    async def test(stage: Stage) -> None:
        (a, first), (b, _) = stage.join_first(), stage.join_first()
        await stage.wait(7)
        assert first.response.leader == a
        waiting = stage.sync(b, 1)
        stage.log.refusal = _FULL
        with pytest.raises(Refusal):
            stage.sync(a, 1, **{a: "p0", b: "p1"})
        assert waiting.response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert stage.group.state_name == "PreparingRebalance"
        stage.log.refusal = None
        again = [stage.join(a), stage.join(b)]
        assert [join.response.generation_id for join in again] == [2, 2]

    play(test)


def test_after_a_failed_assignment_members_that_do_not_rejoin_are_removed() -> None:
    async def test(stage: Stage) -> None:
        (a, _), (b, _) = stage.join_first(), stage.join_first()
        await stage.wait(7)
        stage.log.refusal = _FULL
        with pytest.raises(Refusal):
            stage.sync(a, 1, **{a: "p0", b: "p1"})
        stage.log.refusal = None
        # Nothing but the timers that were set while the refusal was dealt with.
        await stage.wait(SESSION_MS / 1000 + 1)
        assert stage.group.is_empty

    play(test)


def test_a_static_member_whose_new_id_cannot_be_written_has_its_old_one() -> None:
    async def test(stage: Stage) -> None:
        old, _ = await stage.stable("one", "two")
        stage.log.refusal = _FULL
        with pytest.raises(Refusal):
            stage.join(instance_id="one")
        assert stage.group.static_members["one"] == old
        assert stage.group.leader_id == old
        assert stage.heartbeat(old, 1, "one").response.error_code == ErrorCode.NONE

    play(test)


@pytest.mark.parametrize("version", [3, 9])
def test_a_group_that_cannot_be_written_is_not_there(version: int) -> None:
    async def test(stage: Stage) -> None:
        stage.log.refusal = _FULL
        with pytest.raises(Refusal):
            stage.join(version=version)
        assert GROUP not in stage.state.groups
        assert len(stage.state.timers) == 0

    play(test)


def test_leaving_succeeds_even_if_the_log_refuses() -> None:
    async def test(stage: Stage) -> None:
        ids = await stage.stable()
        stage.log.refusal = _FULL
        with pytest.raises(Refusal):
            stage.leave(*ids)
        assert stage.group.is_empty
        assert stage.group.generation == 2

    play(test)


def test_a_session_end_that_could_not_be_written_does_not_affect_later_members() -> None:
    async def test(stage: Stage) -> None:
        await stage.stable("one")
        stage.log.refusal = _FULL
        await stage.wait(SESSION_MS / 1000)
        assert stage.group.is_empty
        stage.log.refusal = None
        joining = stage.join(instance_id="one")
        # Failed writes have been retried by now; the group continues waiting for more members.
        await stage.wait(INITIAL_DELAY_MS / 2000)
        assert joining.waits

    play(test)


# Loading


def test_a_stable_group_is_loaded_as_it_was() -> None:
    async def test(stage: Stage) -> None:
        a, b = await stage.stable()
        stage.load_again()
        assert stage.group.state_name == "Stable"
        assert stage.group.leader_id == a
        assert stage.heartbeat(b, 1).response.error_code == ErrorCode.NONE
        assert stage.sync(b, 1).response.assignment == b"for 1"

    play(test)


def test_a_group_that_was_rebalancing_is_loaded_as_it_was_before() -> None:
    async def test(stage: Stage) -> None:
        a, b = await stage.stable()
        rejoining = stage.join(a, protocols="range:new")
        stage.load_again()
        with pytest.raises(Refusal) as told:
            _ = rejoining.response
        assert told.value.error == ErrorCode.NOT_COORDINATOR
        assert stage.group.state_name == "Stable"
        assert stage.group.members[a].metadata("range") == b"m"
        assert stage.heartbeat(b, 1).response.error_code == ErrorCode.NONE

    play(test)


def test_members_that_were_loaded_and_do_not_come_back_expire() -> None:
    async def test(stage: Stage) -> None:
        await stage.stable()
        stage.load_again()
        await stage.wait(SESSION_MS / 1000 - 1)
        assert len(stage.group.members) == 2
        await stage.wait(2)
        assert stage.group.is_empty

    play(test)


def test_a_group_that_is_too_large_once_it_is_loaded_rebalances() -> None:
    async def test(stage: Stage) -> None:
        ids = [member_id for member_id, _ in [stage.join_first(), stage.join_first()]]
        await stage.wait(7)
        stage.sync(ids[0], 1)
        # As if there had been room for a third one.
        record = stage.log.records[-1]
        assert isinstance(record.value, GroupMetadataValue)
        third = deepcopy(record.value.members[0])
        third.member_id = "third"
        record.value.members.append(third)
        stage.load_again()
        assert stage.group.state_name == "PreparingRebalance"
        joins = [stage.join(member_id) for member_id in list(stage.group.members)]
        assert [join.waits for join in joins[:2]] == [False, False]
        assert joins[2].response.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert [join.response.generation_id for join in joins[:2]] == [2, 2]

    play(test, group_max_size="2")


def test_the_last_of_several_records_about_a_group_counts() -> None:
    async def test(stage: Stage) -> None:
        a, b = await stage.stable(protocols="range:m sticky:s")
        stage.leave(b)
        stage.join(a, protocols="sticky:t", session_ms=20_000)
        stage.sync(a, 2, **{a: "everything"})
        stage.load_again()
        member = stage.group.members[a]
        assert list(stage.group.members) == [a]
        assert stage.group.generation == 2
        assert stage.group.protocol_name == "sticky"
        assert (member.protocols, member.session_timeout_ms) == ((("sticky", b"t"),), 20_000)
        assert member.assignment == b"everything"

    play(test)


def test_a_group_that_was_removed_leaves_no_timers_behind() -> None:
    async def test(stage: Stage) -> None:
        await stage.stable()
        stage.join()
        stage.ask(lambda state: Decision(None, state.groups[GROUP].tombstones()))
        assert GROUP not in stage.state.groups
        assert len(stage.state.timers) == 0
        stage.load_again()
        assert GROUP not in stage.state.groups

    play(test)


# Waiting


def test_a_member_that_joins_again_while_its_join_waits_is_answered_there_and_waits_here() -> None:
    async def test(stage: Stage) -> None:
        a, b = await stage.stable()
        earlier = stage.join(b, protocols="range:new")
        later = stage.join(b, protocols="range:new")
        assert earlier.response.error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert later.waits
        stage.join(a)
        assert later.response.generation_id == 2

    play(test)


def test_a_member_that_syncs_again_while_its_sync_waits_is_answered_there_and_waits_here() -> None:
    async def test(stage: Stage) -> None:
        (a, _), (b, _) = stage.join_first(), stage.join_first()
        await stage.wait(7)
        earlier, later = stage.sync(b, 1), stage.sync(b, 1)
        assert earlier.response.error_code == ErrorCode.REBALANCE_IN_PROGRESS
        stage.sync(a, 1, **{b: "p1"})
        assert later.response.assignment == b"p1"

    play(test)


def test_a_member_whose_sync_is_cancelled_when_its_session_is_over_has_another_one() -> None:
    async def test(stage: Stage) -> None:
        _, (b, _) = stage.join_first(), stage.join_first()
        await stage.wait(7)
        waiting = stage.sync(b, 1)
        # The sessions of both are over at once: the leader's ends the wait of the other.
        await stage.wait(SESSION_MS / 1000)
        assert waiting.response.error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert list(stage.group.members) == [b]
        await stage.wait(SESSION_MS / 1000)
        assert stage.group.is_empty

    play(test)


def test_a_static_member_that_takes_a_place_must_sync_as_its_predecessor_had() -> None:
    async def test(stage: Stage) -> None:
        joins = [stage.join(instance_id=name, session_ms=2 * REBALANCE_MS) for name in ("one", "two")]
        await stage.wait(7)
        a, b = (join.response.member_id for join in joins)
        stage.sync(a, 1, **{a: "p0", b: "p1"})
        successor = stage.join(instance_id="two", session_ms=2 * REBALANCE_MS).response.member_id
        assert list(stage.group.members) == [a, successor]
        await stage.wait(REBALANCE_MS / 1000)
        assert list(stage.group.members) == [a]

    play(test)


def test_a_new_member_without_a_response_is_removed_after_a_while() -> None:
    async def test(stage: Stage) -> None:
        ids = await stage.stable(rebalance_ms=1_000_000)
        joining = stage.join(version=3, rebalance_ms=1_000_000)
        for _ in range(61):
            await stage.wait(SESSION_MS / 2000)
            for member_id in ids:
                stage.heartbeat(member_id, 1)
        assert joining.response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert list(stage.group.members) == ids

    play(test)


def test_static_members_that_none_of_which_joins_are_waited_for_until_their_sessions_are_over() -> None:
    async def test(stage: Stage) -> None:
        a, b = await stage.stable("one", "two", session_ms=3 * REBALANCE_MS)
        joining = stage.join_first()[0]
        stage.leave(joining)
        await stage.wait(2 * REBALANCE_MS / 1000)
        assert stage.group.state_name == "PreparingRebalance"
        assert list(stage.group.members) == [a, b]
        await stage.wait(2 * REBALANCE_MS / 1000)
        assert stage.group.is_empty

    play(test)
