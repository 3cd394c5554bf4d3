"""The small files of a log directory: producer snapshots, checkpoints, properties.

Files that grow with the number of producers or partitions are read in pieces.
"""

import json
import struct
from collections.abc import Iterator
from typing import Any

from cordwood.runtime.files.read_only import ReadOnlyFile
from cordwood.wire.checksum import crc32c

Described = Iterator[dict[str, Any]]

_MAX_SMALL_BYTES = 1 << 20
_MAX_LINE_BYTES = 1 << 16
_SNAPSHOT_VERSION = 1
_SNAPSHOT_START = struct.Struct(">hIi")
# Producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, first offset of its
# open transaction.
_PRODUCER = struct.Struct(">qhiqiqiq")
_CHECKSUMMED_POSITION = 6
_PRODUCERS_AT_A_TIME = 10_000


def dump_producers(file: ReadOnlyFile) -> Described:
    start = file.read(0, _SNAPSHOT_START.size)
    if len(start) < _SNAPSHOT_START.size:
        yield _problem(f"{len(start)} bytes are too few for a producer snapshot")
        return
    version, stored_crc, count = _SNAPSHOT_START.unpack(start)
    if version != _SNAPSHOT_VERSION:
        yield _problem(f"a producer snapshot of version {version}: expected version {_SNAPSHOT_VERSION}")
        return
    checksum = crc32c(start[_CHECKSUMMED_POSITION:])
    found = 0
    for chunk in file.chunks(_SNAPSHOT_START.size, _PRODUCER.size * _PRODUCERS_AT_A_TIME):
        checksum = crc32c(chunk, checksum)
        whole = len(chunk) - len(chunk) % _PRODUCER.size
        for entry in _PRODUCER.iter_unpack(memoryview(chunk)[:whole]):
            found += 1
            yield {"type": "producer"} | _producer(*entry)
        if whole != len(chunk):
            yield _problem(f"{len(chunk) - whole} bytes too many: an entry has {_PRODUCER.size}")
    if found != count:
        yield _problem(f"{count} producers declared, {found} found")
    if checksum != stored_crc:
        yield _problem(f"stored checksum {stored_crc:#010x}, computed {checksum:#010x}")


def _producer(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    txn_first_offset: int,
) -> dict[str, Any]:
    batch = {"lastSeq": last_sequence, "lastOffset": last_offset, "offsetDelta": offset_delta, "timestamp": timestamp}
    has_data = last_offset >= 0
    return {
        "producerId": producer_id,
        "epoch": epoch,
        "coordinatorEpoch": coordinator_epoch,
        "lastTimestamp": timestamp,
        "firstDataOffset": last_offset - offset_delta if has_data else -1,
        "lastDataOffset": last_offset,
        "currentTxnFirstOffset": txn_first_offset,
        "batches": [batch] if has_data else [],
    }


def dump_offsets(file: ReadOnlyFile) -> Described:
    """Reads an offset checkpoint: `topic partition offset` per line."""
    for number, line in _table(file):
        topic, _, rest = line.partition(" ")
        partition, _, offset = rest.partition(" ")
        if _is_integer(partition) and _is_integer(offset):
            yield {"type": "checkpoint", "topic": topic, "partition": int(partition), "offset": int(offset)}
        else:
            yield _problem(f"line {number} is {line!r}, not topic, partition and offset")


def dump_epochs(file: ReadOnlyFile) -> Described:
    previous = (-1, -1)
    for number, line in _table(file):
        epoch, _, offset = line.partition(" ")
        if not (_is_integer(epoch) and _is_integer(offset)):
            yield _problem(f"line {number} is {line!r}, not an epoch and its start offset")
            continue
        yield {"type": "leaderEpoch", "epoch": int(epoch), "startOffset": int(offset)}
        if int(epoch) <= previous[0] or int(offset) < previous[1]:
            yield _problem(f"line {number} is {line!r}, which does not follow {previous[0]} {previous[1]}")
        previous = int(epoch), int(offset)


def _table(file: ReadOnlyFile) -> Iterator[tuple[int, str]]:
    """Yields the rows of a checkpoint (after its version and count) by line number. Raises ValueError if the file is no
    checkpoint."""
    lines = _lines(file)
    version, count = next(lines, ""), next(lines, "")
    if version != "0" or not count.isdigit():
        raise ValueError(f"expected a checkpoint of version 0 and a count, found {version!r} and {count!r}")
    found = 0
    for found, line in enumerate(lines, start=1):
        yield found + 2, line
    if found != int(count):
        raise ValueError(f"{count} rows declared, {found} found")


def _lines(file: ReadOnlyFile) -> Iterator[str]:
    rest = b""
    for chunk in file.chunks(length=_MAX_LINE_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode()
        if len(rest) > _MAX_LINE_BYTES:
            raise ValueError(f"a line of more than {_MAX_LINE_BYTES} bytes")
    if rest:
        yield rest.decode()


def dump_properties(file: ReadOnlyFile) -> Described:
    """Reads `key=value` or `key: value` lines: meta.properties, partition.metadata."""
    properties = {}
    for line in _small(file).decode().splitlines():
        if line.strip() and not line.lstrip().startswith(("#", "!")):
            key, separator, value = line.partition("=") if "=" in line else line.partition(":")
            if not separator:
                raise ValueError(f"{line!r} is not a key and a value")
            properties[key.strip()] = value.strip()
    if "version" not in properties:
        raise ValueError(f"no version in {sorted(properties)}")
    yield {"type": "properties", "properties": properties}


def dump_json(file: ReadOnlyFile) -> Described:
    """Reads quorum-state and the clean-shutdown marker, which is empty in older versions."""
    data = _small(file)
    yield {"type": "properties", "properties": json.loads(data) if data.strip() else {}}


def _small(file: ReadOnlyFile) -> bytes:
    if file.size > _MAX_SMALL_BYTES:
        raise ValueError(f"{file.size} bytes are more than such a file has")
    return file.read(0, file.size)


def _is_integer(text: str) -> bool:
    return text.removeprefix("-").isdigit()


def _problem(reason: str) -> dict[str, Any]:
    return {"type": "problem", "reason": reason}
