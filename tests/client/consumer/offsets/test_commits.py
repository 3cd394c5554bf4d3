"""Commits, and their outcome when the coordinator moves or the group rebalances."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.errors import (
    BadAnswer,
    BadSetting,
    BrokerError,
    ClientError,
    CommitFailed,
    GaveUp,
    GroupFenced,
    RebalanceInProgress,
)
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from tests.client.committing import MEMBER, P0, P1, Stage, play
from tests.client.scripted_broker import TOPIC_ID, Cut

# ---- commit


def test_a_commit_carries_the_member_and_all_offsets() -> None:
    async def scene(stage: Stage) -> None:
        stage.group.metadata = GroupMetadata("g", 5, "m", "i")
        await stage.commits.commit({P0: OffsetAndMetadata(7, "so far", 3)})
        (request,) = stage.seen
        assert (request.group_id, request.generation_id_or_member_epoch) == ("g", 5)
        assert (request.member_id, request.group_instance_id) == ("m", "i")
        assert request.topics[0].topic_id == TOPIC_ID
        assert stage.stored == {("t", 0): (7, "so far", 3)}

    play(scene)


def test_manual_assignments_commit_without_a_member() -> None:
    async def scene(stage: Stage) -> None:
        await stage.commits.commit({P0: OffsetAndMetadata(7)})
        (request,) = stage.seen
        assert (request.group_id, request.generation_id_or_member_epoch, request.member_id) == ("g", -1, "")

    play(scene, is_member=False)


@pytest.mark.parametrize("version", range(2, 10))
def test_older_coordinators_get_their_own_versions(version: int) -> None:
    async def scene(stage: Stage) -> None:
        stage.group.metadata = GroupMetadata("g", 5, "m", "i")
        await stage.commits.commit({P0: OffsetAndMetadata(7, "so far")})
        assert stage.stored == {("t", 0): (7, "so far", -1)}
        assert stage.seen[0].topics[0].name == "t"

    play(scene, versions={OffsetCommitRequest.api_key: version})


def test_a_topic_whose_id_is_not_known_is_named() -> None:
    async def scene(stage: Stage) -> None:
        await stage.commits.commit({P0: OffsetAndMetadata(7)})
        assert stage.seen[0].topics[0].name == "t"

    play(scene, knows_topic=False)


def test_nothing_to_commit_is_done_at_once() -> None:
    async def scene(stage: Stage) -> None:
        await stage.commits.commit({})
        assert stage.seen == []

    play(scene)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_COORDINATOR,
        Cut,
    ],
)
def test_a_commit_is_retried_after_retriable_errors(code: Any) -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [code, code]
        await stage.commits.commit({P0: OffsetAndMetadata(7)})
        assert len(stage.seen) == 3
        assert stage.stored["t", 0][0] == 7

    play(scene)


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, Cut])
def test_a_former_coordinator_is_looked_up_again(code: Any) -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [code]
        await stage.commits.commit({P0: OffsetAndMetadata(7)})
        assert stage.group.forgotten == 1

    play(scene)


def test_a_call_with_a_short_timeout_gives_up_with_the_last_error() -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 1000
        with pytest.raises(GaveUp, match="still loading") as caught:
            await stage.commits.commit({P0: OffsetAndMetadata(7)}, 3)
        assert caught.value.timeout_s == 3
        seen = len(stage.seen)
        await asyncio.sleep(30)
        assert len(stage.seen) <= seen + 1

    play(scene)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_removed_members_commit_fails_with_advice(code: int) -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [code]
        with pytest.raises(CommitFailed, match=r"max_poll_interval_ms.*max_poll_records"):
            await stage.commits.commit({P0: OffsetAndMetadata(7)})
        assert len(stage.seen) == 1

    play(scene)


def test_a_generation_that_has_passed_while_the_group_rebalances_may_commit_after_it() -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [ErrorCode.ILLEGAL_GENERATION]
        commit = asyncio.ensure_future(stage.commits.commit({P0: OffsetAndMetadata(7)}))
        await asyncio.sleep(0)
        stage.group.metadata = replace(MEMBER, generation_id=6)
        stage.group.is_rebalancing = True
        with pytest.raises(RebalanceInProgress):
            await commit

    play(scene)


@pytest.mark.parametrize(("kept", "error"), [(P0, RebalanceInProgress), (P1, CommitFailed)])
def test_a_previous_generation_may_commit_kept_partitions(kept: TopicPartition, error: type[ClientError]) -> None:
    """Cooperative: it works on through the rebalance, which was over when the commit was refused."""

    async def scene(stage: Stage) -> None:
        stage.codes = [ErrorCode.ILLEGAL_GENERATION]
        commit = asyncio.ensure_future(stage.commits.commit({P0: OffsetAndMetadata(7)}))
        await asyncio.sleep(0)
        stage.group.metadata = replace(MEMBER, generation_id=6)
        stage.group.assignment = frozenset({kept})
        with pytest.raises(error):
            await commit

    play(scene)


@pytest.mark.parametrize(
    ("is_rebalancing", "has_lost", "error"),
    [(True, False, RebalanceInProgress), (True, True, CommitFailed), (False, False, CommitFailed)],
)
def test_non_members_cannot_commit(is_rebalancing: bool, has_lost: bool, error: type[ClientError]) -> None:
    async def scene(stage: Stage) -> None:
        stage.group.metadata = GroupMetadata("g")
        stage.group.is_rebalancing = is_rebalancing
        stage.group.assignment = frozenset({P0}) if has_lost else frozenset()
        with pytest.raises(error):
            await stage.commits.commit({P0: OffsetAndMetadata(7)})
        assert stage.seen == []

    play(scene)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, RebalanceInProgress),
        (ErrorCode.FENCED_INSTANCE_ID, GroupFenced),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, BrokerError),
        (ErrorCode.INVALID_COMMIT_OFFSET_SIZE, BrokerError),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, BrokerError),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, BrokerError),
    ],
)
def test_final_errors_are_raised_at_once(code: int, error: type[BrokerError]) -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [code]
        with pytest.raises(error) as caught:
            await stage.commits.commit({P0: OffsetAndMetadata(7)})
        assert caught.value.code == code
        assert len(stage.seen) == 1

    play(scene)


def test_of_several_partitions_the_error_that_will_not_pass_counts() -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [{0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 1: ErrorCode.TOPIC_AUTHORIZATION_FAILED}]
        with pytest.raises(BrokerError) as caught:
            await stage.commits.commit({P0: OffsetAndMetadata(7), P1: OffsetAndMetadata(8)})
        assert caught.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    play(scene)


def test_a_partition_missing_from_the_coordinators_response_is_not_committed() -> None:
    async def scene(stage: Stage) -> None:
        stage.broker.answers[OffsetCommitRequest.api_key] = lambda request, version: OffsetCommitResponse(topics=[])
        with pytest.raises(BadAnswer, match="t-0"):
            await stage.commits.commit({P0: OffsetAndMetadata(7)})

    play(scene)


@pytest.mark.parametrize("offset", [7, OffsetAndMetadata(-1), OffsetAndMetadata(1, None)])  # type: ignore[arg-type]
def test_invalid_offsets_are_refused_before_sending(offset: Any) -> None:
    async def scene(stage: Stage) -> None:
        with pytest.raises(BadSetting, match="t-0"):
            await stage.commits.commit({P0: offset})

    play(scene)


# ---- KIP-848: epochs


def test_a_stale_epoch_is_replaced_by_the_one_that_a_heartbeat_brings() -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [ErrorCode.STALE_MEMBER_EPOCH] * 3

        async def beat() -> None:
            while len(stage.seen) < 2:
                await asyncio.sleep(0.01)
            stage.group.metadata = replace(MEMBER, generation_id=6)

        heartbeat = asyncio.ensure_future(beat())
        await stage.commits.commit({P0: OffsetAndMetadata(7)})
        await heartbeat
        assert [request.generation_id_or_member_epoch for request in stage.seen][-2:] == [6, 6]
        assert stage.stored["t", 0][0] == 7

    play(scene, group_protocol="consumer")


def test_a_larger_epoch_is_accepted_for_a_pending_commit() -> None:
    async def scene(stage: Stage) -> None:
        stage.commits.commit_async({P0: OffsetAndMetadata(7)})
        stage.group.metadata = replace(MEMBER, generation_id=6)
        await stage.finished(1)
        assert [request.generation_id_or_member_epoch for request in stage.seen] == [6]

    play(scene, group_protocol="consumer")


def test_a_commit_of_an_old_generation_does_not_count_for_the_new_one() -> None:
    async def scene(stage: Stage) -> None:
        stage.commits.commit_async({P0: OffsetAndMetadata(7)})
        stage.group.metadata = replace(MEMBER, generation_id=6)
        await stage.finished(1)
        assert [request.generation_id_or_member_epoch for request in stage.seen] == [5]

    play(scene, group_protocol="classic")


def test_a_fenced_member_cannot_commit_with_a_new_epoch() -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [ErrorCode.STALE_MEMBER_EPOCH]
        commit = asyncio.ensure_future(stage.commits.commit({P0: OffsetAndMetadata(7)}))
        while not stage.seen:
            await asyncio.sleep(0)
        stage.group.metadata = GroupMetadata("g")
        with pytest.raises(CommitFailed):
            await commit

    play(scene, group_protocol="consumer")
