"""Hostile bytes: a million mutated frames raise nothing but `DecodeError` and cost no more memory than they deserve.

How the memory bound is checked. Every value that a decoder makes takes bytes of the frame: an element of an array at
least one, a tag two, a string or a payload its own length. So

- of every frame that is accepted, all elements, tags, characters and bytes are counted: they are no more than the
  frame has bytes (this is the structural bound, and it is cheap enough for each of the million);
- of a sample, and of frames built to hold as many and as small elements as a count can promise, `tracemalloc` measures
  the peak while decoding, refused or not: below a fixed sum plus the frame's size times `MEMORY_FACTOR`. The factor is
  the price of Python's objects: a struct of one byte on the wire still is an object with its slots.
"""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cordwood.wire.codec import decode, encode
from cordwood.wire.diagnosis import read_slowly
from cordwood.wire.exceptions import UNEXPLAINED, DecodeError
from cordwood.wire.frames import decode_request, decode_response
from cordwood.wire.layout import Layout, WireField, message_layout
from cordwood.wire.messages import message_class
from cordwood.wire.messages.headers import RequestHeader, ResponseHeader
from cordwood.wire.schema import Kind, Message, Request, Response, Struct
from tests.wire.message_values import ALL_MESSAGES

FRAMES = 1_000_000
SHARDS = 40
MEASURED_EVERY = 200

MEMORY_FACTOR = 100
MEMORY_FIXED_BYTES = 16_384
HOSTILE_FRAME_BYTES = 2_048

VECTORS = Path(__file__).parent.parent / "vectors" / "messages.jsonl.gz"
HUGE = [bytes.fromhex(text) for text in ("7fffffff", "80000000", "fffffffe", "7fff", "8000", "ffffffff0f", "ffffff7f")]


