"""The log on a real file system: appends, look-ups, and opening many partitions."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from cordwood.log.config import LogConfig
from cordwood.log.dirs.directory import LogDirectory
from cordwood.log.log import Log
from cordwood.log.recovery import open_log
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.files.local_disk import LocalDisk
from cordwood.runtime.randomness import SeededRandom
from cordwood.wire.record import Record
from cordwood.wire.records import encode_batch

ROUNDS = 7
# The machine may hand free memory back to its host, and a page cache write to such memory is ten times slower.
TOUCHED_BYTES = 1 << 30
PARTITIONS = 10_000


def main() -> None:
    directory = Path(tempfile.mkdtemp(prefix="cordwood-bench-"))
    try:
        appends(directory)
        lookups(directory)
        opening(directory)
    finally:
        shutil.rmtree(directory)


def appends(directory: Path) -> None:
    for size, count, target in ((16 << 10, 2_000, "≤ 25"), (1 << 20, 200, "")):
        template = batch_of(size)
        best = min(_timed_appends(directory / "appends", template, count) for _ in range(ROUNDS))
        if size == 16 << 10:
            show("append a 16 KiB batch", best * 1e6, "µs", target)
        else:
            show("append 1 MiB batches", len(template) / best / 1e9, "GB/s", "≥ 1")


def _timed_appends(directory: Path, template: bytearray, count: int) -> float:
    """Seconds an append; each batch is its own buffer, as it comes from a socket."""
    touched = bytearray(TOUCHED_BYTES)
    for position in range(0, TOUCHED_BYTES, 4096):
        touched[position] = 1
    del touched
    log = open_at(directory)
    log.append_as_leader(bytearray(template), 0, now_ms())
    batches = [bytearray(template) for _ in range(min(count, 50))]
    spent = 0.0
    for number in range(count):
        batch = batches[number % len(batches)]
        batch[:8] = bytes(8)
        started = time.perf_counter()
        log.append_as_leader(batch, 0, now_ms())
        spent += time.perf_counter() - started
    log.disk.close()
    shutil.rmtree(directory)
    return spent / count


def lookups(directory: Path) -> None:
    medians = {}
    for segments in (1_000, 10_000):
        log = open_at(directory / "lookups", LogConfig(segment_bytes=1 << 20))
        template = batch_of(4_500)
        while len(log.segments) < segments:
            for _ in range(4):
                log.append_as_leader(bytearray(template), 0, now_ms())
            log.roll(now_ms())
        source = Random(1)
        offsets = [source.randrange(log.end_offset) for _ in range(20_000)]
        best = min(_timed_lookups(log, offsets) for _ in range(ROUNDS))
        medians[segments] = best
        show(f"offset look-up, {segments:,} segments", best * 1e6, "µs", "≤ 15" if segments == 1_000 else "≤ 30")
        log.disk.close()
        shutil.rmtree(directory / "lookups")
    show("look-up, 10,000 to 1,000 segments", medians[10_000] / medians[1_000], "times", "≤ 2")


def _timed_lookups(log: Log, offsets: list[int]) -> float:
    started = time.perf_counter()
    for offset in offsets:
        log.read(offset, 1 << 20, log.end_offset)
    return (time.perf_counter() - started) / len(offsets)


def opening(directory: Path) -> None:
    """In a separate process, so that its memory is only what the partitions take."""
    root = directory / "many"
    make_partitions(root)
    results = []
    for _ in range(3):
        # A copy of the stopped directory each time would measure the copy: opening and stopping again keeps it.
        output = subprocess.run(
            [sys.executable, "-m", "bench.log", str(root)], capture_output=True, text=True, check=True
        ).stdout
        results.append([float(part) for part in output.split()])
    seconds, rss, descriptors = (min(values) for values in zip(*results, strict=True))
    show(f"open {PARTITIONS:,} cleanly stopped partitions", seconds, "s", "≤ 5")
    show("  memory of that process (RSS)", rss / 1e6, "MB", "≤ 250")
    show("  descriptors of that process", descriptors, "", "≤ 4096")


def make_partitions(root: Path) -> None:
    directory = log_directory(root)
    directory.open()
    batch = batch_of(1_000, producer_id=7)
    for number in range(PARTITIONS):
        log = directory.create(f"topic-{number // 10}", number % 10, number.to_bytes(16, "big"), now_ms())
        log.append_as_leader(bytearray(batch), 0, now_ms())
    directory.close()


def open_many(root: Path) -> None:
    started = time.perf_counter()
    directory = log_directory(root)
    directory.open()
    seconds = time.perf_counter() - started
    assert len(directory.logs) == PARTITIONS
    assert all(log.end_offset > 0 for log in directory.logs.values())
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(seconds, int(status["VmHWM"].split()[0]) * 1024, len(os.listdir("/proc/self/fd")))
    directory.close()


def log_directory(root: Path) -> LogDirectory:
    config = LogConfig()
    return LogDirectory(LocalDisk(str(root)), lambda _topic: config, SystemClock(), SeededRandom(1))


def open_at(directory: Path, config: LogConfig | None = None) -> Log:
    return open_log(LocalDisk(str(directory)), "t-0", config or LogConfig(), SeededRandom(1), now_ms=now_ms())


def batch_of(size: int, producer_id: int = -1) -> bytearray:
    """A batch of about `size` bytes, of 100-byte values."""
    count = max(1, (size - 61) // 112)
    records = [Record(offset, now_ms(), None, bytes(100), ()) for offset in range(count)]
    is_idempotent = producer_id >= 0
    return encode_batch(
        records,
        producer_id=producer_id,
        producer_epoch=0 if is_idempotent else -1,
        base_sequence=0 if is_idempotent else -1,
    )


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def show(name: str, value: float, unit: str, target: str) -> None:
    print(f"{name:<45} {value:10.2f} {unit:<6} ({target})", flush=True)


if __name__ == "__main__":
    open_many(Path(sys.argv[1]))
