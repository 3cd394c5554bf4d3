"""Rates of the compiled modules: batches of 10,000 records with values of 100 bytes and no key."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from timeit import Timer

from cordwood.wire.arrow import from_arrow, to_arrow
from cordwood.wire.compression import Codec, compress, decompress
from cordwood.wire.record import Record
from cordwood.wire.record_checks import scan_records
from cordwood.wire.records import (
    batch_headers,
    check_crc,
    decode_batch,
    encode_batch,
    filter_batch,
    read_header,
    record_keys,
)

ROUNDS = 25
COUNT = 10_000
BATCHES = 10
LIMIT = 1 << 28
T0 = 1_700_000_000_000


def main() -> None:
    records = [Record(offset, T0 + offset, None, b"x" * 100, ()) for offset in range(COUNT)]
    batch = bytes(encode_batch(records))
    header = read_header(batch)
    show_rate("decode to Arrow columns", COUNT * BATCHES, partial(to_arrow, batch * BATCHES), 8)
    show_rate("decode to Python tuples", COUNT, partial(decode_batch, batch), 1.5)
    table = to_arrow(batch * BATCHES)
    encode = partial(from_arrow, table["value"], None, table["timestamp"])
    show_rate("encode from Arrow columns", COUNT * BATCHES, encode, 5)
    show_rate("encode from Python tuples", COUNT, partial(encode_batch, records))
    any_time = {"min_timestamp": 0, "max_timestamp": 2**62, "limit": LIMIT}
    show_rate("scan_records", COUNT, partial(scan_records, batch, 0, header, key_required=False, **any_time))
    show_rate("record_keys", COUNT, partial(record_keys, batch, 0, header, limit=LIMIT))
    half = bytes([1, 0]) * (COUNT // 2)
    thin_out = partial(filter_batch, batch, 0, header, half, delete_horizon_ms=T0, limit=LIMIT)
    show_rate("filter_batch, every other record kept", COUNT, thin_out)

    small = bytes(encode_batch(records[:1])) * 1000
    show_time("read_header", 1, partial(read_header, batch))
    show_time("batch_headers, each", 1000, lambda: [None for _ in batch_headers(small)])
    show_time("check_crc of 1 MiB", 1, partial(check_crc, batch, header))
    for codec in Codec:
        if codec:
            show_codec(codec)


def show_codec(codec: Codec) -> None:
    contents = b"".join(b'{"id": %d, "order": "%x", "paid": true}' % (i, i * i) for i in range(25_000))
    packed = compress(codec, contents)
    ratio = len(contents) / len(packed)
    megabytes = len(contents) / 1e6
    name = codec.name.lower()
    show(f"compress {name} (to 1/{ratio:.1f})", megabytes / best(partial(compress, codec, contents)), "MB/s")
    show(f"decompress {name}", megabytes / best(partial(decompress, codec, packed, LIMIT)), "MB/s")


def show_rate(name: str, count: int, work: Callable[[], object], target: float | None = None) -> None:
    show(name, count / best(work) / 1e6, "M records/s", "" if target is None else f"(≥ {target} M records/s)")


def show_time(name: str, count: int, work: Callable[[], object]) -> None:
    show(name, best(work, calls=max(1000 // count, 1)) / count * 1e6, "µs")


def show(name: str, value: float, unit: str, target: str = "") -> None:
    print(f"{name:<40} {value:8.2f} {unit}  {target}".rstrip())


def best(work: Callable[[], object], calls: int = 1) -> float:
    """Best of several rounds: other work on the machine only ever adds to it."""
    work()
    gc.disable()
    seconds = min(Timer(work).repeat(ROUNDS, calls)) / calls
    gc.enable()
    return seconds


if __name__ == "__main__":
    main()
