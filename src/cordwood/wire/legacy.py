"""Messages of magic 0 and 1: reading them, and converting them to batches of magic 2.

A message is framed like a batch: offset, size, checksum, magic, attributes, (magic 1) timestamp, key, value. A
compressed message holds a whole message set in its value. Such a wrapper has the offset of its last message; inside,
magic 0 has absolute offsets and magic 1 relative ones. Brokers have not written these formats since 2017, but
directories may still contain them.
"""

from __future__ import annotations

import struct
import zlib

from cordwood.wire import records
from cordwood.wire.compression import Codec, DecompressionError, decompress
from cordwood.wire.record import NO_TIMESTAMP, Buffer, CorruptBatch, InvalidRecord, Record
from cordwood.wire.records import DECOMPRESSED_LIMIT_BYTES, BatchHeader

_FIXED_SIZES = (18, 26)
"""Bytes before the key, for magic 0 and 1."""


def decode(batch: Buffer, header: BatchHeader, limit: int = DECOMPRESSED_LIMIT_BYTES) -> list[Record]:
    """Returns the records of one message, which is exactly `batch`: the inner ones, or itself."""
    if not header.is_compressed:
        return [_read(memoryview(batch), header, header.max_timestamp)]
    return _unwrap(memoryview(batch), header, limit)


def upconvert(data: Buffer, *, limit: int = DECOMPRESSED_LIMIT_BYTES) -> bytearray:
    """Converts a message set to batches of magic 2: one per wrapper, and one per run of bare messages between them.

    Offsets, timestamps and codecs are preserved. Batches of magic 2 are copied unchanged.
    """
    converted = bytearray()
    run: list[Record] = []
    run_header: BatchHeader | None = None
    for position, header in records.batch_headers(data):
        if run_header is not None and not _continues(run_header, run, header):
            converted += convert(run, run_header)
            run, run_header = [], None
        batch = memoryview(data)[position : position + header.size]
        if header.magic == 2:
            converted += batch
            continue
        records.check_crc(batch, header)
        run += decode(batch, header, limit)
        run_header = header
    if run_header is not None:
        converted += convert(run, run_header)
    return converted


def convert(contents: list[Record], header: BatchHeader) -> bytearray:
    """Encodes the records of a message with this header as a batch of magic 2."""
    log_append_time = header.max_timestamp if header.is_log_append_time else None
    try:
        return records.encode_batch(contents, codec=header.codec, log_append_time=log_append_time)
    except ValueError as error:  # offsets or times that only the old formats allow
        raise InvalidRecord(f"message at offset {header.base_offset}: {error}") from error


def encode_message(
    magic: int,
    offset: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    *,
    codec: Codec = Codec.NONE,
    is_log_append_time: bool = False,
) -> bytes:
    """Encodes one message; a wrapper if `codec` says that `value` is a compressed message set."""
    attributes = codec | (0x08 if is_log_append_time else 0)
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic == 1 else b"")
    for field in (key, value):
        body += struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def _continues(run_header: BatchHeader, run: list[Record], header: BatchHeader) -> bool:
    """Returns whether a message joins the preceding batch: bare, of the same kind, and with a later offset."""
    return (
        header.magic == run_header.magic
        and not header.is_compressed
        and not run_header.is_compressed
        and header.is_log_append_time == run_header.is_log_append_time
        and (not header.is_log_append_time or header.max_timestamp == run_header.max_timestamp)
        and run[-1].offset < header.base_offset <= run[0].offset + 2**31 - 1
    )


def _unwrap(wrapper: memoryview, header: BatchHeader, limit: int) -> list[Record]:
    codec = header.codec
    if codec is Codec.ZSTD:
        raise InvalidRecord(f"zstd in a message of magic {header.magic}, which never had it")
    compressed = _read(wrapper, header, header.max_timestamp).value
    if compressed is None:
        raise InvalidRecord("a compressed message without a value")
    try:
        inner = decompress(codec, compressed, limit, ignore_lz4_header_checksum=header.magic == 0)
    except DecompressionError as error:
        raise InvalidRecord(f"message at offset {header.base_offset}: {error}") from error

    messages = []
    for position, inner_header in records.batch_headers(inner):
        if inner_header.magic > 1 or inner_header.is_compressed:
            raise InvalidRecord("an inner message is compressed or has a newer magic")
        message = memoryview(inner)[position : position + inner_header.size]
        records.check_crc(message, inner_header)
        # A broker that assigns its own timestamps writes them to the wrapper only.
        is_stamped = header.is_log_append_time and inner_header.magic == 1
        timestamp = header.max_timestamp if is_stamped else inner_header.max_timestamp
        messages.append(_read(message, inner_header, timestamp))
    if not messages:
        raise InvalidRecord("a compressed message without messages inside")
    if header.magic == 0:
        return messages
    return _with_absolute_offsets(messages, header.base_offset)


def _with_absolute_offsets(messages: list[Record], wrapper_offset: int) -> list[Record]:
    last = messages[-1].offset
    # Some librdkafka versions sent wrappers with offset 0.
    if wrapper_offset < last and wrapper_offset != 0:
        raise InvalidRecord(f"a wrapper at offset {wrapper_offset} around a message at {last}")
    base = 0 if wrapper_offset == 0 else wrapper_offset - last
    return [message._replace(offset=base + message.offset) for message in messages]


def _read(message: memoryview, header: BatchHeader, timestamp: int) -> Record:
    key, position = _field(message, _FIXED_SIZES[header.magic])
    value, position = _field(message, position)
    if position != len(message):
        raise CorruptBatch(f"message at offset {header.base_offset}: {len(message) - position} bytes too many")
    return Record(header.base_offset, timestamp if header.magic == 1 else NO_TIMESTAMP, key, value, ())


def _field(message: memoryview, position: int) -> tuple[bytes | None, int]:
    if len(message) - position < 4:
        raise CorruptBatch("a message ends before the length of its key or value")
    (size,) = struct.unpack_from(">i", message, position)
    position += 4
    if size < 0:
        return None, position
    if size > len(message) - position:
        raise CorruptBatch(f"a key or value of {size} bytes where {len(message) - position} are left")
    return bytes(message[position : position + size]), position + size
