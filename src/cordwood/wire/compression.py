"""The five codecs of record batches, written so that Java can read them, and read with bounded output.

Regardless of a batch's claims, `decompress` never produces (or allocates) more than `limit` bytes; larger contents
raise `DecompressionError`. Trailing bytes are treated as Kafka's Java readers treat them: gzip members and zstd frames
are concatenated, anything after an LZ4 frame's end mark is ignored.
"""

from __future__ import annotations

import functools
import struct
import zlib
from enum import IntEnum
from typing import TypeAlias

import cramjam

Buffer: TypeAlias = bytes | bytearray | memoryview

SNAPPY_BLOCK_BYTES = 32 * 1024
LZ4_BLOCK_BYTES = 64 * 1024


class Codec(IntEnum):
    """The lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class DecompressionError(Exception):
    """The bytes are not valid for this codec, or exceed the caller's limit."""


# codec: (lowest level, highest level, default); gzip also takes -1, which is its default.
LEVELS: dict[Codec, tuple[int, int, int]] = {
    Codec.GZIP: (1, 9, -1),
    Codec.LZ4: (1, 17, 9),
    Codec.ZSTD: (-131072, 22, 3),
}


def compress(codec: Codec, data: Buffer, level: int | None = None) -> Buffer:
    """Compresses `data`; `level` is Kafka's `compression.<codec>.level`, None for Kafka's default."""
    if codec is Codec.NONE:
        return data
    level = _checked_level(codec, level)
    if codec is Codec.GZIP:
        return memoryview(cramjam.gzip.compress(data, level=6 if level == -1 else level))
    if codec is Codec.SNAPPY:
        return _snappy_compress(data)
    if codec is Codec.LZ4:
        return _lz4_compress(data, level)
    return memoryview(cramjam.zstd.compress(data, level=level))


def decompress(codec: Codec, data: Buffer, limit: int, *, ignore_lz4_header_checksum: bool = False) -> Buffer:
    """Returns the contents of `data`, at most `limit` bytes.

    Magic 0 sets `ignore_lz4_header_checksum`: the clients that wrote it computed it wrongly (KAFKA-3160).
    """
    if codec is Codec.NONE:
        contents = data
    elif codec is Codec.GZIP:
        contents = _gzip_decompress(data, limit)
    elif codec is Codec.SNAPPY:
        contents = _snappy_decompress(data, limit)
    elif codec is Codec.LZ4:
        contents = _lz4_decompress(data, limit, ignore_lz4_header_checksum)
    else:
        contents = _zstd_decompress(data, limit)
    if len(contents) > limit:
        raise _too_large(limit)
    return contents


def _checked_level(codec: Codec, level: int | None) -> int:
    if codec not in LEVELS:
        return 0
    lowest, highest, default = LEVELS[codec]
    if level is None or level == default:
        return default
    if not lowest <= level <= highest:
        raise ValueError(f"{codec.name.lower()} has levels {lowest} to {highest} (default {default}), not {level}")
    return level


def _too_large(limit: int) -> DecompressionError:
    return DecompressionError(f"decompressed contents exceed the limit of {limit} bytes")


# gzip: uses zlib directly, because only it can stop at a given length.

_GZIP_WINDOW_BITS = 31
_GZIP_MAGIC = b"\x1f\x8b\x08"


def _gzip_decompress(data: Buffer, limit: int) -> bytes:
    members: list[bytes] = []
    room = limit
    rest: Buffer = data
    while True:
        member = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
        try:
            # One byte beyond the room distinguishes a bomb from contents that fit exactly; a max_length of 0 means no
            # limit.
            contents = member.decompress(rest, room + 1)
        except zlib.error as error:
            raise DecompressionError(f"gzip: {error}") from error
        if len(contents) > room:
            raise _too_large(limit)
        if not member.eof:
            raise DecompressionError("gzip: the stream ends early")
        members.append(contents)
        room -= len(contents)
        rest = member.unused_data
        if rest[:3] != _GZIP_MAGIC:
            return members[0] if len(members) == 1 else b"".join(members)


# snappy: xerial's framing (snappy-java's SnappyOutputStream), blocks of 32 KiB; a bare block is accepted too.

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
# A three-byte copy element emits at most 64 bytes, so valid data never claims more than this.
_SNAPPY_MAX_RATIO = 22


def _snappy_compress(data: Buffer) -> bytearray:
    framed = bytearray(_XERIAL_HEADER)
    view = memoryview(data)
    for start in range(0, len(view), SNAPPY_BLOCK_BYTES):
        block = memoryview(cramjam.snappy.compress_raw(view[start : start + SNAPPY_BLOCK_BYTES]))
        framed += len(block).to_bytes(4, "big")
        framed += block
    return framed


