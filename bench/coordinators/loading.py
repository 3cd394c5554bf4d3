"""Loading a shard: a log of offset commits, one a batch as they come in, replayed into a state."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from pathlib import Path

from cordwood.broker.start.standalone import standalone_config
from cordwood.config.layers import Layer
from cordwood.coordinator.groups.shard_state import GroupShardState
from cordwood.coordinator.loading import load
from cordwood.log.config import LogConfig
from cordwood.log.log import Log
from cordwood.log.recovery import open_log
from cordwood.metadata.image import MetadataImage
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.files.local_disk import LocalDisk
from cordwood.runtime.randomness import SeededRandom
from cordwood.wire.frames import encode_coordinator_key, encode_coordinator_value
from cordwood.wire.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from cordwood.wire.records import encode_batch

COMMITS = 1_000_000
# 100,000 different offsets: the log of a shard that has not been compacted for a while.
GROUPS = 1_000
PARTITIONS = 100
NOW_MS = 1_800_000_000_000


def main() -> None:
    directory = Path(tempfile.mkdtemp(prefix="cordwood-bench-"))
    try:
        for records_per_batch in (1, 10):
            seconds = loading_seconds(directory / str(records_per_batch), records_per_batch)
            print(
                f"load {COMMITS:,} offset commits, {records_per_batch} in a batch: {seconds:.1f} s "
                f"({seconds / COMMITS * 1e6:.1f} µs each; ≤ 15 s)"
            )
    finally:
        shutil.rmtree(directory)


def loading_seconds(directory: Path, records_per_batch: int) -> float:
    log = log_of_commits(directory, records_per_batch)
    config = standalone_config(Layer("bench", {"log.dirs": str(directory)}), port=0)
    image = MetadataImage()
    clock = SystemClock()
    state = GroupShardState(clock, SeededRandom(1), lambda: config, lambda: image, lambda _group_id: {})
    began = time.process_time()
    loaded = asyncio.run(load("group", "__consumer_offsets-0", log, state, clock))
    spent = time.process_time() - began
    assert loaded == COMMITS
    assert sum(len(of_topic) for topics in state.offsets.by_group.values() for of_topic in topics.values()) == min(
        COMMITS, GROUPS * PARTITIONS
    )
    return spent


def log_of_commits(directory: Path, records_per_batch: int) -> Log:
    """Written as a file, which is faster than appending, and opened."""
    partition = directory / "__consumer_offsets-0"
    partition.mkdir(parents=True)
    with (partition / f"{0:020}.log").open("wb") as file:
        for first in range(0, COMMITS, records_per_batch):
            numbers = range(first, first + records_per_batch)
            file.write(encode_batch([(number, NOW_MS, *commit(number), ()) for number in numbers], leader_epoch=0))
    return open_log(LocalDisk(str(directory)), partition.name, LogConfig(), SeededRandom(1), now_ms=NOW_MS)


def commit(number: int) -> tuple[bytes, bytes]:
    key = OffsetCommitKey(group=f"group-{number % GROUPS}", topic="orders", partition=number // GROUPS % PARTITIONS)
    value = OffsetCommitValue(offset=number, metadata="", commit_timestamp=NOW_MS, topic_id=bytes(range(16)))
    return encode_coordinator_key(key), encode_coordinator_value(value, 4)
