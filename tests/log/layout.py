"""Kafka's file formats read by hand, from their documentation: nothing here comes from the code under test."""

import json
import struct
from collections.abc import Iterator
from typing import NamedTuple

BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")
OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")
TXN_ENTRY = struct.Struct(">hqqqq")
SNAPSHOT_START = struct.Struct(">hIi")
SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
# The size field counts what follows it; the checksum covers what follows it.
SIZED_FROM, CHECKSUMMED_FROM, SNAPSHOT_CHECKSUMMED_FROM = 12, 21, 6
CRC32C_POLYNOMIAL = 0x82F63B78


class Batch(NamedTuple):
    position: int
    size: int
    base_offset: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    data: bytes


class Txn(NamedTuple):
    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class ProducerEntry(NamedTuple):
    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    txn_first_offset: int


def read_segment(data: bytes) -> list[Batch]:
    """Every batch up to the last byte, its checksum checked."""
    return list(_batches(data))


def _batches(data: bytes) -> Iterator[Batch]:
    position = 0
    while position < len(data):
        (
            base_offset,
            length,
            leader_epoch,
            magic,
            crc,
            attributes,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            count,
        ) = BATCH_HEADER.unpack_from(data, position)
        size = SIZED_FROM + length
        batch = data[position : position + size]
        assert len(batch) == size, f"torn at {position}"
        assert crc32c(batch[CHECKSUMMED_FROM:]) == crc, f"checksum at {position}"
        yield Batch(
            position,
            size,
            base_offset,
            leader_epoch,
            magic,
            crc,
            attributes,
            base_offset + last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            count,
            batch,
        )
        position += size


def read_offset_index(data: bytes, base_offset: int) -> list[tuple[int, int]]:
    """(offset, position)"""
    return [(base_offset + relative, position) for relative, position in OFFSET_ENTRY.iter_unpack(data)]


def read_time_index(data: bytes, base_offset: int) -> list[tuple[int, int]]:
    """(timestamp, offset)"""
    return [(timestamp, base_offset + relative) for timestamp, relative in TIME_ENTRY.iter_unpack(data)]


def read_txn_index(data: bytes) -> list[Txn]:
    return [Txn(*entry) for entry in TXN_ENTRY.iter_unpack(data)]


def read_producer_snapshot(data: bytes) -> list[ProducerEntry]:
    version, crc, count = SNAPSHOT_START.unpack_from(data)
    assert version == 1
    assert crc == crc32c(data[SNAPSHOT_CHECKSUMMED_FROM:])
    entries = [ProducerEntry(*entry) for entry in SNAPSHOT_ENTRY.iter_unpack(data[SNAPSHOT_START.size :])]
    assert len(entries) == count
    return entries


def read_table(text: str) -> list[list[str]]:
    """A checkpoint: version 0, the number of rows, the rows, each line ended."""
    version, count, *rows, end = text.split("\n")
    assert (version, end) == ("0", "")
    assert int(count) == len(rows)
    return [row.split(" ") for row in rows]


def read_partition_metadata(text: str) -> str:
    """The topic id."""
    version, topic_id = text.split("\n")
    assert version == "version: 0"
    return topic_id.removeprefix("topic_id: ")


def read_properties(text: str) -> dict[str, str]:
    """Java's properties, as far as meta.properties uses them."""
    assert text.endswith("\n")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {key: value for key, _, value in (line.partition("=") for line in lines)}


def read_clean_shutdown(text: str) -> int:
    """The broker epoch."""
    marker = json.loads(text)
    assert marker["version"] == 0
    return int(marker["brokerEpoch"])


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _table_entry(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (CRC32C_POLYNOMIAL if byte & 1 else 0)
    return byte


_CRC_TABLE = [_table_entry(byte) for byte in range(256)]