def _snappy_decompress(data: Buffer, limit: int) -> Buffer:
    view = memoryview(data)
    if view[:8] != _XERIAL_MAGIC:
        return _snappy_block(view, limit, limit)
    if len(view) < len(_XERIAL_HEADER):
        raise DecompressionError("snappy: the header ends early")
    contents = bytearray()
    position = len(_XERIAL_HEADER)
    while len(view) - position >= 4:  # snappy-java treats less as the end
        if view[position : position + 8] == _XERIAL_MAGIC:  # concatenated streams
            position += len(_XERIAL_HEADER)
            continue
        size = int.from_bytes(view[position : position + 4], "big")
        position += 4
        if size > len(view) - position:
            raise DecompressionError(f"snappy: a block of {size} bytes where {len(view) - position} are left")
        contents += _snappy_block(view[position : position + size], limit - len(contents), limit)
        position += size
    return contents


def _snappy_block(block: memoryview, room: int, limit: int) -> memoryview:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > len(block) * _SNAPPY_MAX_RATIO:
            raise DecompressionError(f"snappy: {len(block)} bytes cannot decompress to the declared {size}")
        if size > room:
            raise _too_large(limit)
        return memoryview(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise DecompressionError(f"snappy: {error}") from error


# LZ4: frames are parsed here, so that each block is bounded, and so that linked blocks are rejected as by Kafka's
# reader. Frames of the fast compressor are also built here, byte for byte as Kafka's writer does. cramjam handles the
# blocks.

_LZ4_MAGIC = 0x184D2204
_LZ4_HEADER = bytes.fromhex("04224d18604082")  # version 1, independent blocks of 64 KiB, no checksums, no size
_LZ4_END_MARK = bytes(4)
_LZ4_STORED = 0x80000000
_LZ4_BLOCK_BYTES_OF = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}
_LZ4_MAX_RATIO = 255
_LZ4_FASTEST_OF_THE_THOROUGH = 3
_LZ4_MOST_THOROUGH = 12


def _lz4_compress(data: Buffer, level: int) -> Buffer:
    # Kafka's default level means the fast compressor; every other level selects the high-compression one.
    if level == LEVELS[Codec.LZ4][2]:
        return _lz4_fast_frame(memoryview(data))
    effort = min(max(level, _LZ4_FASTEST_OF_THE_THOROUGH), _LZ4_MOST_THOROUGH)
    # cramjam uses the high-compression mode only for its own frames: its compress_block ignores the level.
    compressor = cramjam.lz4.Compressor(level=effort, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))  # it accepts no other buffer
    return memoryview(compressor.finish())


