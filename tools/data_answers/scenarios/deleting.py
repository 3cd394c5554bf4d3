"""DeleteRecords."""

from __future__ import annotations

from cordwood.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from cordwood.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from data_answers.asking import Asking
from data_answers.batches import batch
from data_answers.requests import fetch, list_offsets, produce


async def deleting_records(ask: Asking) -> None:
    await ask.create("d", 2)
    await ask.create("compacted", 1, cleanup_policy="compact")
    await ask.create("both", 1, cleanup_policy="compact,delete")
    for topic in ("d", "compacted", "both"):
        await ask.quietly(produce(topic, batch("a", "b", "c", keys="abc")), 9)
        await ask.quietly(produce(topic, batch("d", "e", keys="de")), 9)

    await ask("before the middle of a batch", _delete(("d", 0, 1)), 2)
    await _look(ask)
    await ask("before the start", _delete(("d", 0, 0)), 2)
    for offset in (6, 100, -2, -3):
        await ask(f"out of range: {offset}", _delete(("d", 0, offset)), 2)
    await ask.all_versions("again", _delete(("d", 0, 2)), (0, 1, 2))
    await ask("several", _delete(("d", 0, 3), ("d", 1, -1), ("none", 0, 0), ("d", 9, 0), ("compacted", 0, 1)), 2)
    await _look(ask)
    await ask("only compacted", _delete(("compacted", 0, -1)), 2)
    await ask("both", _delete(("both", 0, -1)), 2)
    await ask("twice the same", _delete(("d", 0, 3), ("d", 0, 4)), 2)
    await ask("everything", _delete(("d", 0, -1)), 2)
    await _look(ask)
    await ask("nothing", _delete(), 2)
    produced = await ask.quietly(produce("d", batch("f")), 9)
    assert produced.responses[0].partition_responses[0].base_offset == 5
    await _look(ask)


async def _look(ask: Asking) -> None:
    for offset in (0, 1, 3, 5):
        await ask(f"read from {offset}", fetch({("d", 0): offset}), 12)
    for timestamp in (-2, -3, -4, 0):
        await ask(f"timestamp {timestamp}", list_offsets({("d", 0): timestamp}), 11)
    asked = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    await ask("epoch 0", OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="d", partitions=[asked])]), 4)


def _delete(*wanted: tuple[str, int, int]) -> DeleteRecordsRequest:
    topics: dict[str, DeleteRecordsTopic] = {}
    for topic, partition, offset in wanted:
        topics.setdefault(topic, DeleteRecordsTopic(name=topic)).partitions.append(
            DeleteRecordsPartition(partition_index=partition, offset=offset)
        )
    return DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=30_000)
