"""Asks the cluster where a read begins and ends."""

from collections.abc import Collection

from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.offsets import EARLIEST, LATEST, list_offsets
from cordwood.spark.errors import CannotRead
from cordwood.spark.source.loss import LossReport
from cordwood.spark.source.offsets import Edge, OffsetsOption


async def earliest(client: Client, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    return await _look_up(client, dict.fromkeys(partitions, EARLIEST), read_committed=False)


async def latest(
    client: Client, partitions: Collection[TopicPartition], *, read_committed: bool
) -> dict[TopicPartition, int]:
    """With `read_committed`, up to the first transaction that is still open."""
    return await _look_up(client, dict.fromkeys(partitions, LATEST), read_committed=read_committed)


async def by_time(
    client: Client, partitions: Collection[TopicPartition], time_ms: int, *, read_committed: bool
) -> dict[TopicPartition, int]:
    """The first record at or after that time; -1 if there is none."""
    return await _look_up(client, dict.fromkeys(partitions, time_ms), read_committed=read_committed)


async def resolve(
    client: Client,
    option: OffsetsOption,
    partitions: list[TopicPartition],
    losses: LossReport,
    *,
    read_committed: bool,
) -> dict[TopicPartition, int]:
    """Resolves an option to offsets. Raises `CannotRead`, also for offsets that do not exist, unless failOnDataLoss is
    false."""
    option.check_partitions(partitions)
    wanted = {partition: option.wanted(partition) for partition in partitions}
    asked = {partition: what for partition, what in wanted.items() if option.is_time or what < 0}
    found = await _look_up(client, asked, read_committed=read_committed)
    unmatched = [partition for partition, offset in found.items() if offset < 0]
    if unmatched:
        if option.edge is Edge.STARTING and not option.latest_without_match:
            raise CannotRead(
                f"{option.name}: no record of {unmatched[0]} is of {wanted[unmatched[0]]} or later; "
                "set startingOffsetsByTimestampStrategy=latest to start at the end in that case"
            )
        found |= await latest(client, unmatched, read_committed=read_committed)
    named = {partition: offset for partition, offset in wanted.items() if partition not in found}
    if named:
        begins = await earliest(client, named)
        ends = await latest(client, named, read_committed=read_committed)
        for partition, offset in named.items():
            if not begins[partition] <= offset <= ends[partition]:
                losses.not_there(option.name, partition, offset, begins[partition], ends[partition])
            found[partition] = min(max(offset, begins[partition]), ends[partition])
    return {partition: found[partition] for partition in partitions}


async def _look_up(
    client: Client, wanted: dict[TopicPartition, int], *, read_committed: bool
) -> dict[TopicPartition, int]:
    if not wanted:
        return {}
    listed = await list_offsets(client, wanted, read_committed=read_committed)
    return {partition: answer.offset for partition, answer in listed.items()}
