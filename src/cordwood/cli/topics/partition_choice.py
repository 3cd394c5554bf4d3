"""Resolves the partitions that a command names: `orders` for all of a topic, `orders:0,2` for some."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import typer

from cordwood.client.admin.admin import Admin
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import BadSetting


@dataclass(frozen=True, slots=True)
class PartitionChoice:
    topic: str
    partitions: tuple[int, ...]
    """Empty means all."""

    def has(self, partition: TopicPartition) -> bool:
        return partition.topic == self.topic and (not self.partitions or partition.partition in self.partitions)


def parse_partition_choices(texts: Sequence[str], option: str) -> list[PartitionChoice]:
    """Raises `typer.BadParameter`."""
    return [_parse(text, option) for text in texts]


async def chosen_partitions(admin: Admin, choices: Collection[PartitionChoice]) -> list[TopicPartition]:
    """Returns the existing partitions, sorted. Raises a `ClientError` for a topic or partition that does not exist."""
    topics = await admin.client.topics(sorted({choice.topic for choice in choices}))
    chosen = set()
    for choice in choices:
        count = len(topics[choice.topic].partitions)
        for partition in choice.partitions or range(count):
            if partition >= count:
                raise BadSetting(f"topic {choice.topic} has no partition {partition}; it has 0 to {count - 1}")
            chosen.add(TopicPartition(choice.topic, partition))
    return sorted(chosen)


def _parse(text: str, option: str) -> PartitionChoice:
    topic, colon, listed = text.partition(":")
    numbers = listed.split(",") if colon else []
    if not topic or not all(number.isascii() and number.isdecimal() for number in numbers):
        raise typer.BadParameter(f"{text!r} is not TOPIC or TOPIC:PARTITION,PARTITION", param_hint=option)
    return PartitionChoice(topic, tuple(int(number) for number in numbers))
