"""Iterates over a segment file batch by batch, with few and bounded reads."""

import struct
from collections.abc import Iterator

from cordwood.runtime.disk import File
from cordwood.wire.batch_header import BATCH_HEADER_SIZE, LOG_OVERHEAD, BatchHeader, read_header
from cordwood.wire.record import CorruptBatch

# Covers an index interval (4096 by default) and the header that follows it.
_SCAN_WINDOW_BYTES = 8_192
_CHUNK_BYTES = 1 << 20
_SIZE = struct.Struct(">i")


def headers(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """The headers of the batches between two positions, without reading their records. Raises CorruptBatch unless they
    are whole up to the end, so that damage is never mistaken for the end of the data."""
    if not 0 <= position <= end:
        raise CorruptBatch(f"position {position} is not within {end} bytes")
    window_start, window = position, b""
    while position < end:
        at = position - window_start
        if at + BATCH_HEADER_SIZE > len(window):
            window_start = position
            window = file.read(position, min(_SCAN_WINDOW_BYTES, end - position))
            at = 0
        header = read_header(window, at)
        if position + header.size > end:
            raise CorruptBatch(f"torn batch: {header.size} bytes declared, {end - position} available at {position}")
        yield position, header
        position += header.size


def whole_batches(
    file: File, position: int, end: int, chunk_bytes: int = _CHUNK_BYTES
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """The whole batches between two positions with their bytes; raises CorruptBatch where the framing breaks.

    Also raises for a batch cut short by `end`: callers that scan a whole file need to know of a torn tail.
    """
    while position < end:
        chunk = memoryview(file.read(position, min(max(chunk_bytes, BATCH_HEADER_SIZE), end - position)))
        at = 0
        while at < len(chunk):
            remaining = end - position
            if len(chunk) - at < min(BATCH_HEADER_SIZE, remaining):
                break
            if remaining <= LOG_OVERHEAD:
                raise CorruptBatch(f"torn batch: {remaining} bytes at position {position}")
            size = _SIZE.unpack_from(chunk, at + 8)[0] + LOG_OVERHEAD
            if size > remaining:
                raise CorruptBatch(f"torn batch: {size} bytes declared, {remaining} available at position {position}")
            if at + size > len(chunk) and size > LOG_OVERHEAD:
                if at:
                    break
                chunk = memoryview(file.read(position, size))
            header = read_header(chunk, at)
            yield position, header, chunk[at : at + header.size]
            at += header.size
            position += header.size
        if not at:
            raise CorruptBatch(f"torn batch: the file ends before position {end}, where it should")
