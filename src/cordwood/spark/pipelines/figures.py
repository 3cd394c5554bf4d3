"""**QueryFigures**: a query's figures in this run, from Spark's progress reports."""

import json
from collections.abc import Iterator, Mapping
from typing import Any


class QueryFigures:
    def __init__(self, name: str) -> None:
        self.name = name
        self.batches = 0
        self.rows_in = 0
        self.rows_out: int | None = None
        """None where the sink does not count."""
        self.lag: int | None = None
        """Its lag in offsets at the end of its last batch; None where it reads no topics."""
        self.batch_ms = 0
        """Duration of the last batch."""
        self.status = "starting"
        self.progressed_s = 0.0
        """The time of Spark's last report; seconds since 1970."""
        # When the last batch that is counted began; in ISO 8601, which sorts as time does.
        self._counted_until = ""

    def is_new(self, timestamp: str) -> bool:
        return timestamp > self._counted_until

    def add(self, progress: Mapping[str, Any]) -> None:
        """Adds reports, in Spark's order. Known ones may be repeated: Spark keeps the last hundred. Without input Spark
        also reports an idle batch, under the same number.
        """
        if not self.is_new(progress["timestamp"]):
            return
        self._counted_until = progress["timestamp"]
        lags = [_lag(source) for source in progress["sources"]]
        known = [lag for lag in lags if lag is not None]
        self.lag = sum(known) if known else None
        if "addBatch" not in progress["durationMs"]:
            return
        self.batches += 1
        # Spark Connect does not report the sum of all sources.
        self.rows_in += sum(source.get("numInputRows", 0) for source in progress["sources"])
        self.batch_ms = progress["durationMs"].get("triggerExecution", 0)
        written = progress["sink"].get("numOutputRows", -1)
        if written >= 0:
            self.rows_out = (self.rows_out or 0) + written


def _lag(source: Mapping[str, Any]) -> int | None:
    """Offsets are {topic: {partition: offset}}; other sources have others."""
    latest = dict(_partitions(source.get("latestOffset")))
    read = dict(_partitions(source.get("endOffset")))
    if not latest:
        return None
    return sum(max(end - read.get(partition, end), 0) for partition, end in latest.items())


def _partitions(offsets: object) -> Iterator[tuple[tuple[str, str], int]]:
    if isinstance(offsets, str) and offsets.startswith("{"):
        # Through Spark Connect they come as text.
        offsets = json.loads(offsets)
    if not isinstance(offsets, dict):
        return
    for topic, partitions in offsets.items():
        if isinstance(partitions, dict):
            for partition, offset in partitions.items():
                if isinstance(offset, int):
                    yield (topic, partition), offset
