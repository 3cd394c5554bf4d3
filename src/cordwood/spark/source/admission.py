"""Limits how much a micro-batch reads; sans-IO.

As in Spark's connector: partitions share a limit in proportion to their backlogs.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from cordwood.client.cluster import TopicPartition
from cordwood.spark.source.offsets import Offsets

DEFAULT_MAX_TRIGGER_DELAY_MS = 15 * 60 * 1000


@dataclass(frozen=True, slots=True)
class ReadLimits:
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_bytes: int | None = None
    """As stored by the brokers."""
    max_trigger_delay_ms: int = DEFAULT_MAX_TRIGGER_DELAY_MS
    """After this time a batch may have less than `min_offsets`."""

    @property
    def is_limited(self) -> bool:
        return self.max_offsets is not None or self.min_offsets is not None or self.max_bytes is not None


class BatchDelay:
    """Decides whether there is enough for a batch yet. The first one does not wait, as with Spark's connector."""

    def __init__(self, limits: ReadLimits) -> None:
        self._limits = limits
        self._last_batch_ms: int | None = None

    def is_over(self, start: Offsets, latest: Offsets, now_ms: int) -> bool:
        """Counts from the last time that it said so."""
        waiting = sum(latest[partition] - start.get(partition, 0) for partition in latest)
        is_late = self._last_batch_ms is None or now_ms - self._last_batch_ms >= self._limits.max_trigger_delay_ms
        if self._limits.min_offsets is not None and waiting < self._limits.min_offsets and not is_late:
            return False
        self._last_batch_ms = now_ms
        return True


def admitted(
    start: Offsets,
    latest: Offsets,
    limits: ReadLimits,
    bytes_per_offset: Mapping[TopicPartition, float] | None = None,
) -> dict[TopicPartition, int]:
    """Where the batch ends. `start` knows all partitions of `latest`. For a limit of bytes, a partition that is not in
    `bytes_per_offset` counts by its offsets alone."""
    ends = dict(latest)
    if limits.max_offsets is not None:
        ends = _share(start, ends, limits.max_offsets, {})
    if limits.max_bytes is not None:
        ends = _share(start, ends, limits.max_bytes, bytes_per_offset or {})
    return ends


def _share(
    start: Offsets, latest: Offsets, limit: int, weights: Mapping[TopicPartition, float]
) -> dict[TopicPartition, int]:
    waiting = {
        partition: (end - start[partition]) * weights.get(partition, 1.0)
        for partition, end in latest.items()
        if end > start[partition]
    }
    total = sum(waiting.values())
    ends = dict(latest)
    if total <= limit:
        return ends
    for partition, size in waiting.items():
        share = limit * size / total / weights.get(partition, 1.0)
        # A small partition is not starved: it gets one at least.
        count = math.floor(share) if share >= 1 else 1
        ends[partition] = min(latest[partition], start[partition] + count)
    return ends
