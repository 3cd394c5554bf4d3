"""Cutting frames out of a stream."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from net_support import frame

from cordwood.net.framing import FrameReader, Scratch

MAX_BYTES = 1 << 30
SCRATCH = Scratch()


def feed(reader: FrameReader, data: bytes, step: int = 1 << 30) -> list[bytearray]:
    """Gives the reader `data`, at most `step` bytes and at most what it has room for at a time."""
    frames = []
    position = 0
    while position < len(data):
        buffer = reader.buffer()
        count = min(len(buffer), len(data) - position, step)
        buffer[:count] = data[position : position + count]
        position += count
        frames += reader.received(count)
    return frames


@given(
    sizes=st.lists(
        st.integers(0, 300) | st.sampled_from([32_767, 32_768, 32_769, 65_532, 65_536, 300_000]), max_size=12
    ),
    step=st.sampled_from([1, 2, 3, 5, 7, 100, 4_096, 65_536, 1 << 30]),
)
def test_frames_are_the_same_however_their_bytes_arrive(sizes: list[int], step: int) -> None:
    step = max(step, sum(sizes) // 2_000)
    contents = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
    reader = FrameReader(MAX_BYTES, SCRATCH)
    assert feed(reader, b"".join(map(frame, contents)), step) == contents
    assert reader.buffered_bytes == 0


@pytest.mark.parametrize("bytes_of_the_size", [1, 2, 3])
def test_a_size_may_be_cut_after_a_large_frame_that_came_whole(bytes_of_the_size: int) -> None:
    reader = FrameReader(MAX_BYTES, SCRATCH)
    start, rest = frame(b"next")[:bytes_of_the_size], frame(b"next")[bytes_of_the_size:]
    assert feed(reader, frame(bytes(40_000)) + start) == [bytes(40_000)]
    assert feed(reader, rest) == [b"next"]


def test_readers_that_share_a_scratch_do_not_mix_their_bytes() -> None:
    one, two = FrameReader(MAX_BYTES, SCRATCH), FrameReader(MAX_BYTES, SCRATCH)
    for first, second in zip(frame(b"one" * 50), frame(b"two" * 50), strict=True):
        frames = [*feed(one, bytes([first])), *feed(two, bytes([second]))]
    assert frames == [b"one" * 50, b"two" * 50]


def test_a_large_frame_is_received_into_the_buffer_it_lives_in() -> None:
    reader = FrameReader(MAX_BYTES, SCRATCH)
    content = bytes(100_000)
    assert feed(reader, frame(content)[:50_000]) == []
    buffer = reader.buffer()
    assert len(buffer) == 100_004 - 50_000
    owner = buffer.obj
    (received,) = feed(reader, frame(content)[50_000:])
    assert received is owner


def test_a_frame_can_be_written_into_and_is_nobody_elses() -> None:
    reader = FrameReader(MAX_BYTES, SCRATCH)
    one, two = feed(reader, frame(b"aaaa") * 2)
    memoryview(one)[0:2] = b"xx"
    assert one == b"xxaa"
    assert two == b"aaaa"


def test_a_size_that_is_a_lie_takes_no_memory_before_its_bytes_come() -> None:
    reader = FrameReader(MAX_BYTES, SCRATCH)
    feed(reader, struct.pack(">i", MAX_BYTES) + bytes(1000))
    assert reader.buffered_bytes <= 1 << 17
    feed(reader, bytes(1_000_000))
    assert reader.buffered_bytes <= 4 * 1_001_000


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        (-1, "a frame of negative size (-1)"),
        (-(2**31), "a frame of negative size (-2147483648)"),
        (1_001, "a frame of 1001 bytes, where 1000 are allowed"),
    ],
)
def test_a_size_that_cannot_be_ends_the_stream_after_the_frames_before_it(size: int, reason: str) -> None:
    reader = FrameReader(1_000, SCRATCH)
    assert feed(reader, frame(b"good") + struct.pack(">i", size) + b"rest") == [b"good"]
    assert str(reader.bad) == reason


def test_the_largest_frame_that_is_allowed_passes() -> None:
    reader = FrameReader(1_000, SCRATCH)
    assert feed(reader, frame(bytes(1_000))) == [bytes(1_000)]
    assert reader.bad is None
