# cython: language_level=3, annotation_typing=False
"""Batch headers: reading, finding the next batch, checking the checksum, stamping.

One of the compiled modules (see `records`). A batch of magic 2 is a 61-byte header and the records, compressed
together. The checksum covers everything from the attributes on, so a leader can stamp the base offset and its epoch,
which come before, without recomputing it. Messages of magic 0 and 1 are framed alike: each is a batch of one record, or
of the records that its value holds compressed.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

from cordwood.wire.checksum import crc32c
from cordwood.wire.compression import Codec
from cordwood.wire.record import Buffer, CorruptBatch, InvalidRecord

try:
    import cython  # type: ignore[import-untyped]
except ImportError:
    from cordwood.wire import interpreted as cython

if cython.compiled:
    from cython.cimports.cpython.buffer import (  # type: ignore[import-untyped]
        Py_buffer,
        PyBUF_SIMPLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )

LOG_OVERHEAD = 12
"""Bytes of the base offset and the length, which every magic has."""
BATCH_HEADER_SIZE = 61

MAGIC_POSITION = 16
CRC_POSITION = 17
ATTRIBUTES_POSITION = 21
LEGACY_CHECKSUMMED_POSITION = 16

CODEC_BITS = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_START = struct.Struct(">qii")


class BatchHeader:
    """The fields of a batch's header. Magic 0 and 1 have no count (-1), leader epoch or producer (-1)."""

    base_offset: int
    size: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == -1:
            return -1
        # Compute the distance from 2^31, where sequence numbers wrap: the sum may not fit into 32 bits in C.
        beyond = self.last_offset_delta - (2**31 - self.base_sequence)
        return beyond if beyond >= 0 else self.base_sequence + self.last_offset_delta

    @property
    def codec(self) -> Codec:
        if self.attributes & CODEC_BITS > 4:
            raise InvalidRecord(f"unknown compression codec {self.attributes & CODEC_BITS}")
        return Codec(self.attributes & CODEC_BITS)

    @property
    def is_compressed(self) -> bool:
        return self.attributes & CODEC_BITS != 0

    @property
    def is_log_append_time(self) -> bool:
        return self.magic > 0 and self.attributes & LOG_APPEND_TIME_BIT != 0

    @property
    def is_transactional(self) -> bool:
        return self.magic == 2 and self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.magic == 2 and self.attributes & CONTROL_BIT != 0

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > -1

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop the tombstones and markers of this batch; stored in place of the base timestamp."""
        return self.base_timestamp if self.magic == 2 and self.attributes & DELETE_HORIZON_BIT else None

    def __repr__(self) -> str:
        return (
            f"BatchHeader(magic={self.magic}, offsets={self.base_offset}..{self.last_offset}, size={self.size}, "
            f"count={self.count}, attributes={self.attributes:#06x}, leader_epoch={self.leader_epoch}, "
            f"producer={self.producer_id}/{self.producer_epoch}, base_sequence={self.base_sequence}, "
            f"max_timestamp={self.max_timestamp})"
        )


def read_header(data: Buffer, position: int = 0) -> BatchHeader:
    """Returns the header at `position`. Only the header's bytes have to be available, not the whole batch."""
    header = _header_at(data, position, False)
    if header is None:
        raise CorruptBatch(
            f"{max(len(data) - position, 0)} bytes at position {position} are too few for a batch header"
        )
    return header


