"""Commits without a waiting caller, and automatic commits."""

import asyncio
from typing import Any

import pytest

from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.errors import (
    BrokerError,
    CommitFailed,
    GaveUp,
    RetriableCommitFailed,
    TimedOut,
)
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.wire.errors import ErrorCode
from tests.client.committing import P0, P1, Stage, play

# ---- commits without a waiting caller


def test_an_async_commit_is_tried_once_and_fails_as_retriable() -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        stage.commits.commit_async({P0: OffsetAndMetadata(7)})
        (done,) = await stage.finished(1)
        assert isinstance(done.error, RetriableCommitFailed)
        assert done.error.retriable
        assert isinstance(done.error.__cause__, BrokerError)
        assert len(stage.seen) == 1

    play(scene)


def test_queued_commits_are_merged_and_each_gets_its_result() -> None:
    async def scene(stage: Stage) -> None:
        told: list[Any] = []
        stage.commits.commit_async({P0: OffsetAndMetadata(1)}, lambda offsets, error: told.append(offsets))
        await asyncio.sleep(0)
        for offset in range(2, 50):
            stage.commits.commit_async({P0: OffsetAndMetadata(offset)})
        done = await stage.finished(49)
        assert [completed.offsets[P0].offset for completed in done] == list(range(1, 50))
        assert stage.seen_offsets == [{0: 1}, {0: 49}]
        assert done[0].callback is not None
        done[0].callback(done[0].offsets, done[0].error)
        assert told == [{P0: OffsetAndMetadata(1)}]

    play(scene)


def test_each_merged_commit_gets_only_its_own_partitions() -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [{1: ErrorCode.TOPIC_AUTHORIZATION_FAILED}]
        stage.commits.commit_async({P0: OffsetAndMetadata(1)})
        stage.commits.commit_async({P1: OffsetAndMetadata(2)})
        first, second = await stage.finished(2)
        assert first.error is None
        assert second.error is not None
        assert len(stage.seen) == 1

    play(scene)


def test_a_later_commit_is_never_overtaken_by_an_earlier_one_that_is_tried_again() -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 3
        earlier = asyncio.ensure_future(stage.commits.commit({P0: OffsetAndMetadata(1)}))
        await asyncio.sleep(0)
        stage.commits.commit_async({P0: OffsetAndMetadata(2)})
        later = asyncio.ensure_future(stage.commits.commit({P0: OffsetAndMetadata(3)}))
        await asyncio.gather(earlier, later)
        assert stage.seen_offsets == [{0: 1}] * 4 + [{0: 2}, {0: 3}]
        assert [done.offsets[P0].offset for done in stage.commits.take_completed()] == [1, 2, 3]

    play(scene)


def test_a_cancelled_wait_withdraws_an_unsent_commit() -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 1000
        first = asyncio.ensure_future(stage.commits.commit({P0: OffsetAndMetadata(1)}, 5))
        await asyncio.sleep(0)
        with pytest.raises(GaveUp):
            await stage.commits.commit({P0: OffsetAndMetadata(2)}, 1)
        with pytest.raises(GaveUp):
            await first
        stage.codes = []
        await asyncio.sleep(10)
        assert {0: 2} not in stage.seen_offsets

    play(scene)


def test_commits_are_waited_for_when_the_consumer_closes() -> None:
    async def scene(stage: Stage) -> None:
        stage.commits.commit_async({P0: OffsetAndMetadata(1)})
        await stage.commits.close(1)
        (done,) = stage.commits.take_completed()
        assert done.error is None

    play(scene)


def test_commits_still_queued_at_close_get_an_error() -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 1000
        blocking = asyncio.ensure_future(stage.commits.commit({P0: OffsetAndMetadata(1)}))
        await asyncio.sleep(0)
        stage.commits.commit_async({P0: OffsetAndMetadata(2)})
        await stage.commits.close(3)
        blocking.cancel()
        assert [type(done.error) for done in stage.commits.take_completed()] == [TimedOut]

    play(scene)


# ---- automatic commits


