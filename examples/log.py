"""A partition's log from Python: write, read, look up, stop, and come back."""

import sys
import tempfile
import time

from cordwood.log.config import LogConfig
from cordwood.log.recovery import OpenOptions, open_log
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.files.local_disk import LocalDisk
from cordwood.runtime.randomness import SeededRandom
from cordwood.wire.compression import Codec
from cordwood.wire.record import Record
from cordwood.wire.records import decode_batch, encode_batch

BATCHES, RECORDS_EACH = 2_000, 100


def main() -> None:
    root = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="cordwood-demo-")
    clock, random, config = SystemClock(), SeededRandom(), LogConfig(segment_bytes=4 << 20)
    log = open_log(LocalDisk(root), "orders-0", config, random, now_ms=clock.now_ms())

    started = time.perf_counter()
    for number in range(BATCHES):
        now_ms = clock.now_ms()
        records = [
            Record(index, now_ms, f"customer-{number % 100}".encode(), f"order {number}/{index}".encode())
            for index in range(RECORDS_EACH)
        ]
        log.append_as_leader(encode_batch(records, codec=Codec.LZ4), leader_epoch=0, now_ms=now_ms)
    seconds = time.perf_counter() - started
    print(f"wrote {log.end_offset:,} records in {seconds:.2f} s: {log.size:,} bytes in {len(log.segments)} segments")

    middle = log.end_offset // 2
    found = log.read(middle, 1 << 20, log.end_offset)
    assert found is not None
    record = next(record for record in decode_batch(found.read()) if record.offset == middle)
    print(f"offset {middle:,} is {record.value!r}, found at position {found.position:,} of {found.file.path}")

    # A process that is killed leaves its log like this: nothing was flushed or closed.
    killed = open_log(LocalDisk(root), "orders-0", config, random, now_ms=clock.now_ms())
    print(f"after a kill: {killed.end_offset:,} records, all checked")
    killed.close(clock.now_ms())
    options = OpenOptions(clean=True)
    again = open_log(LocalDisk(root), "orders-0", config, random, now_ms=clock.now_ms(), options=options)
    print(f"after a clean stop: {again.end_offset:,} records, none had to be looked at")
    print(f"look inside: cordwood log dump {root}/orders-0 --limit 2")


if __name__ == "__main__":
    main()
