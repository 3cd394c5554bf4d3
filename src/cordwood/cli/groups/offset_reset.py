"""Plans of `cordwood group reset-offsets`: from the committed offset to the new one."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cordwood.cli.records.reading import bounds, resolve
from cordwood.cli.records.spots import AtOffset, Spot
from cordwood.cli.terminal.output import warn
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.offsets import GroupOffsets
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import BadSetting


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """Moves the committed offset by a number of records."""

    count: int


Target = Spot | ShiftBy
"""The new place of a partition."""


@dataclass(frozen=True, slots=True)
class PlannedReset:
    partition: TopicPartition
    before: int | None
    after: int


async def plan_reset(
    admin: Admin, targets: Mapping[TopicPartition, Target], committed: GroupOffsets
) -> list[PlannedReset]:
    """Plans the new offsets. Clamps offsets outside of the partition, with a warning. Raises `BadSetting`."""
    partitions = sorted(targets)
    starts, ends = await bounds(admin.list_offsets, partitions, read_committed=False)
    spots = {}
    for partition in partitions:
        spot = _spot(partition, targets[partition], committed)
        if isinstance(spot, AtOffset):
            within = max(starts[partition], min(spot.offset, ends[partition]))
            if within != spot.offset:
                warn(
                    f"{partition} has no offset {spot.offset}; it begins at {starts[partition]} and ends at "
                    f"{ends[partition]}: {within} is taken"
                )
            spot = replace(spot, offset=within)
        spots[partition] = spot
    offsets = await resolve(admin.list_offsets, spots, starts, ends, read_committed=False)
    return [
        PlannedReset(partition, committed[partition].offset if partition in committed else None, offsets[partition])
        for partition in partitions
    ]


def read_targets(lines: Sequence[str]) -> dict[TopicPartition, Target]:
    """Parses `topic,partition,offset` lines, the format of Kafka's tools. Raises `BadSetting`."""
    targets: dict[TopicPartition, Target] = {}
    for number, fields in enumerate(csv.reader(lines), 1):
        if not fields:
            continue
        if len(fields) != 3 or not fields[0] or not all(_is_number(field.strip()) for field in fields[1:]):
            raise BadSetting(f"line {number}: {','.join(fields)!r} is not TOPIC,PARTITION,OFFSET")
        targets[TopicPartition(fields[0].strip(), int(fields[1]))] = AtOffset(int(fields[2]))
    if not targets:
        raise BadSetting("the file has no lines of TOPIC,PARTITION,OFFSET")
    return targets


def _spot(partition: TopicPartition, target: Target, committed: GroupOffsets) -> Spot:
    if not isinstance(target, ShiftBy):
        return target
    if partition not in committed:
        raise BadSetting(f"{partition} has no committed offset to shift from; use --to instead")
    return AtOffset(committed[partition].offset + target.count)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()