@pytest.mark.parametrize("shard", range(SHARDS))
def test_mutated_frames_raise_nothing_but_decode_error(shard: int) -> None:
    random = Random(shard)
    accepted = 0
    reasons: set[str] = set()
    for number in range(FRAMES // SHARDS):
        cls, version, body = random.choice(valid_bodies())
        body = mutated(body, random)
        try:
            if number % MEASURED_EVERY == 0:
                message = measured(cls, version, body)
            elif number % 4 == 0 and issubclass(cls, Request):
                message = decode_request(header_before(cls, version) + body, strict=True)[1]
            elif number % 4 == 0 and issubclass(cls, Response):
                message = decode_response(cls, version, header_before(cls, version) + body, strict=True)[1]
            elif number % 4 == 1:
                message = decode(cls, version, memoryview(body))
            else:
                message = decode(cls, version, body)
        except DecodeError as refusal:
            reasons.add(refusal.reason)
        else:
            accepted += 1
            assert weight(message) <= len(body)
            if number % 8 == 2:
                # The slow reader takes what the compiled one takes. By repr: a NaN is not equal to itself.
                again = read_slowly(message_layout(cls, version), body, 0, len(body), strict=True)[0]
                assert repr(again) == repr(message)
    assert UNEXPLAINED not in reasons
    # Flipping a bit of a number leaves a valid message: a fuzz that never passes tests nothing behind the first field.
    assert accepted > FRAMES // SHARDS // 20


@pytest.mark.parametrize("shard", range(10))
def test_mutated_request_headers_raise_nothing_but_decode_error(shard: int) -> None:
    random = Random(shard)
    requests = [case for case in valid_bodies() if issubclass(case[0], Request)]
    reasons: set[str] = set()
    for _ in range(2_000):
        cls, version, body = random.choice(requests)
        header = mutated(header_before(cls, version), random)
        try:
            decode_request(header + body)
        except DecodeError as refusal:
            reasons.add(refusal.reason)
    assert UNEXPLAINED not in reasons
    assert any(reason.startswith("there is no version") for reason in reasons)


@pytest.mark.parametrize("name", ALL_MESSAGES)
def test_memory_of_a_message_is_proportional_to_its_bytes(name: str) -> None:
    cls = message_class(name)
    for version in cls.versions:
        layout = message_layout(cls, version)
        for field, *path in array_paths(layout):
            message = smallest(layout)
            crowd(message, [field, *path], HOSTILE_FRAME_BYTES)
            measured(cls, version, encode(message, version))
        if layout.flexible:
            message = smallest(layout)
            message.unknown_tags = tuple((tag, b"") for tag in range(1_000, 1_000 + HOSTILE_FRAME_BYTES // 3))
            measured(cls, version, encode(message, version))
        for byte in (0, 1, 2, 0x7F, 0xFF):
            with suppress(DecodeError):
                measured(cls, version, bytes([byte]) * HOSTILE_FRAME_BYTES)


def array_paths(layout: Layout) -> Iterator[list[WireField]]:
    """The way to every array, however deep."""
    for field in (*layout.fields, *layout.tagged):
        if field.kind == "array":
            yield [field]
        if isinstance(field.element, Layout):
            for path in array_paths(field.element):
                yield [field, *path]


def crowd(target: Any, path: list[WireField], budget_bytes: int) -> None:
    """Fills the array at the end of the path with as many of the smallest elements as the bytes can hold."""
    field, *rest = path
    if field.kind == "struct":
        setattr(target, field.name, smallest(field.element))
        crowd(getattr(target, field.name), rest, budget_bytes)
        return
    count = 1 if rest else budget_bytes // field.min_element_size
    items = [smallest(field.element) for _ in range(count)]
    setattr(target, field.name, items)
    if rest:
        crowd(items[0], rest, budget_bytes)


def smallest(element: Layout | Kind | None) -> Any:
    """The value that takes the fewest bytes."""
    if isinstance(element, Kind):
        return element.default
    assert element is not None
    value = element.struct()
    for field in element.fields:
        if field.nullable:
            setattr(value, field.name, None)
        elif field.kind == "array":
            setattr(value, field.name, [])
        else:
            setattr(value, field.name, smallest(field.element or field.field.kind))
    return value


def measured(cls: type[Message], version: int, body: bytes) -> Message:
    """Decodes under a meter; compiling the decoder is not the frame's doing."""
    with suppress(DecodeError):
        decode(cls, version, b"")
    tracemalloc.start()
    try:
        return decode(cls, version, body)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= MEMORY_FIXED_BYTES + MEMORY_FACTOR * len(body), f"{cls.__name__} v{version}: {peak} bytes"


def weight(value: Any) -> int:
    """The minimum number of frame bytes that a decoded value accounts for."""
    if isinstance(value, Struct):
        total = sum(weight(getattr(value, field.name)) for field in type(value).fields)
        return total + sum(2 + len(data) for _, data in value.unknown_tags)
    if isinstance(value, list):
        return sum(max(1, weight(item)) for item in value)
    return len(value) if isinstance(value, str | memoryview) else 0


@cache
def valid_bodies() -> list[tuple[type[Message], int, bytes]]:
    suffixes = {"request": "Request", "response": "Response"}
    cases = [json.loads(line) for line in gzip.decompress(VECTORS.read_bytes()).splitlines()]
    return [
        (message_class(case["api"] + suffixes.get(case["kind"], "")), case["version"], bytes.fromhex(case["hex"]))
        for case in cases
    ]


@cache
def header_before(cls: type[Request[Any]] | type[Response], version: int) -> bytes:
    if issubclass(cls, Request):
        header = RequestHeader(request_api_key=cls.api_key, request_api_version=version, client_id="fuzz")
        return encode(header, cls.header_version(version))
    return encode(ResponseHeader(correlation_id=1), cls.header_version(version))


def mutated(body: bytes, random: Random) -> bytes:
    """One to three changes: a flipped bit, a cut, a byte more or less, a huge length, a piece moved."""
    data = bytearray(body)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        at = int(random.random() * (len(data) + 1))
        change = int(random.random() * 7)
        if change <= 1 and at < len(data):
            data[at] ^= 1 << int(random.random() * 8)
        elif change == 2:
            del data[at:]
        elif change == 3:
            data[at:at] = random.randbytes(1 + int(random.random() * 4))
        elif change == 4:
            del data[at : at + 1 + int(random.random() * 4)]
        elif change == 5:
            huge = random.choice(HUGE)
            data[at : at + len(huge)] = huge
        else:
            start = int(random.random() * (len(data) + 1))
            data[at:at] = data[start : start + 8]
    return bytes(data)
