# cython: language_level=3, annotation_typing=False
"""A batch that a producer fills record by record, and its sealed form.

One of the compiled modules (see `records`). Each record is written once, into the buffer that goes to the broker. (100
bytes: 0.15 µs.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cordwood.wire.batch_header import CODEC_BITS, TRANSACTIONAL_BIT, read_header
from cordwood.wire.compression import Codec
from cordwood.wire.record import NO_TIMESTAMP, Record
from cordwood.wire.record_stream import RecordWriter
from cordwood.wire.records import decode_batch, seal

FULL = -1
"""Returned by `append` instead of an index if the record does not fit."""


class BatchBuilder:
    """Accepts records until the batch would exceed `limit` bytes before compression. The first record may have any
    size."""

    limit: int
    writer: RecordWriter
    base_timestamp: int

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.writer = RecordWriter()
        self.writer.bound(limit)
        self.base_timestamp = NO_TIMESTAMP

    @property
    def count(self) -> int:
        return self.writer.count

    @property
    def size(self) -> int:
        """Bytes of the batch, header included."""
        return self.writer.size()

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] | None,
    ) -> int:
        """Returns the record's index in the batch, or FULL if nothing was written."""
        writer = self.writer
        if timestamp < NO_TIMESTAMP:
            raise ValueError(f"negative timestamp {timestamp}")
        encoded = _encoded(headers) if headers else ()
        index = writer.count
        size = writer.rest_size(key, value, encoded)
        if index > 0 and writer.size_with(size) > self.limit:
            return FULL
        if index == 0:
            self.base_timestamp = timestamp
        writer.start(timestamp, self.base_timestamp, index, size)
        writer.rest(key, value, encoded)
        return index

    def seal(self, codec: Codec = Codec.NONE, level: int | None = None) -> SealedBatch:
        """Compresses the records. The builder must not be used afterwards."""
        count = self.writer.count
        if count == 0:
            raise ValueError("a batch needs a record")
        return SealedBatch(
            seal(
                self.writer.batch(),
                base_offset=0,
                last_offset_delta=count - 1,
                leader_epoch=-1,
                attributes=0,
                base_timestamp=self.base_timestamp,
                max_timestamp=self.writer.max_timestamp,
                producer_id=-1,
                producer_epoch=-1,
                base_sequence=-1,
                count=count,
                codec=codec,
                level=level,
            )
        )


class SealedBatch:
    """A complete batch that can be stamped for a producer any number of times; its records never change."""

    def __init__(self, batch: bytearray) -> None:
        self._batch = batch
        header = read_header(batch)
        self.count: int = header.count
        self.size: int = header.size
        self._stamp: tuple[int, int, int, bool] = (
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.is_transactional,
        )
        self._is_shared = False

    def stamped(
        self, producer_id: int = -1, producer_epoch: int = -1, base_sequence: int = -1, transactional: bool = False
    ) -> bytearray:
        """Returns the batch stamped for a producer. Batches returned earlier never change, because they may be in
        flight."""
        wanted = (producer_id, producer_epoch, base_sequence, transactional)
        if wanted != self._stamp:
            batch = bytearray(self._batch) if self._is_shared else self._batch
            header = read_header(batch)
            self._batch = seal(
                batch,
                base_offset=header.base_offset,
                last_offset_delta=header.last_offset_delta,
                leader_epoch=header.leader_epoch,
                attributes=header.attributes & CODEC_BITS | (TRANSACTIONAL_BIT if transactional else 0),
                base_timestamp=header.base_timestamp,
                max_timestamp=header.max_timestamp,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=base_sequence,
                count=header.count,
            )
            self._stamp = wanted
        self._is_shared = True
        return self._batch

    def records(self) -> list[Record]:
        return decode_batch(self._batch)


def _encoded(headers: Any) -> Sequence[tuple[bytes, bytes | None]]:
    return [(name.encode(), content) for name, content in headers]