def batch_headers(data: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Yields the position and header of each whole batch; stops at a torn one. Bad framing raises CorruptBatch."""
    while header := _header_at(data, position, True):
        yield position, header
        position += header.size


def whole_batches_length(data: Buffer) -> int:
    """Returns the position at which the whole batches of `data` end."""
    position = 0
    while header := _header_at(data, position, True):
        position += header.size
    return position


def check_crc(data: Buffer, header: BatchHeader, position: int = 0) -> None:
    """Raises CorruptBatch unless the whole batch is available and its checksum matches."""
    checked = ATTRIBUTES_POSITION if header.magic == 2 else LEGACY_CHECKSUMMED_POSITION
    contents = batch_bytes(data, position, header)[checked:]
    computed = crc32c(contents) if header.magic == 2 else zlib.crc32(contents)
    if computed != header.crc:
        raise CorruptBatch(
            f"batch at offset {header.base_offset}: stored checksum {header.crc:#010x}, computed {computed:#010x}"
        )


def stamp(data: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Writes the leader's base offset and epoch into a batch of magic 2, in place; the checksum does not cover them."""
    struct.pack_into(">q", data, position, base_offset)
    struct.pack_into(">i", data, position + LOG_OVERHEAD, leader_epoch)


def stamp_known(data: memoryview, header: BatchHeader, base_offset: int, leader_epoch: int) -> BatchHeader:
    """Like `stamp`, for a batch at the start of `data` whose header is known; updates the header too."""
    HEADER_START.pack_into(data, 0, base_offset, header.size - LOG_OVERHEAD, leader_epoch)
    header.base_offset = base_offset
    header.leader_epoch = leader_epoch
    return header


def stamp_max_timestamp(data: bytearray | memoryview, position: int, max_timestamp: int, log_append_time: bool) -> None:
    """Writes the maximum timestamp and the timestamp type into a batch of magic 2, in place, and its new checksum."""
    header = read_header(data, position)
    if header.is_log_append_time == log_append_time and header.max_timestamp == max_timestamp:
        return
    batch = batch_bytes(data, position, header)
    attributes = header.attributes & ~LOG_APPEND_TIME_BIT | (LOG_APPEND_TIME_BIT if log_append_time else 0)
    struct.pack_into(">h", batch, ATTRIBUTES_POSITION, attributes)
    struct.pack_into(">q", batch, 35, max_timestamp)
    struct.pack_into(">I", batch, CRC_POSITION, crc32c(batch[ATTRIBUTES_POSITION:]))


def batch_bytes(data: Buffer, position: int, header: BatchHeader) -> memoryview:
    batch = memoryview(data)[position : position + header.size]
    if len(batch) < header.size:
        raise CorruptBatch(
            f"batch at offset {header.base_offset} is cut: {len(batch)} bytes of the {header.size} it should have"
        )
    return batch


def _header_at(data: Any, position: int, whole: bool) -> BatchHeader | None:
    """Returns the header at `position`, or None if it (with `whole`: the batch) is incomplete."""
    if cython.compiled:
        # A third of the cost of a typed memoryview, which matters when scanning small batches.
        buffer = cython.declare(Py_buffer)
        PyObject_GetBuffer(data, cython.address(buffer), PyBUF_SIMPLE)
        try:
            header = _parse(cython.cast(cython.p_const_uchar, buffer.buf), buffer.len, position, whole)
        finally:
            PyBuffer_Release(cython.address(buffer))
    else:
        header = _parse(memoryview(data), len(data), position, whole)
    return header


def _parse(data: Any, length: int, position: int, whole: bool) -> BatchHeader | None:
    if position < 0:
        raise ValueError(f"negative position {position}")
    remaining = length - position
    if remaining < 12:
        return None
    size = 12 + _int32(data, position + 8)
    if size < 26:
        raise CorruptBatch(f"a batch of {size} bytes at position {position}: smaller than the smallest batch")
    if remaining <= MAGIC_POSITION:
        return None
    magic = data[position + MAGIC_POSITION]
    if magic > 2:
        raise CorruptBatch(f"unknown magic {magic} at position {position}")
    if size < (61 if magic == 2 else 26 + 8 * magic):  # messages without key and value; magic 1 has a timestamp
        raise CorruptBatch(f"a batch of {size} bytes at position {position}: too small for magic {magic}")
    if remaining < (size if whole else 61 if magic == 2 else 18 + 8 * magic):
        return None
    header = BatchHeader.__new__(BatchHeader)
    header.size = size
    header.magic = magic
    if magic == 2:
        _fill(header, data, position)
    else:
        _fill_legacy(header, data, position)
    return header


def _fill(header: BatchHeader, data: Any, position: int) -> None:
    if cython.compiled:
        header.base_offset = _int64(data, position)
        header.leader_epoch = _int32(data, position + 12)
        header.crc = _int32(data, position + 17)
        header.attributes = _int16(data, position + 21)
        header.last_offset_delta = _int32(data, position + 23)
        header.base_timestamp = _int64(data, position + 27)
        header.max_timestamp = _int64(data, position + 35)
        header.producer_id = _int64(data, position + 43)
        header.producer_epoch = _int16(data, position + 51)
        header.base_sequence = _int32(data, position + 53)
        header.count = _int32(data, position + 57)
    else:
        (
            header.base_offset,
            _,
            header.leader_epoch,
            _,
            header.crc,
            header.attributes,
            header.last_offset_delta,
            header.base_timestamp,
            header.max_timestamp,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.count,
        ) = HEADER.unpack_from(data, position)


def _fill_legacy(header: BatchHeader, data: Any, position: int) -> None:
    header.base_offset = _int64(data, position)
    header.leader_epoch = -1
    header.crc = _int32(data, position + 12) & 0xFFFFFFFF
    header.attributes = data[position + 17]
    header.last_offset_delta = 0
    header.max_timestamp = _int64(data, position + 18) if header.magic == 1 else -1
    header.base_timestamp = header.max_timestamp
    header.producer_id = -1
    header.producer_epoch = -1
    header.base_sequence = -1
    header.count = -1


def _int16(data: Any, position: int) -> int:
    return _int32(data, position) >> 16


def _int32(data: Any, position: int) -> int:
    number = data[position] << 24 | data[position + 1] << 16 | data[position + 2] << 8 | data[position + 3]
    signed: int = cython.cast(cython.int, number) if cython.compiled else (number ^ 0x80000000) - 0x80000000
    return signed


def _int64(data: Any, position: int) -> int:
    return _int32(data, position) << 32 | (_int32(data, position + 4) & 0xFFFFFFFF)
