"""Offsets as Spark's options and checkpoints spell them, and where a read begins and ends; sans-IO.

>>> offsets_to_json({TopicPartition("orders", 0): 12})
{'orders': {'0': 12}}
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from cordwood.client.cluster import TopicPartition
from cordwood.client.offsets import OffsetSpec
from cordwood.spark.errors import BadOption, CannotRead
from cordwood.spark.options import Options

Offsets = Mapping[TopicPartition, int]
OffsetsJson = dict[str, dict[str, int]]

SCHEMAS = "registry schemas"
"""Beside topics in a checkpoint, where values are typed by the schema registry: no topic can have this name."""


class Edge(Enum):
    """The start or end of a read; the value is the prefix of its option names."""

    STARTING = "starting"
    ENDING = "ending"


@dataclass(frozen=True, slots=True)
class OffsetsOption:
    """Where a read begins or ends: everywhere alike, or by partition."""

    name: str
    """The name of the option."""
    edge: Edge
    everywhere: int | None = None
    """An `OffsetSpec`, or a time in ms."""
    by_partition: Offsets | None = None
    """Offsets or `OffsetSpec`s; or times in ms."""
    is_time: bool = False
    latest_without_match: bool = False
    """Where no record is of that time or later: begin at the end, rather than to fail."""

    @property
    def may_be_latest(self) -> bool:
        """True if it may resolve to another offset later."""
        return (
            self.latest_without_match
            or self.everywhere == OffsetSpec.LATEST
            or (not self.is_time and OffsetSpec.LATEST in (self.by_partition or {}).values())
        )

    @property
    def names_offsets(self) -> bool:
        """True if it may name offsets that do not exist."""
        return self.by_partition is not None and not self.is_time

    def wanted(self, partition: TopicPartition) -> int:
        """The offset for a partition; every partition was checked to have one."""
        if self.by_partition is not None:
            return self.by_partition[partition]
        assert self.everywhere is not None
        return self.everywhere

    def check_partitions(self, partitions: list[TopicPartition]) -> None:
        """As in Spark's connector: offsets are given for every partition, and for no others."""
        if self.by_partition is None:
            return
        if missing := [str(partition) for partition in partitions if partition not in self.by_partition]:
            raise CannotRead(
                f"{self.name} is missing {', '.join(missing[:3])}; it must list every partition that is read"
            )
        if more := sorted(set(self.by_partition) - set(partitions)):
            raise CannotRead(f"{self.name} lists {more[0]}, which is not read")


def read_edge(options: Options, edge: Edge, *, default: OffsetSpec, forbidden: OffsetSpec | None) -> OffsetsOption:
    """One end of a read. A timestamp for all partitions takes precedence, then timestamps per partition, then
    offsets."""
    latest_without_match = edge is Edge.STARTING and (
        options.word("startingOffsetsByTimestampStrategy", ("error", "latest"), "error") == "latest"
    )
    name = f"{edge.value}Timestamp"
    if name in options:
        time_ms = options.whole_number(name)
        return OffsetsOption(name, edge, time_ms, is_time=True, latest_without_match=latest_without_match)
    name = f"{edge.value}OffsetsByTimestamp"
    if (text := options.text(name)) is not None:
        times = _parse(name, text, least=0)
        return OffsetsOption(name, edge, by_partition=times, is_time=True, latest_without_match=latest_without_match)
    name = f"{edge.value}Offsets"
    text = options.text(name)
    if text is None:
        return OffsetsOption(name, edge, default)
    words = {"earliest": OffsetSpec.EARLIEST, "latest": OffsetSpec.LATEST}
    if text.strip().lower() in words:
        spec = words[text.strip().lower()]
        if spec is forbidden:
            raise BadOption(f"{name} cannot be {text} in a batch read, which would read nothing")
        return OffsetsOption(name, edge, spec)
    offsets = _parse(name, text, least=OffsetSpec.EARLIEST)
    if forbidden is not None and forbidden in offsets.values():
        raise BadOption(f"{name} cannot have {int(forbidden)} ({forbidden.name.lower()}) in a batch read")
    return OffsetsOption(name, edge, by_partition=offsets)


def _parse(name: str, text: str, *, least: int) -> dict[TopicPartition, int]:
    expected = f"{name} is {text!r}; expected {'' if 'Timestamp' in name else 'earliest, latest or '}JSON such as "
    expected += '{"orders":{"0":23,"1":45}}'
    try:
        offsets = offsets_from_json(json.loads(text))
    except (ValueError, TypeError, AttributeError):
        raise BadOption(expected) from None
    if not offsets or min(offsets.values()) < least:
        raise BadOption(expected)
    return offsets


def offsets_from_json(told: object) -> dict[TopicPartition, int]:
    """Raises ValueError."""
    if not isinstance(told, dict):
        raise ValueError("offsets are an object of topics")
    offsets = {}
    for topic, partitions in told.items():
        if not isinstance(partitions, dict):
            raise ValueError("a topic has an object of partitions")
        for number, offset in partitions.items():
            if type(offset) is not int:
                raise ValueError("an offset is a whole number")
            offsets[TopicPartition(topic, int(number))] = offset
    return offsets


def offsets_to_json(offsets: Offsets) -> OffsetsJson:
    """Always in one order: Spark compares offsets by their text."""
    told: OffsetsJson = {}
    for partition in sorted(offsets):
        told.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return told
