"""ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

from cordwood.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from cordwood.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from data_answers.asking import Asking
from data_answers.batches import NOW, batch
from data_answers.requests import LIST_OFFSETS_VERSIONS, list_offsets, produce


async def listing_offsets(ask: Asking) -> None:
    await ask.create("o", 2)
    await ask.create("empty", 1)
    times = ((10, 30, 20), (25,), (40, 40), (5,))
    for number, offsets in enumerate(times):
        values = [f"{number}.{index}" for index in range(len(offsets))]
        await ask.quietly(produce("o", batch(*values, timestamps=[NOW + offset for offset in offsets])), 9)

    for timestamp in range(-7, 0):
        await ask.all_versions(
            f"timestamp {timestamp}",
            list_offsets({("o", 0): timestamp, ("empty", 0): timestamp}),
            LIST_OFFSETS_VERSIONS,
        )
    for later in (-1, 5, 10, 11, 20, 25, 26, 30, 31, 40, 41):
        await ask(f"{later} ms", list_offsets({("o", 0): NOW + later}), 11)
    await ask("timestamp 0", list_offsets({("o", 0): 0, ("empty", 0): 0}), 11)
    await ask("the end of time", list_offsets({("o", 0): 2**63 - 1}), 11)
    await ask("an unknown topic", list_offsets({("none", 0): -1}), 11)
    await ask("an unknown partition", list_offsets({("o", 5): -1}), 11)
    for epoch in (0, 1, -1, -2):
        await ask.all_versions(f"leader epoch {epoch}", list_offsets({("o", 0): -1}, epoch=epoch), (4, 11))
    for replica_id in (-1, -2, -3, 0, 1, 5):
        await ask(f"replica {replica_id}", list_offsets({("o", 0): -1}, replica_id=replica_id), 11)
    for level in (1, 2, -1):
        await ask(f"isolation level {level}", list_offsets({("o", 0): -1}, isolation_level=level), 11)
    twice = [_at(0, -1), _at(0, -2), _at(1, -1)]
    await ask(
        "twice the same", ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="o", partitions=twice)]), 11
    )
    split = [ListOffsetsTopic(name="o", partitions=[_at(0, -1)]), ListOffsetsTopic(name="o", partitions=[_at(1, -1)])]
    await ask("a topic in two places", ListOffsetsRequest(replica_id=-1, topics=split), 11)
    await ask("nothing", list_offsets({}), 11)


def _at(partition: int, timestamp: int) -> ListOffsetsPartition:
    return ListOffsetsPartition(partition_index=partition, timestamp=timestamp)


async def leader_epochs(ask: Asking) -> None:
    await ask.create("e", 2)
    await ask.quietly(produce("e", batch("a", "b")), 9)
    for epoch in (-2, -1, 0, 1, 5):
        for partition in (0, 1):
            await ask.all_versions(f"epoch {epoch} of {partition}", _epochs("e", partition, epoch), (2, 3, 4))
    for current in (-1, 0, 1):
        await ask(f"current epoch {current}", _epochs("e", 0, 0, current), 4)
    await ask("an unknown topic", _epochs("none", 0, 0), 4)
    await ask("an unknown partition", _epochs("e", 4, 0), 4)


def _epochs(topic: str, partition: int, epoch: int, current: int = -1) -> OffsetForLeaderEpochRequest:
    asked = OffsetForLeaderPartition(partition=partition, leader_epoch=epoch, current_leader_epoch=current)
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])])
