"""Messages of magic 0 and 1, bare and in wrappers, and their conversion."""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.wire import records
from cordwood.wire.compression import Codec, compress
from cordwood.wire.legacy import encode_message, upconvert
from cordwood.wire.record import CorruptBatch, InvalidRecord, Record

T0 = 1_700_000_000_000
CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4]


def wrapper(magic: int, offset: int, inner: bytes, codec: Codec = Codec.GZIP, *, stamped: bool = False) -> bytes:
    value = bytes(compress(codec, inner))
    return encode_message(magic, offset, T0 + 9, None, value, codec=codec, is_log_append_time=stamped)


def messages(magic: int, offsets: list[int]) -> bytes:
    return b"".join(encode_message(magic, offset, T0 + offset, b"k", b"v%d" % offset) for offset in offsets)


def expected(magic: int, offsets: list[int], inner: list[int] | None = None) -> list[Record]:
    times = [T0 + offset if magic else -1 for offset in inner or offsets]
    values = [b"v%d" % offset for offset in inner or offsets]
    return [Record(*fields, ()) for fields in zip(offsets, times, [b"k"] * len(offsets), values, strict=True)]


def with_right_crc(message: bytes | bytearray) -> bytes:
    return bytes(message[:12]) + struct.pack(">I", zlib.crc32(message[16:])) + bytes(message[16:])


@pytest.mark.parametrize("magic", [0, 1])
def test_a_bare_message_is_a_batch_of_itself(magic: int) -> None:
    message = encode_message(magic, 7, T0, None, b"value")
    header = records.read_header(message)
    records.check_crc(message, header)
    assert (header.base_offset, header.last_offset, header.count, header.magic) == (7, 7, -1, magic)
    assert (header.leader_epoch, header.producer_id, header.base_sequence) == (-1, -1, -1)
    assert header.max_timestamp == (T0 if magic else -1)
    assert records.decode_batch(message) == [Record(7, T0 if magic else -1, None, b"value", ())]


@pytest.mark.parametrize("codec", CODECS)
def test_a_wrapper_of_magic_0_has_absolute_offsets_inside(codec: Codec) -> None:
    batch = wrapper(0, 12, messages(0, [10, 12]), codec)
    assert records.decode_batch(batch) == expected(0, [10, 12])


@pytest.mark.parametrize("codec", CODECS)
def test_a_wrapper_of_magic_1_has_relative_offsets_inside(codec: Codec) -> None:
    batch = wrapper(1, 112, messages(1, [0, 3, 5]), codec)
    assert records.decode_batch(batch) == expected(1, [107, 110, 112], [0, 3, 5])


def test_a_wrapper_at_offset_0_leaves_the_inner_offsets() -> None:
    assert records.decode_batch(wrapper(1, 0, messages(1, [0, 1]))) == expected(1, [0, 1])


def test_log_append_time_is_the_wrappers() -> None:
    batch = wrapper(1, 1, messages(1, [0, 1]), stamped=True)
    assert [record.timestamp for record in records.decode_batch(batch)] == [T0 + 9] * 2


def test_the_wrong_lz4_header_checksum_of_old_clients_is_accepted_in_magic_0() -> None:
    for magic in (0, 1):
        value = bytearray(compress(Codec.LZ4, messages(magic, [0, 1])))
        value[6] ^= 0xFF
        batch = encode_message(magic, 1, T0, None, bytes(value), codec=Codec.LZ4)
        if magic == 0:
            assert records.decode_batch(batch) == expected(0, [0, 1])
        else:
            with pytest.raises(InvalidRecord, match="checksum"):
                records.decode_batch(batch)


BROKEN = {
    "a wrapper without a value": encode_message(1, 0, T0, None, None, codec=Codec.GZIP),
    "a wrapper without messages": wrapper(1, 0, b""),
    "a wrapper inside a wrapper": wrapper(1, 0, wrapper(1, 0, messages(1, [0]))),
    "a wrapper before its messages": wrapper(1, 3, messages(1, [0, 5])),
    "a wrapper in zstd": wrapper(1, 0, messages(1, [0]), Codec.ZSTD),
    "an inner message with a wrong checksum": wrapper(1, 0, messages(1, [0])[:-1] + b"?"),
    "a key that reaches past the message": with_right_crc(
        encode_message(0, 0, T0, b"kk", b"v").replace(b"\x00\x02kk", b"\x00\x7fkk")
    ),
    "bytes behind the value": with_right_crc(
        struct.pack(">qi", 0, 15) + encode_message(0, 0, T0, None, b"")[12:] + b"?"
    ),
}


