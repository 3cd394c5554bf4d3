"""Resolves the spots of `--from` and `--until` to offsets."""

from collections.abc import Mapping
from typing import Protocol

from cordwood.cli.records.spots import AtOffset, AtTime, BeforeEnd, Earliest, Spot
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import BadSetting
from cordwood.client.offsets import EARLIEST, LATEST, ListedOffset

Offsets = dict[TopicPartition, int]


class ListOffsets(Protocol):
    """`Admin.list_offsets`, or a cheaper equivalent."""

    async def __call__(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> Mapping[TopicPartition, ListedOffset]: ...


async def resolve(
    list_offsets: ListOffsets,
    spots: Mapping[TopicPartition, Spot],
    starts: Offsets,
    ends: Offsets,
    *,
    read_committed: bool,
) -> Offsets:
    """Returns an offset for each spot. Raises `BadSetting` for one that the partition does not have."""
    times = {partition: spot.timestamp_ms for partition, spot in spots.items() if isinstance(spot, AtTime)}
    found = await list_offsets(times, read_committed=read_committed) if times else {}
    offsets = {}
    for partition, spot in spots.items():
        start, end = starts[partition], ends[partition]
        if isinstance(spot, Earliest):
            offsets[partition] = start
        elif isinstance(spot, AtOffset):
            if not start <= spot.offset <= end:
                raise BadSetting(f"{partition} has no offset {spot.offset}; it begins at {start} and ends at {end}")
            offsets[partition] = spot.offset
        elif isinstance(spot, BeforeEnd):
            offsets[partition] = max(start, end - spot.count)
        elif isinstance(spot, AtTime):
            # No record of that time or later yet: start with the next one.
            offset = found[partition].offset
            offsets[partition] = end if offset < 0 else offset
        else:
            offsets[partition] = end
    return offsets


async def bounds(
    list_offsets: ListOffsets, partitions: list[TopicPartition], *, read_committed: bool
) -> tuple[Offsets, Offsets]:
    """Returns the current first and end offset of each partition."""
    starts = await list_offsets(dict.fromkeys(partitions, EARLIEST), read_committed=read_committed)
    ends = await list_offsets(dict.fromkeys(partitions, LATEST), read_committed=read_committed)
    return (
        {partition: listed.offset for partition, listed in starts.items()},
        {partition: listed.offset for partition, listed in ends.items()},
    )