def _lz4_fast_frame(view: memoryview) -> bytearray:
    frame = bytearray(_LZ4_HEADER)
    for start in range(0, len(view), LZ4_BLOCK_BYTES):
        block = view[start : start + LZ4_BLOCK_BYTES]
        packed = memoryview(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            frame += len(packed).to_bytes(4, "little")
            frame += packed
        else:
            frame += (len(block) | _LZ4_STORED).to_bytes(4, "little")
            frame += block
    frame += _LZ4_END_MARK
    return frame


def _lz4_decompress(data: Buffer, limit: int, ignore_header_checksum: bool) -> Buffer:
    view = memoryview(data)
    position, block_checksums = _lz4_header(view, ignore_header_checksum)
    descriptor = view[5]
    block_bytes = _LZ4_BLOCK_BYTES_OF[descriptor >> 4]
    contents = bytearray()
    while True:
        if len(view) - position < 4:
            raise DecompressionError("lz4: the stream ends early")
        word = int.from_bytes(view[position : position + 4], "little")
        position += 4
        size = word & ~_LZ4_STORED
        if size == 0:
            return contents
        if size > block_bytes:
            raise DecompressionError(f"lz4: a block of {size} bytes in a frame of blocks up to {block_bytes}")
        end = position + size + (4 if block_checksums else 0)
        if end > len(view):
            raise DecompressionError("lz4: the stream ends early")
        block = view[position : position + size]
        room = limit - len(contents)
        if block_checksums:
            contents += _lz4_summed_block(view[position - 4 : end], descriptor)
        elif word & _LZ4_STORED:
            contents += block
        else:
            contents += _lz4_block(block, min(block_bytes, room), room < block_bytes, limit)
        if len(contents) > limit:
            raise _too_large(limit)
        position = end


def _lz4_header(view: memoryview, ignore_checksum: bool) -> tuple[int, bool]:
    """Returns where the blocks start, and whether each has a checksum."""
    if len(view) < 7 or int.from_bytes(view[:4], "little") != _LZ4_MAGIC:
        raise DecompressionError("lz4: not a frame")
    flags, descriptor = view[4], view[5]
    # Kafka rejects linked blocks, so a batch with them must not get into a log.
    if flags & 0b11100011 != 0b01100000 or descriptor & 0b1111 or descriptor >> 4 not in _LZ4_BLOCK_BYTES_OF:
        raise DecompressionError(f"lz4: unsupported frame (flags {flags:#04x}, descriptor {descriptor:#04x})")
    end = 6 + (8 if flags & 0b1000 else 0)
    if len(view) <= end:
        raise DecompressionError("lz4: the header ends early")
    if not ignore_checksum and _lz4_header_checksum(bytes(view[4:end])) != view[end]:
        raise DecompressionError("lz4: the header's checksum is wrong")
    return end + 1, bool(flags & 0b10000)


@functools.lru_cache(maxsize=64)
def _lz4_header_checksum(descriptor: bytes) -> int:
    """Second byte of the 32-bit xxHash (seed 0); only the code path for fewer than 16 bytes is needed."""
    mask = 0xFFFFFFFF
    prime1, prime2, prime3, prime4, prime5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1

    def rotated(value: int, bits: int) -> int:
        value &= mask
        return (value << bits | value >> 32 - bits) & mask

    hashed = prime5 + len(descriptor)
    words = len(descriptor) // 4 * 4
    for (word,) in struct.iter_unpack("<I", descriptor[:words]):
        hashed = rotated(hashed + word * prime3, 17) * prime4
    for byte in descriptor[words:]:
        hashed = rotated(hashed + byte * prime5, 11) * prime1
    hashed &= mask
    hashed = (hashed ^ hashed >> 15) * prime2 & mask
    hashed = (hashed ^ hashed >> 13) * prime3 & mask
    return (hashed ^ hashed >> 16) >> 8 & 0xFF


def _lz4_block(block: memoryview, room: int, is_cut: bool, limit: int) -> memoryview:
    """Returns one block's contents; `is_cut` means that `room` is less than a block may hold."""
    output = bytearray(min(room, len(block) * _LZ4_MAX_RATIO))
    try:
        size = cramjam.lz4.decompress_block_into(block, output)
    except cramjam.DecompressionError as error:
        # The decoder cannot distinguish a damaged block from one larger than its output.
        if is_cut:
            raise _too_large(limit) from error
        raise DecompressionError(f"lz4: {error}") from error
    return memoryview(output)[:size]


def _lz4_summed_block(block_and_checksum: memoryview, descriptor: int) -> memoryview:
    """Returns the contents of a block with a checksum, which the decoder verifies if the block is in its own frame."""
    header = bytes((0b01110000, descriptor))
    frame = b"".join(
        (_LZ4_HEADER[:4], header, bytes((_lz4_header_checksum(header),)), block_and_checksum, _LZ4_END_MARK)
    )
    try:
        return memoryview(cramjam.lz4.decompress(frame))
    except cramjam.DecompressionError as error:
        raise DecompressionError(f"lz4: {error}") from error


# zstd: Java's frames do not say how large their contents are, so the output grows until it holds them.

_ZSTD_FIRST_OUTPUT_BYTES = 64 * 1024
_ZSTD_GUESSED_RATIO = 8
_ZSTD_MAGIC = 0xFD2FB528


def _zstd_decompress(data: Buffer, limit: int) -> memoryview:
    if not data:
        raise DecompressionError("zstd: not a frame")
    size = _zstd_content_size(memoryview(data))
    if size is None:
        size = max(_ZSTD_FIRST_OUTPUT_BYTES, len(data) * _ZSTD_GUESSED_RATIO)
    elif size > limit:
        raise _too_large(limit)
    while True:
        output = bytearray(min(size, limit))
        try:
            return memoryview(output)[: cramjam.zstd.decompress_into(data, output)]
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise DecompressionError(f"zstd: {error}") from error
            if size >= limit:
                raise _too_large(limit) from error
            size = max(size * 4, _ZSTD_FIRST_OUTPUT_BYTES)


def _zstd_content_size(frame: memoryview) -> int | None:
    """The content size in the first frame's header (RFC 8878, 3.1.1.1), if it has one."""
    if len(frame) < 5 or int.from_bytes(frame[:4], "little") != _ZSTD_MAGIC:
        return None
    descriptor = frame[4]
    single_segment = descriptor >> 5 & 1
    width = (1 if single_segment else 0, 2, 4, 8)[descriptor >> 6]
    start = 5 + (0 if single_segment else 1) + (0, 1, 2, 4)[descriptor & 3]
    if width == 0 or len(frame) < start + width:
        return None
    size = int.from_bytes(frame[start : start + width], "little")
    return size + 256 if width == 2 else size