@pytest.mark.parametrize("why", BROKEN)
def test_impossible_values_are_refused(why: str) -> None:
    header = records.read_header(BROKEN[why])
    records.check_crc(BROKEN[why], header)
    with pytest.raises((CorruptBatch, InvalidRecord)):
        records.decode_batch(BROKEN[why])


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_in_a_wrapper_is_refused(codec: Codec) -> None:
    batch = wrapper(1, 0, encode_message(1, 0, T0, None, bytes(1 << 20)), codec)
    with pytest.raises(InvalidRecord, match="limit"):
        records.decode_batch(batch, limit=1 << 16)


@given(data=st.data(), magic=st.sampled_from([0, 1]), codec=st.sampled_from([Codec.NONE, *CODECS]))
def test_flipped_bits_raise_the_two_exceptions_and_nothing_else(data: st.DataObject, magic: int, codec: Codec) -> None:
    inner = messages(magic, [0, 1, 2])
    message = bytearray(wrapper(magic, 2, inner, codec) if codec else inner)
    bit = data.draw(st.integers(64, len(message) * 8 - 1))
    message[bit // 8] ^= 1 << bit % 8
    with suppress(CorruptBatch, InvalidRecord):
        records.decode_batch(with_right_crc(message))
    with suppress(CorruptBatch, InvalidRecord):
        upconvert(with_right_crc(message))


def test_a_run_of_bare_messages_becomes_one_batch() -> None:
    converted = upconvert(messages(1, [4, 5, 9]))
    ((_, header),) = records.batch_headers(converted)
    records.check_crc(converted, header)
    assert (header.magic, header.count, header.base_offset, header.last_offset) == (2, 3, 4, 9)
    assert records.decode_batch(converted) == expected(1, [4, 5, 9])


def test_wrappers_magics_and_times_keep_batches_apart() -> None:
    stamped = [encode_message(1, 20 + i, T0 + i // 2, None, b"", is_log_append_time=True) for i in range(4)]
    new = bytes(records.encode_batch([Record(30, T0, None, b"new", ())], leader_epoch=4))
    source = [
        messages(0, [1, 2]),
        messages(1, [3]),
        wrapper(1, 5, messages(1, [0, 1]), Codec.SNAPPY),
        wrapper(1, 7, messages(1, [0, 1]), Codec.SNAPPY),
        b"".join(stamped),
        new,
    ]
    converted = upconvert(b"".join(source))
    headers = list(records.batch_headers(converted))
    spans = [(header.base_offset, header.last_offset) for _, header in headers]
    assert spans == [(1, 2), (3, 3), (4, 5), (6, 7), (20, 21), (22, 23), (30, 30)]
    assert [header.codec for _, header in headers][2:4] == [Codec.SNAPPY] * 2
    assert [header.is_log_append_time for _, header in headers] == [False] * 4 + [True] * 2 + [False]
    assert converted.endswith(new)


@pytest.mark.parametrize("inner", [messages(0, [5, 4]), messages(0, [0, 2**40]), encode_message(1, 0, -5, None, b"")])
def test_conversion_refuses_values_that_magic_2_cannot_express(inner: bytes) -> None:
    with pytest.raises(InvalidRecord):
        upconvert(wrapper(inner[16], 4, inner))


def test_conversion_refuses_a_wrong_checksum() -> None:
    with pytest.raises(CorruptBatch, match="checksum"):
        upconvert(messages(1, [0])[:-1] + b"?")


def test_compaction_converts_the_rest_of_a_wrapper_to_magic_2() -> None:
    batch = wrapper(1, 2, messages(1, [0, 1, 2]), Codec.LZ4)
    header = records.read_header(batch)
    keys = records.record_keys(batch, 0, header, limit=1 << 16)
    assert keys == [(0, b"k", True), (1, b"k", True), (2, b"k", True)]
    left = records.filter_batch(batch, 0, header, b"\x00\x01\x01", delete_horizon_ms=None, limit=1 << 16)
    assert records.read_header(left).codec is Codec.LZ4
    assert records.decode_batch(left) == expected(1, [1, 2])
    assert records.filter_batch(batch, 0, header, b"\x01\x01\x01", delete_horizon_ms=None, limit=1 << 16) == batch
