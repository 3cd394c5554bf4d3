"""Varints, strings and uuids, at their edges."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.wire import primitives
from cordwood.wire.primitives import (
    ZERO_UUID,
    decode_bytes,
    decode_compact_string,
    decode_string,
    decode_uvarint,
    decode_varint,
    decode_varlong,
    encode_bytes,
    encode_compact_string,
    encode_string,
    encode_uvarint,
    encode_varint,
    encode_varlong,
    uuid_from_text,
    uuid_text,
)

REFUSALS = (ValueError, IndexError, struct.error)


@pytest.mark.parametrize(
    ("value", "bytes_hex"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (16_384, "808001"), (0xFFFF_FFFF, "ffffffff0f")],
)
def test_unsigned_varints_are_seven_bits_a_byte_lowest_first(value: int, bytes_hex: str) -> None:
    assert encode_uvarint(value).hex() == bytes_hex
    assert decode_uvarint(bytes.fromhex("ff" + bytes_hex), 1) == (value, 1 + len(bytes_hex) // 2)


@pytest.mark.parametrize(("value", "bytes_hex"), [(0, "00"), (-1, "01"), (1, "02"), (-(1 << 31), "ffffffff0f")])
def test_signed_varints_are_zigzag(value: int, bytes_hex: str) -> None:
    assert encode_varint(value).hex() == bytes_hex
    assert encode_varlong(value).hex() == bytes_hex
    assert decode_varint(bytes.fromhex(bytes_hex), 0) == (value, len(bytes_hex) // 2)


@given(st.integers(0, 0xFFFF_FFFF))
def test_unsigned_varints_come_back(value: int) -> None:
    assert decode_uvarint(encode_uvarint(value), 0)[0] == value


@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_signed_varints_come_back(value: int) -> None:
    assert decode_varint(encode_varint(value), 0)[0] == value


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_signed_varlongs_come_back(value: int) -> None:
    data = encode_varlong(value)
    assert len(data) <= 10
    assert decode_varlong(data, 0) == (value, len(data))


@pytest.mark.parametrize("bytes_hex", ["", "80", "ffffffff", "ffffffff1f", "808080808000", "ffffffffff01"])
def test_unsigned_varints_that_end_early_or_exceed_32_bits_are_refused(bytes_hex: str) -> None:
    with pytest.raises(REFUSALS):
        decode_uvarint(bytes.fromhex(bytes_hex), 0)


@pytest.mark.parametrize("bytes_hex", ["", "ff" * 9, "ff" * 9 + "02", "80" * 10 + "00"])
def test_varlongs_that_end_early_or_exceed_64_bits_are_refused(bytes_hex: str) -> None:
    with pytest.raises(REFUSALS):
        decode_varlong(bytes.fromhex(bytes_hex), 0)


@pytest.mark.parametrize(
    ("encoder", "value"),
    [("encode_uvarint", -1), ("encode_uvarint", 1 << 32), ("encode_varint", 1 << 31), ("encode_varlong", 1 << 63)],
)
def test_integers_that_do_not_fit_are_refused(encoder: str, value: int) -> None:
    with pytest.raises(ValueError, match=str(value)):
        getattr(primitives, encoder)(value)


@given(st.text(max_size=200))
def test_strings_come_back_in_both_forms(text: str) -> None:
    for encode, decode in ((encode_string, decode_string), (encode_compact_string, decode_compact_string)):
        data = encode(text)
        assert decode(data, 0) == (text, len(data))
        assert decode(memoryview(b"__" + data), 2) == (text, len(data) + 2)


def test_strings_of_more_than_32767_bytes_are_refused() -> None:
    for encode in (encode_string, encode_compact_string):
        assert len(encode("x" * 32_767)) > 32_767
        with pytest.raises(ValueError, match="32768 bytes"):
            encode("x" * 32_768)


def test_a_slice_is_never_silently_shorter_than_its_length() -> None:
    with pytest.raises(ValueError, match="a length of 3 where 2 bytes are left"):
        decode_bytes(encode_bytes(b"abc")[:-1], 0)
    with pytest.raises(ValueError, match="a length of -1"):
        decode_bytes(b"\xff\xff\xff\xff", 0)
    with pytest.raises(ValueError, match="a length of -1"):
        decode_compact_string(b"\x00", 0)


@given(st.binary(min_size=16, max_size=16))
def test_uuids_are_22_characters_and_come_back(uuid: bytes) -> None:
    text = uuid_text(uuid)
    assert len(text) == 22
    assert uuid_from_text(text) == uuid


def test_a_uuid_is_spelled_as_kafka_spells_it() -> None:
    assert uuid_text(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_text(bytes.fromhex("fbffbf" * 5 + "fb")) == "-_-_-_-_-_-_-_-_-_-_-w"


@pytest.mark.parametrize(
    "text", ["", "AAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAB", "A+AAAAAAAAAAAAAAAAAAAA", "é" * 22]
)
def test_text_that_is_not_a_uuid_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="22 characters"):
        uuid_from_text(text)
