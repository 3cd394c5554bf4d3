"""Helpers of the log's tests: batches as a client sends them, and a log on any disk."""

from collections.abc import Sequence
from pathlib import Path

from cordwood.log.config import LogConfig
from cordwood.log.log import Log
from cordwood.log.recovery import OpenOptions, open_log
from cordwood.runtime.disk import Disk
from cordwood.runtime.files.local_disk import LocalDisk
from cordwood.runtime.randomness import SeededRandom
from cordwood.wire.batch_header import batch_headers, whole_batches_length
from cordwood.wire.compression import Codec
from cordwood.wire.record import Record
from cordwood.wire.records import decode_batch, encode_batch

NOW = 1_700_000_000_000


def batch(
    *values: str,
    keys: Sequence[str | None] | None = None,
    timestamp: int = NOW,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
) -> bytearray:
    """A batch as a producer sends it: offsets from 0."""
    records = [
        Record(index, timestamp, None if keys is None else _bytes(keys[index]), value.encode(), ())
        for index, value in enumerate(values)
    ]
    return encode_batch(
        records,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def open_at(
    disk: Disk | Path,
    config: LogConfig | None = None,
    *,
    clean: bool = False,
    recovery_point: int = 0,
    start_offset: int = 0,
    now_ms: int = NOW,
) -> Log:
    options = OpenOptions(clean=clean, recovery_point=recovery_point, start_offset=start_offset)
    opened = LocalDisk(str(disk)) if isinstance(disk, Path) else disk
    return open_log(opened, "t-0", config or LogConfig(), SeededRandom(1), now_ms=now_ms, options=options)


def read_all(log: Log, offset: int | None = None, max_offset: int | None = None) -> list[Record]:
    """Every record a reader sees from an offset on, fetched as a client does, in many small reads."""
    offset = log.start_offset if offset is None else offset
    end = log.end_offset if max_offset is None else max_offset
    records: list[Record] = []
    while offset < end:
        found = log.read(offset, 1000, end)
        if found is None:
            break
        data = found.read()
        for position, header in batch_headers(data[: whole_batches_length(data)]):
            if header.count > 0:
                records += [record for record in decode_batch(data, position) if record.offset >= offset]
            next_offset = header.next_offset
        offset = next_offset
    return records


def values(log: Log) -> list[str]:
    return [(record.value or b"").decode() for record in read_all(log)]
