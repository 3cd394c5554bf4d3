"""The metadata log of a single voter, as the rest of a node sees it."""

from __future__ import annotations

import asyncio
import errno

import pytest

from cordwood.metadata.metadata_log import LeaderAndEpoch, MetadataLog
from cordwood.metadata.storage.batch import MetadataBatch
from cordwood.raft.api.common import PARTITION, TOPIC_ID
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from cordwood.wire.messages.metadata_records.config_record import ConfigRecord
from tests.controller.controllers import Stage, on_stage

VERSION = 30


def setting(name: str) -> ConfigRecord:
    return ConfigRecord(resource_type=4, resource_name="", name=name, value="1")


def test_listeners_get_each_batch_once_it_is_committed_and_in_the_order_they_came() -> None:
    async def test(stage: Stage) -> None:
        quorum: MetadataLog = stage.quorum
        await stage.settle()
        heard: list[tuple[str, list[str]]] = []

        def listener(who: str, batches: list[MetadataBatch]) -> None:
            assert all(batch.next_offset <= quorum.high_watermark for batch in batches)
            heard.append((who, [record.name for batch in batches for record in batch.records]))  # type: ignore[attr-defined]

        quorum.on_commit(lambda batches: listener("first", list(batches)))
        quorum.on_commit(lambda batches: listener("second", list(batches)))
        epoch = quorum.leader.epoch
        offset = quorum.append([setting("a")], epoch, VERSION).base_offset
        assert quorum.append([setting("b")], epoch, VERSION).base_offset == offset + 1
        assert heard == []
        assert quorum.high_watermark == offset
        await stage.settle()
        assert heard == [("first", ["a", "b"]), ("second", ["a", "b"])], "one flush commits both"
        assert quorum.high_watermark == quorum.end_offset == offset + 2

    on_stage(test)


def test_appends_during_a_flush_wait_for_the_next_flush() -> None:
    async def test(stage: Stage) -> None:
        await stage.settle()
        epoch = stage.quorum.leader.epoch
        heard: list[tuple[int, int]] = []
        stage.quorum.on_commit(lambda batches: heard.append((batches[-1].next_offset, stage.quorum.high_watermark)))
        first = stage.quorum.append([setting("a")], epoch, VERSION)
        # The flush begins.
        await asyncio.sleep(0)
        second = stage.quorum.append([setting("b")], epoch, VERSION)
        await stage.settle()
        assert heard == [(batch.next_offset, batch.next_offset) for batch in (first, second)]

    on_stage(test)


def test_only_the_leader_of_the_epoch_appends() -> None:
    async def test(stage: Stage) -> None:
        epoch = stage.quorum.leader.epoch
        with pytest.raises(Refusal) as refused:
            stage.quorum.append([setting("a")], epoch - 1, VERSION)
        assert refused.value.error == ErrorCode.NOT_CONTROLLER

    on_stage(test)


def fetch_at_the_end(stage: Stage) -> FetchRequest:
    """An observer's, which has everything and waits for more."""
    partition = FetchPartition(
        partition=PARTITION,
        current_leader_epoch=stage.quorum.leader.epoch,
        fetch_offset=stage.quorum.end_offset,
        last_fetched_epoch=stage.quorum.log_end.epoch,
        high_watermark=stage.quorum.high_watermark,
    )
    return FetchRequest(
        replica_state=ReplicaState(replica_id=2),
        max_wait_ms=500,
        topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
    )


def test_a_stopped_member_leads_no_more_and_fails_pending_requests() -> None:
    async def test(stage: Stage) -> None:
        await stage.settle()
        leaders: list[LeaderAndEpoch] = []
        stage.quorum.on_leader_change(leaders.append)
        epoch = stage.quorum.leader.epoch
        fetch = fetch_at_the_end(stage)
        waiting = asyncio.ensure_future(stage.quorum.answer(fetch, 17, "CONTROLLER"))
        await asyncio.sleep(0)
        assert not waiting.done()
        await stage.quorum.finish()
        answer = await waiting
        assert isinstance(answer, FetchResponse)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.BROKER_NOT_AVAILABLE
        with pytest.raises(Refusal) as refused:
            stage.quorum.answer(fetch, 17, "CONTROLLER")
        assert refused.value.error == ErrorCode.BROKER_NOT_AVAILABLE
        with pytest.raises(Refusal) as refused:
            stage.quorum.append([setting("a")], epoch, VERSION)
        assert refused.value.error == ErrorCode.NOT_CONTROLLER
        assert leaders == [LeaderAndEpoch(1, epoch), LeaderAndEpoch(None, epoch)]

    on_stage(test)


@pytest.mark.parametrize("operation", ["append to", "sync"])
def test_a_log_that_fails_has_no_leader_any_more_and_commits_nothing(operation: str) -> None:
    async def test(stage: Stage) -> None:
        await stage.settle()
        leaders: list[LeaderAndEpoch] = []
        stage.quorum.on_leader_change(leaders.append)
        epoch = stage.quorum.leader.epoch
        committed: list[MetadataBatch] = []
        stage.quorum.on_commit(committed.extend)
        stage.disk.fail_next(operation, errno.EIO)
        if operation == "append to":
            with pytest.raises(Refusal):
                stage.quorum.append([setting("a")], epoch, VERSION)
        else:
            stage.quorum.append([setting("a")], epoch, VERSION)
        await stage.settle()
        assert leaders == [LeaderAndEpoch(1, epoch), LeaderAndEpoch(None, epoch)]
        assert committed == []
        assert len(stage.failures) == 1
        with pytest.raises(Refusal):
            stage.quorum.append([setting("b")], epoch, VERSION)

    on_stage(test)
