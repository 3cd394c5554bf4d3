"""Consumer lag: for each partition with a committed offset of a group, the high watermark minus that offset.

The coordinator of a group reports it, for partitions that this broker leads. At most
`cordwood.metrics.consumer.lag.max` partitions have their own series; the rest is summed up as `(other)`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from cordwood.broker.broker import Broker
from cordwood.config.own_keys import METRICS_LAG_ENABLE, METRICS_LAG_MAX

from .exposition import Exposition, Labels
from .topic_metrics import OTHER

_NAME = "cordwood_consumer_group_lag"
# Partitions processed per turn of the loop: about a millisecond.
_PER_TURN = 500


async def write_lag(page: Exposition, broker: Broker) -> None:
    config = broker.config
    if not config.flag(METRICS_LAG_ENABLE):
        return
    most = config.integer(METRICS_LAG_MAX)
    samples: list[tuple[Labels, float]] = []
    others = other_lag = 0
    for number, (group_id, topic, index, offset) in enumerate(_committed(broker)):
        if number % _PER_TURN == 0:
            await asyncio.sleep(0)
        partition = broker.partition(topic, index)
        if partition is None or partition.log is None or not partition.is_leader:
            continue
        lag = max(0, partition.log.high_watermark - offset)
        if len(samples) < most:
            samples.append((_labels(group_id, topic, str(index)), lag))
        else:
            others += 1
            other_lag += lag
    if others:
        samples.append((_labels(OTHER, OTHER, OTHER), other_lag))
    page.gauge(_NAME, "Messages between the offset that a group has committed and the high watermark.")
    for start in range(0, len(samples), _PER_TURN):
        page.more(_NAME, samples[start : start + _PER_TURN])
        await asyncio.sleep(0)


def _committed(broker: Broker) -> Iterator[tuple[str, str, int, int]]:
    """(group, topic, partition, offset), sorted. Each group is read as a whole; groups may change in between."""
    by_group = {
        group_id: shard.state.offsets for shard in broker.groups.shards for group_id in shard.state.offsets.by_group
    }
    for group_id, offsets in sorted(by_group.items(), key=lambda item: item[0]):
        topics = offsets.of_group(group_id)
        yield from [
            (group_id, topic, index, committed.offset)
            for topic, partitions in sorted(topics.items())
            for index, committed in sorted(partitions.items(), key=lambda item: item[0])
        ]


def _labels(group_id: str, topic: str, partition: str) -> Labels:
    return (("group", group_id), ("topic", topic), ("partition", partition))