def test_returned_records_are_committed_by_a_poll_after_the_interval() -> None:
    async def scene(stage: Stage) -> None:
        stage.position[P0] = OffsetAndMetadata(10)
        stage.commits.auto_commit()
        await asyncio.sleep(4.9)
        stage.commits.auto_commit()
        assert stage.seen == []
        await asyncio.sleep(0.2)
        stage.commits.auto_commit()
        stage.position[P0] = OffsetAndMetadata(20)
        await stage.finished(1)
        assert stage.seen_offsets == [{0: 10}]
        stage.commits.auto_commit()
        await asyncio.sleep(5)
        stage.commits.auto_commit()
        await stage.finished(1)
        assert stage.seen_offsets == [{0: 10}, {0: 20}]

    play(scene)


def test_an_automatic_commit_that_may_succeed_soon_does_not_wait_for_the_interval() -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        stage.position[P0] = OffsetAndMetadata(10)
        await asyncio.sleep(5)
        stage.commits.auto_commit()
        await stage.finished(1)
        await asyncio.sleep(0.2)
        stage.commits.auto_commit()
        (done,) = await stage.finished(1)
        assert done.error is None

    play(scene)


def test_there_is_one_automatic_commit_at_a_time() -> None:
    async def scene(stage: Stage) -> None:
        stage.position[P0] = OffsetAndMetadata(10)
        stage.codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 1000
        blocking = asyncio.ensure_future(stage.commits.commit({P1: OffsetAndMetadata(1)}, 22))
        for _ in range(4):
            await asyncio.sleep(5)
            stage.commits.auto_commit()
        stage.codes = []
        await blocking
        await asyncio.sleep(1)
        assert [set(done.offsets) for done in stage.commits.take_completed()] == [{P1}, {P0}]

    play(scene)


def test_there_is_no_automatic_commit_without_records() -> None:
    async def scene(stage: Stage) -> None:
        await asyncio.sleep(60)
        stage.commits.auto_commit()
        assert await stage.commits.before_release(1) is None
        await asyncio.sleep(1)
        assert stage.commits.take_completed() == []

    play(scene)


def test_nothing_is_committed_without_auto_commit() -> None:
    async def scene(stage: Stage) -> None:
        stage.position[P0] = OffsetAndMetadata(10)
        await asyncio.sleep(60)
        stage.commits.auto_commit()
        assert await stage.commits.before_release(1) is None
        assert stage.commits.auto_commit_in_s is None
        assert stage.seen == []

    play(scene, enable_auto_commit=False)


def test_non_members_do_not_commit_automatically() -> None:
    async def scene(stage: Stage) -> None:
        stage.position[P0] = OffsetAndMetadata(10)
        stage.group.metadata = GroupMetadata("g")
        await asyncio.sleep(60)
        stage.commits.auto_commit()
        assert await stage.commits.before_release(1) is None
        assert stage.seen == []

    play(scene)


def test_returned_records_are_committed_with_retries_before_a_revocation() -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 2
        stage.position[P0] = OffsetAndMetadata(10)
        assert await stage.commits.before_release(5) is None
        assert stage.stored["t", 0][0] == 10

    play(scene)


def test_commits_in_progress_are_done_before_partitions_go_to_others() -> None:
    async def scene(stage: Stage) -> None:
        stage.commits.commit_async({P0: OffsetAndMetadata(3)})
        await stage.commits.before_release(5)
        assert stage.stored["t", 0][0] == 3

    play(scene, enable_auto_commit=False)


def test_a_deleted_topic_does_not_block_others() -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [{0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}]
        stage.position.update({P0: OffsetAndMetadata(10), P1: OffsetAndMetadata(11)})
        assert await stage.commits.before_release(5) is None
        assert len(stage.seen) == 1
        assert stage.stored["t", 1][0] == 11

    play(scene)


def test_an_automatic_commit_that_fails_at_close_is_logged_not_raised() -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [ErrorCode.UNKNOWN_MEMBER_ID]
        stage.position[P0] = OffsetAndMetadata(10)
        assert isinstance(await stage.commits.before_release(5), CommitFailed)

    play(scene)
