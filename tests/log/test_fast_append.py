"""The fast paths of a leader's append: logs and refusals are the same on both paths."""

from __future__ import annotations

import random
import struct
from functools import partial
from typing import NamedTuple

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood.log import validation
from cordwood.log.config import LogConfig
from cordwood.log.idempotence.producers import AppendOrigin
from cordwood.log.log import Log
from cordwood.log.storage.segment import Segment
from cordwood.log.validation import accept_batch
from cordwood.runtime.disk import Buffer
from cordwood.shard.refusal import Refusal
from cordwood.sim.virtual.disk import SimDisk
from cordwood.wire.batch_header import ATTRIBUTES_POSITION, BatchHeader
from cordwood.wire.compression import Codec
from cordwood.wire.record import Record
from cordwood.wire.records import encode_batch
from tests.log.support import NOW, open_at

CRC_POSITION = 17
CRC = struct.Struct(">I")


class Given(NamedTuple):
    """A batch, and the log that it is for."""

    data: bytes
    config: LogConfig
    origin: AppendOrigin


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    timestamps = st.sampled_from([NOW, NOW, NOW - 1, NOW + 1, 0, NOW + 10_000_000])
    values = st.none() | st.binary(max_size=20)
    count = draw(st.integers(1, 4))
    records = [Record(index, draw(timestamps), draw(values), draw(values), ()) for index in range(count)]
    producer_id = draw(st.sampled_from([-1, -1, 5]))
    data = encode_batch(
        records,
        codec=draw(st.sampled_from([Codec.NONE, Codec.NONE, Codec.NONE, Codec.LZ4])),
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else 0,
        base_sequence=draw(st.sampled_from([-1, 0, 7])),
        transactional=draw(st.booleans()),
    )
    return bytes(draw(spoiled(data)))


@st.composite
def spoiled(draw: st.DrawFn, data: bytearray) -> bytearray:
    """Mostly as it is; else with a byte changed anywhere, with or without a checksum that fits."""
    how = draw(st.sampled_from(["not", "not", "not", "header", "anywhere", "checksum", "longer", "shorter"]))
    if how == "longer":
        return data + draw(st.binary(min_size=1, max_size=5))
    if how == "shorter":
        return data[: draw(st.integers(0, len(data) - 1))]
    if how != "not":
        end = 61 if how == "header" else len(data)
        data[draw(st.integers(0, end - 1))] ^= draw(st.integers(1, 255))
        if how != "checksum":
            CRC.pack_into(data, CRC_POSITION, crc32c(bytes(data[ATTRIBUTES_POSITION:])))
    return data


@st.composite
def appends(draw: st.DrawFn) -> Given:
    config = LogConfig(
        compact=draw(st.sampled_from([False, False, True])),
        max_message_bytes=draw(st.sampled_from([1 << 20, 1 << 20, 90])),
        message_timestamp_before_max_ms=draw(st.sampled_from([1 << 62, 1000])),
        message_timestamp_after_max_ms=draw(st.sampled_from([3_600_000, 0])),
    )
    origin = draw(st.sampled_from([AppendOrigin.CLIENT, AppendOrigin.CLIENT, AppendOrigin.COORDINATOR]))
    return Given(draw(batches()), config, origin)


def outcome(wanted: Given) -> object:
    try:
        batch, header = accept_batch(bytearray(wanted.data), 100, 3, wanted.config, wanted.origin, NOW)
    except Refusal as refusal:
        return refusal.error, str(refusal), refusal.record_errors
    return bytes(batch), repr(header), header.crc


@settings(max_examples=1000, deadline=None)
@given(appends())
def test_a_plain_batch_is_accepted_as_any_other(wanted: Given) -> None:
    fast = outcome(wanted)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(validation, "accept_plain", lambda *_: None)
        assert fast == outcome(wanted)


def append_one(segment: Segment, data: Buffer, header: BatchHeader) -> None:
    """`Segment.append_batch`, the general way."""
    segment.append(data, [header])


@settings(max_examples=100, deadline=None)
@given(st.lists(batches(), max_size=15), st.integers(0, 300), st.integers(200, 2000))
def test_one_batch_is_written_and_indexed_as_several_are(sent: list[bytes], interval: int, segment_bytes: int) -> None:
    config = LogConfig(index_interval_bytes=interval, segment_bytes=segment_bytes)
    fast = files_after(sent, config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Segment, "append_batch", append_one)
        assert fast == files_after(sent, config)


def files_after(sent: list[bytes], config: LogConfig) -> tuple[object, ...]:
    disk = SimDisk(random.Random(1), root="/data", now_ms=partial(int, NOW))
    log = open_at(disk, config)
    for data in sent:
        try:
            log.append_as_leader(bytearray(data), 0, now_ms=NOW)
        except Refusal:
            continue
    times = [(segment.max_timestamp, segment.offset_of_max_timestamp) for segment in log.segments]
    # Some look-ups go by what is in memory.
    reads = [read_at(log, offset) for offset in range(log.end_offset)]
    log.close(NOW)
    return disk.files(), times, reads


def read_at(log: Log, offset: int) -> bytes:
    found = log.read(offset, 1000, log.end_offset, min_one_batch=True)
    return b"" if found is None else found.read()
