"""XXH3 with 64 bits, seed 0 and the default secret: Kafka's hash over a group's subscribed topics.

Computed when topics or subscriptions change, never per record, so plain Python is fast enough: some 60 µs per KiB.
"""

from __future__ import annotations

import struct

from cordwood.wire.record import Buffer

_MASK = 0xFFFFFFFFFFFFFFFF
_PRIME32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_PRIME64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE_BYTES = 64
_STRIPES_PER_BLOCK = (len(_SECRET) - _STRIPE_BYTES) // 8
_BLOCK_BYTES = _STRIPE_BYTES * _STRIPES_PER_BLOCK
_STRIPE = struct.Struct("<8Q")


def xxh3_64(data: Buffer) -> int:
    """Unsigned."""
    length = len(data)
    if length > 240:
        return _long(data, length)
    if length > 128:
        return _up_to_240(data, length)
    if length > 16:
        return _up_to_128(data, length)
    if length > 8:
        return _up_to_16(data, length)
    if length >= 4:
        return _up_to_8(data, length)
    if length:
        return _up_to_3(data, length)
    return _avalanche_64(_secret(56) ^ _secret(64))


def _up_to_3(data: Buffer, length: int) -> int:
    combined = data[0] << 16 | data[length >> 1] << 24 | data[length - 1] | length << 8
    flip = int.from_bytes(_SECRET[:4], "little") ^ int.from_bytes(_SECRET[4:8], "little")
    return _avalanche_64(combined ^ flip)


def _up_to_8(data: Buffer, length: int) -> int:
    head, tail = int.from_bytes(data[:4], "little"), int.from_bytes(data[length - 4 :], "little")
    hashed = (tail + (head << 32)) ^ (_secret(8) ^ _secret(16))
    hashed ^= _rotated(hashed, 49) ^ _rotated(hashed, 24)
    hashed = hashed * 0x9FB21C651E98DF25 & _MASK
    hashed ^= (hashed >> 35) + length
    hashed = hashed * 0x9FB21C651E98DF25 & _MASK
    return hashed ^ hashed >> 28


def _up_to_16(data: Buffer, length: int) -> int:
    low = _word(data, 0) ^ _secret(24) ^ _secret(32)
    high = _word(data, length - 8) ^ _secret(40) ^ _secret(48)
    swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
    return _avalanche(length + swapped + high + _folded(low, high))


def _up_to_128(data: Buffer, length: int) -> int:
    hashed = length * _PRIME64[0]
    for pair in range((length - 1) // 32 + 1):
        hashed += _mixed(data, 16 * pair, 32 * pair) + _mixed(data, length - 16 * (pair + 1), 32 * pair + 16)
    return _avalanche(hashed)


def _up_to_240(data: Buffer, length: int) -> int:
    hashed = length * _PRIME64[0] + sum(_mixed(data, 16 * part, 16 * part) for part in range(8))
    hashed = _avalanche(hashed)
    hashed += sum(_mixed(data, 16 * part, 16 * (part - 8) + 3) for part in range(8, length // 16))
    return _avalanche(hashed + _mixed(data, length - 16, 136 - 17))


def _long(data: Buffer, length: int) -> int:
    lanes = [
        _PRIME32[2],
        _PRIME64[0],
        _PRIME64[1],
        _PRIME64[2],
        _PRIME64[3],
        _PRIME32[1],
        _PRIME64[4],
        _PRIME32[0],
    ]
    blocks = (length - 1) // _BLOCK_BYTES
    for block in range(blocks):
        for stripe in range(_STRIPES_PER_BLOCK):
            _accumulate(lanes, data, block * _BLOCK_BYTES + stripe * _STRIPE_BYTES, 8 * stripe)
        _scramble(lanes)
    rest = blocks * _BLOCK_BYTES
    for stripe in range((length - 1 - rest) // _STRIPE_BYTES):
        _accumulate(lanes, data, rest + stripe * _STRIPE_BYTES, 8 * stripe)
    _accumulate(lanes, data, length - _STRIPE_BYTES, len(_SECRET) - _STRIPE_BYTES - 7)
    hashed = length * _PRIME64[0]
    for pair in range(4):
        at = 11 + 16 * pair
        hashed += _folded(lanes[2 * pair] ^ _secret(at), lanes[2 * pair + 1] ^ _secret(at + 8))
    return _avalanche(hashed)


def _accumulate(lanes: list[int], data: Buffer, position: int, secret_at: int) -> None:
    words = _STRIPE.unpack_from(data, position)
    for lane, (word, key) in enumerate(zip(words, _STRIPE.unpack_from(_SECRET, secret_at), strict=True)):
        keyed = word ^ key
        lanes[lane ^ 1] = lanes[lane ^ 1] + word & _MASK
        lanes[lane] = lanes[lane] + (keyed & 0xFFFFFFFF) * (keyed >> 32) & _MASK


def _scramble(lanes: list[int]) -> None:
    for lane, key in enumerate(_STRIPE.unpack_from(_SECRET, len(_SECRET) - _STRIPE_BYTES)):
        hashed = lanes[lane]
        lanes[lane] = (hashed ^ hashed >> 47 ^ key) * _PRIME32[0] & _MASK


def _mixed(data: Buffer, position: int, secret_at: int) -> int:
    return _folded(_word(data, position) ^ _secret(secret_at), _word(data, position + 8) ^ _secret(secret_at + 8))


def _folded(one: int, other: int) -> int:
    product = one * other
    return (product ^ product >> 64) & _MASK


def _word(data: Buffer, position: int) -> int:
    return int.from_bytes(data[position : position + 8], "little")


def _secret(position: int) -> int:
    return int.from_bytes(_SECRET[position : position + 8], "little")


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> 64 - bits) & _MASK


def _avalanche(hashed: int) -> int:
    hashed &= _MASK
    hashed = (hashed ^ hashed >> 37) * 0x165667919E3779F9 & _MASK
    return hashed ^ hashed >> 32


def _avalanche_64(hashed: int) -> int:
    hashed = (hashed ^ hashed >> 33) * _PRIME64[1] & _MASK
    hashed = (hashed ^ hashed >> 29) * _PRIME64[2] & _MASK
    return hashed ^ hashed >> 32
