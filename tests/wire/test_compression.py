"""The codecs: what is written comes back, what Java's writers do is understood, and no input makes us allocate much."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
import zlib
from contextlib import suppress

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.wire.compression import LEVELS, Codec, DecompressionError, compress, decompress

COMPRESSED = [codec for codec in Codec if codec]
LIMIT = 1 << 24
TEXT = b"a commit log that speaks Kafka's protocol; " * 5000


@pytest.mark.parametrize("codec", Codec)
@given(data=st.binary(max_size=2000), repeats=st.integers(1, 200))
def test_compression_round_trips(codec: Codec, data: bytes, repeats: int) -> None:
    contents = data * repeats
    assert bytes(decompress(codec, compress(codec, contents), len(contents))) == contents


@pytest.mark.parametrize(("codec", "level"), [(codec, level) for codec in LEVELS for level in (*LEVELS[codec], None)])
def test_every_level_comes_back(codec: Codec, level: int | None) -> None:
    for data in (TEXT, bytearray(TEXT), memoryview(TEXT)):
        packed = compress(codec, data, level)
        for buffer in (bytes(packed), bytearray(packed), memoryview(packed)):
            assert bytes(decompress(codec, buffer, LIMIT)) == TEXT


@pytest.mark.parametrize(("codec", "level"), [(Codec.GZIP, 9), (Codec.LZ4, 17), (Codec.ZSTD, 22)])
def test_the_highest_level_is_more_thorough_than_the_lowest(codec: Codec, level: int) -> None:
    varied = b"".join(b"%d:%d " % (i * i % 977, i % 31) for i in range(20_000))
    assert len(compress(codec, varied, level)) < len(compress(codec, varied, 1))


@pytest.mark.parametrize(("codec", "level"), [(Codec.GZIP, 0), (Codec.GZIP, 10), (Codec.LZ4, 18), (Codec.ZSTD, 23)])
def test_a_level_that_kafka_refuses_is_refused(codec: Codec, level: int) -> None:
    with pytest.raises(ValueError, match="levels"):
        compress(codec, b"x", level)


@pytest.mark.parametrize("codec", Codec)
def test_contents_may_fill_the_limit_and_not_pass_it(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    assert len(decompress(codec, packed, len(TEXT))) == len(TEXT)
    with pytest.raises(DecompressionError, match="limit"):
        decompress(codec, packed, len(TEXT) - 1)


def test_xerial_frames_are_written_in_blocks_of_32_kib() -> None:
    framed = bytes(compress(Codec.SNAPPY, TEXT))
    assert framed[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    (size,) = struct.unpack_from(">i", framed, 16)
    assert len(cramjam.snappy.decompress_raw(framed[20 : 20 + size])) == 32 * 1024


def test_bare_snappy_is_accepted() -> None:
    assert bytes(decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), LIMIT)) == TEXT


def test_concatenated_xerial_streams_are_read_as_one() -> None:
    packed = bytes(compress(Codec.SNAPPY, b"one")) + bytes(compress(Codec.SNAPPY, b"two"))
    assert bytes(decompress(Codec.SNAPPY, packed, LIMIT)) == b"onetwo"


def test_lz4_frames_have_the_header_that_java_writes() -> None:
    assert bytes(compress(Codec.LZ4, TEXT))[:7] == bytes.fromhex("04224d18604082")


@pytest.mark.parametrize("checksum", [True, False])
def test_lz4_frames_of_others_are_read(checksum: bool) -> None:
    compressor = cramjam.lz4.Compressor(level=3, content_checksum=checksum, block_linked=False)
    compressor.compress(TEXT)
    frame = bytes(compressor.finish())  # with block checksums
    assert bytes(decompress(Codec.LZ4, frame, LIMIT)) == TEXT
    damaged = bytearray(frame)
    damaged[20] ^= 1
    with pytest.raises(DecompressionError):
        decompress(Codec.LZ4, damaged, LIMIT)


def test_an_lz4_frame_may_say_its_size() -> None:
    block = bytes(cramjam.lz4.compress_block(b"contents" * 4, store_size=False))
    descriptor = bytes([0b01101000, 0x40]) + (32).to_bytes(8, "little")
    for checksum in range(256):
        frame = b"\x04\x22\x4d\x18" + descriptor + bytes([checksum]) + struct.pack("<I", len(block)) + block + bytes(4)
        try:
            assert bytes(decompress(Codec.LZ4, frame, LIMIT)) == b"contents" * 4
        except DecompressionError:
            continue
        return
    pytest.fail("no checksum of the header was right")


def test_linked_lz4_blocks_are_refused_because_java_refuses_them() -> None:
    with pytest.raises(DecompressionError, match="unsupported"):
        decompress(Codec.LZ4, bytes(cramjam.lz4.compress(TEXT)), LIMIT)


def test_the_wrong_header_checksum_of_old_kafka_is_accepted_only_on_request() -> None:
    frame = bytearray(compress(Codec.LZ4, TEXT))
    frame[6] ^= 0xFF
    with pytest.raises(DecompressionError, match="header"):
        decompress(Codec.LZ4, frame, LIMIT)
    assert bytes(decompress(Codec.LZ4, frame, LIMIT, ignore_lz4_header_checksum=True)) == TEXT


def test_bytes_after_an_lz4_frame_are_ignored() -> None:
    assert bytes(decompress(Codec.LZ4, bytes(compress(Codec.LZ4, TEXT)) * 2, LIMIT)) == TEXT


def test_gzip_members_are_read_as_one_and_garbage_behind_them_is_ignored() -> None:
    packed = gzip.compress(b"one") + gzip.compress(b"two")
    assert bytes(decompress(Codec.GZIP, packed, LIMIT)) == b"onetwo"
    assert bytes(decompress(Codec.GZIP, packed + b"garbage", LIMIT)) == b"onetwo"
    with pytest.raises(DecompressionError, match="limit"):
        decompress(Codec.GZIP, packed, 5)


def test_zstd_frames_are_read_as_one() -> None:
    packed = bytes(cramjam.zstd.compress(b"one")) + bytes(cramjam.zstd.compress(TEXT))
    assert bytes(decompress(Codec.ZSTD, packed, LIMIT)) == b"one" + TEXT


@pytest.mark.parametrize("codec", COMPRESSED)
def test_every_cut_is_an_error_or_less(codec: Codec) -> None:
    packed = bytes(compress(codec, TEXT[:300]))
    for cut in range(len(packed)):
        try:
            contents = bytes(decompress(codec, packed[:cut], LIMIT))
        except DecompressionError:
            continue
        assert TEXT.startswith(contents)


@pytest.mark.parametrize("codec", COMPRESSED)
@given(data=st.binary(max_size=200))
def test_random_bytes_are_an_error_or_contents(codec: Codec, data: bytes) -> None:
    with suppress(DecompressionError):
        decompress(codec, data, LIMIT)


@pytest.mark.parametrize("codec", COMPRESSED)
@given(data=st.data())
def test_flipped_bits_are_an_error_or_contents(codec: Codec, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, TEXT[:500]))
    bit = data.draw(st.integers(0, len(packed) * 8 - 1))
    packed[bit // 8] ^= 1 << bit % 8
    with suppress(DecompressionError):
        decompress(codec, packed, 1 << 16)


# Bombs: inputs of a few kilobytes (the LZ4 one of some hundred) that claim or hold gigabytes.


def gzip_bomb() -> bytes:
    compressor = zlib.compressobj(9, wbits=31)
    zeros = bytes(1 << 20)
    return b"".join(compressor.compress(zeros) for _ in range(64)) + compressor.flush()


def snappy_bomb() -> bytes:
    """Blocks that claim 4 GiB each."""
    block = b"\xff\xff\xff\xff\x0f" + bytes(100)
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + (struct.pack(">i", len(block)) + block) * 10


def lz4_bomb() -> bytes:
    """Blocks of 4 MiB, of which each holds as much as its bytes can say."""
    block = bytes(cramjam.lz4.compress_block(bytes(4 << 20), store_size=False))
    return bytes.fromhex("04224d186070") + b"\x73" + (struct.pack("<I", len(block)) + block) * 64 + bytes(4)


def zstd_bomb() -> bytes:
    """A frame that does not say its size, of runs of one byte: 128 KiB out of every four bytes."""
    run = (0b010 | (128 * 1024) << 3).to_bytes(3, "little") + b"\0"
    last = (0b011 | 1 << 3).to_bytes(3, "little") + b"\0"
    return bytes.fromhex("28b52ffd0058") + run * 8192 + last


def claiming_zstd_bomb() -> bytes:
    """A frame that says that it holds 10 GiB."""
    return bytes.fromhex("28b52ffde0") + (10 << 30).to_bytes(8, "little") + bytes(20)


BOMBS = [
    (Codec.GZIP, gzip_bomb),
    (Codec.SNAPPY, snappy_bomb),
    (Codec.LZ4, lz4_bomb),
    (Codec.ZSTD, zstd_bomb),
    (Codec.ZSTD, claiming_zstd_bomb),
]


@pytest.mark.parametrize(("codec", "make"), BOMBS, ids=[make.__name__ for _, make in BOMBS])
def test_a_bomb_fails_without_being_allocated(codec: Codec, make: object) -> None:
    assert callable(make)
    bomb = make()
    limit = 8 << 20
    tracemalloc.start()
    try:
        with pytest.raises(DecompressionError):
            decompress(codec, bomb, limit, ignore_lz4_header_checksum=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * limit
