"""Compaction rate: 20-byte keys, 100-byte values, every second record superseded by a later one."""

from __future__ import annotations

import random
import tempfile
import time

from cordwood.log.cleaning.cleaner import Cleaner, CleanerConfig, Plan
from cordwood.log.cleaning.compaction import Compacted
from cordwood.log.config import LogConfig
from cordwood.log.dirs.directory import LogDirectory
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.files.local_disk import LocalDisk
from cordwood.runtime.randomness import SeededRandom
from cordwood.wire.record import Record
from cordwood.wire.records import encode_batch

RECORDS = 400_000
RECORDS_PER_BATCH = 130
"""About 16 KiB."""
SEGMENT_BYTES = 16 * 1024 * 1024
ROUNDS = 5
TARGET = 300_000


def main() -> None:
    best = max(records_per_second() for _ in range(ROUNDS))
    print(f"{'compact, 20-byte keys, 100-byte values':<48} {best:8,.0f} records/s  (≥ {TARGET:,})")


def records_per_second() -> float:
    with tempfile.TemporaryDirectory() as path:
        cleaner, plan = dirty_log(path)
        start = time.perf_counter()
        outcome = plan.run()
        assert cleaner.install(outcome, 0), outcome
        elapsed = time.perf_counter() - start
        assert isinstance(outcome.result, Compacted)
        stats = outcome.result.stats
        assert 0.45 < stats.records_kept / stats.records_read < 0.55, stats
        return stats.records_read / elapsed


def dirty_log(path: str) -> tuple[Cleaner, Plan]:
    config = LogConfig(compact=True, delete=False, segment_bytes=SEGMENT_BYTES)
    clock = SystemClock()
    directory = LogDirectory(LocalDisk(path), lambda _topic: config, clock, SeededRandom(1))
    directory.open()
    log = directory.create("bench", 0, bytes(16), 0)
    source = random.Random(7)
    keys = [source.randbytes(20) for _ in range(RECORDS // 2)] * 2
    source.shuffle(keys)
    now_ms = clock.now_ms()
    for start in range(0, RECORDS, RECORDS_PER_BATCH):
        batch = [
            Record(index, now_ms, key, source.randbytes(100), ())
            for index, key in enumerate(keys[start : start + RECORDS_PER_BATCH])
        ]
        log.append_as_leader(encode_batch(batch), 0, now_ms)
    log.roll(now_ms)
    log.advance_high_watermark(log.end_offset)
    cleaner = Cleaner([directory], CleanerConfig(), clock)
    plan = cleaner.next(now_ms)
    assert plan is not None
    return cleaner, plan


if __name__ == "__main__":
    main()
