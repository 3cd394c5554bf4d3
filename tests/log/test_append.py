"""Batches that a leader accepts or rejects, and what it writes."""

from dataclasses import replace
from pathlib import Path

import pytest
from crc32c import crc32c

from cordwood.log.config import MAX_INT64, LogConfig, TimestampType
from cordwood.log.idempotence.producers import AppendOrigin
from cordwood.shard.refusal import Refusal
from cordwood.wire.batch_header import BATCH_HEADER_SIZE, batch_headers, check_crc, read_header
from cordwood.wire.compression import Codec
from cordwood.wire.control import end_txn_marker
from cordwood.wire.errors import ErrorCode
from cordwood.wire.record import Record
from cordwood.wire.records import encode_batch
from tests.log.support import NOW, batch, open_at, read_all, values

ALL_CODECS = list(Codec)


def refusal_of(path: Path, data: bytes | bytearray, config: LogConfig | None = None) -> Refusal:
    log = open_at(path, config)
    with pytest.raises(Refusal) as refused:
        log.append_as_leader(data, 0, NOW)
    assert log.end_offset == 0
    assert log.size == 0
    return refused.value


def test_offsets_and_the_leader_epoch_are_stamped_into_each_batch(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    log.append_as_leader(batch("a", "b"), 3, NOW)
    appended = log.append_as_leader(batch("c"), 4, NOW)

    assert (appended.first_offset, appended.last_offset) == (2, 2)
    found = log.read(0, 1 << 20, 3)
    assert found is not None
    headers = [header for _, header in batch_headers(found.read())]
    assert [(header.base_offset, header.leader_epoch) for header in headers] == [(0, 3), (2, 4)]
    for position, header in batch_headers(found.read()):
        check_crc(found.read(), header, position)


def test_a_read_only_buffer_is_taken_too(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    log.append_as_leader(bytes(batch("a")), 0, NOW)
    log.append_as_leader(memoryview(bytes(batch("b"))), 0, NOW)
    assert values(log) == ["a", "b"]


def test_a_writable_buffer_is_stamped_in_place(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    log.append_as_leader(batch("a"), 0, NOW)
    data = batch("b")
    log.append_as_leader(data, 0, NOW)
    assert read_header(data).base_offset == 1


@pytest.mark.parametrize("codec", ALL_CODECS, ids=lambda codec: codec.name)
def test_a_flipped_bit_is_a_corrupt_message(tmp_path: Path, codec: Codec) -> None:
    data = batch("some value", codec=codec)
    data[-1] ^= 0x10
    assert refusal_of(tmp_path, data).error is ErrorCode.CORRUPT_MESSAGE


def long_batch() -> bytearray:
    """Larger than several pieces in which a batch is checked; some records lie in two of them."""
    return batch(*("x" * (number * 5) for number in range(200)))


def test_all_of_a_long_batch_is_written(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    appended = log.append_as_leader(long_batch(), 0, NOW)
    assert (appended.first_offset, appended.last_offset) == (0, 199)
    assert [len(value) for value in values(log)] == list(range(0, 1_000, 5))


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9, 1.0])
def test_a_flipped_bit_anywhere_in_a_long_batch_is_a_corrupt_message(tmp_path: Path, share: float) -> None:
    data = long_batch()
    # At the start it is a record's size, which then is not what the record has.
    data[BATCH_HEADER_SIZE + int((len(data) - BATCH_HEADER_SIZE - 1) * share)] ^= 0x10
    assert refusal_of(tmp_path, data).error is ErrorCode.CORRUPT_MESSAGE


def test_bytes_behind_the_last_record_are_an_invalid_record(tmp_path: Path) -> None:
    data = long_batch() + b"\0"
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
    assert refusal_of(tmp_path, data).error is ErrorCode.INVALID_RECORD


def test_a_record_that_is_longer_than_its_batch_is_an_invalid_record(tmp_path: Path) -> None:
    data = batch("a", "b")
    data[BATCH_HEADER_SIZE] = 0x7E
    data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
    assert refusal_of(tmp_path, data).error is ErrorCode.INVALID_RECORD


def test_a_batch_over_the_limit_is_too_large(tmp_path: Path) -> None:
    config = LogConfig(max_message_bytes=200)
    assert refusal_of(tmp_path, batch("x" * 200), config).error is ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=200)
    assert refusal_of(tmp_path, batch("x" * 200), config).error is ErrorCode.RECORD_LIST_TOO_LARGE


def test_two_batches_at_once_are_an_invalid_record(tmp_path: Path) -> None:
    assert refusal_of(tmp_path, batch("a") + batch("b")).error is ErrorCode.INVALID_RECORD


def test_a_base_offset_other_than_zero_is_an_invalid_record(tmp_path: Path) -> None:
    data = encode_batch([Record(5, NOW, None, b"a", ())])
    assert refusal_of(tmp_path, data).error is ErrorCode.INVALID_RECORD


def test_a_client_may_not_write_control_records(tmp_path: Path) -> None:
    assert refusal_of(tmp_path, end_txn_marker(0, NOW, 1, 0, True, 0, 0)).error is ErrorCode.INVALID_RECORD


def test_a_producer_without_a_sequence_number_is_refused(tmp_path: Path) -> None:
    assert refusal_of(tmp_path, batch("a", producer_id=1, epoch=0)).error is ErrorCode.INVALID_RECORD


def test_a_count_that_does_not_match_the_offsets_is_refused(tmp_path: Path) -> None:
    data = encode_batch([Record(0, NOW, None, b"a", ()), Record(3, NOW, None, b"b", ())])
    refusal = refusal_of(tmp_path, data)
    assert refusal.error is ErrorCode.INVALID_RECORD
    assert "2 records according to its record count, but 4 according to its offsets" in str(refusal)


@pytest.mark.parametrize("codec", ALL_CODECS, ids=lambda codec: codec.name)
def test_a_keyless_record_is_refused_by_a_compacted_topic_and_named(tmp_path: Path, codec: Codec) -> None:
    refusal = refusal_of(tmp_path, batch("a", "b", "c", keys=["k", None, "l"], codec=codec), LogConfig(compact=True))
    assert refusal.error is ErrorCode.INVALID_RECORD
    assert [index for index, _ in refusal.record_errors] == [1]


@pytest.mark.parametrize(
    ("timestamp", "config"),
    [
        (NOW + 3_600_001, LogConfig()),
        (NOW - 1_001, LogConfig(message_timestamp_before_max_ms=1_000)),
    ],
    ids=["too young", "too old"],
)
def test_a_timestamp_out_of_range_is_refused_and_named(tmp_path: Path, timestamp: int, config: LogConfig) -> None:
    refusal = refusal_of(tmp_path, batch("a", timestamp=timestamp), config)
    assert refusal.error is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in refusal.record_errors] == [0]


def test_timestamps_at_the_limits_are_taken(tmp_path: Path) -> None:
    log = open_at(tmp_path, LogConfig(message_timestamp_before_max_ms=1_000))
    for timestamp in (NOW - 1_000, NOW + 3_600_000, -1):
        log.append_as_leader(batch("a", timestamp=timestamp), 0, NOW)
    assert log.end_offset == 3


def test_the_widest_limits_take_every_timestamp(tmp_path: Path) -> None:
    log = open_at(tmp_path, LogConfig(message_timestamp_after_max_ms=MAX_INT64))
    for timestamp in (0, MAX_INT64):
        log.append_as_leader(batch("a", timestamp=timestamp), 0, NOW)
    assert log.end_offset == 2


def test_log_append_time_replaces_the_producers_timestamps(tmp_path: Path) -> None:
    config = LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    log = open_at(tmp_path, config)
    appended = log.append_as_leader(batch("a", "b", timestamp=5), 0, NOW)
    assert appended.log_append_time_ms == NOW
    assert [record.timestamp for record in read_all(log)] == [NOW, NOW]
    found = log.read(0, 1 << 20, 2)
    assert found is not None
    check_crc(found.read(), read_header(found.read()))


def test_a_producer_may_not_claim_log_append_time(tmp_path: Path) -> None:
    data = encode_batch([Record(0, NOW, None, b"a", ())], log_append_time=NOW)
    config = LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert refusal_of(tmp_path, data, config).error is ErrorCode.INVALID_TIMESTAMP


def test_a_claim_of_log_append_time_without_a_time_is_refused_by_any_topic(tmp_path: Path) -> None:
    data = encode_batch([Record(index, -1, None, b"a", ()) for index in range(2)], log_append_time=-1)
    refusal = refusal_of(tmp_path, data)
    assert refusal.error is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in refusal.record_errors] == [0, 1]


@pytest.mark.parametrize("target", ALL_CODECS, ids=lambda codec: codec.name)
@pytest.mark.parametrize("source", ALL_CODECS, ids=lambda codec: codec.name)
def test_a_batch_is_stored_in_the_topics_codec(tmp_path: Path, source: Codec, target: Codec) -> None:
    log = open_at(tmp_path, LogConfig(compression_type=target))
    log.append_as_leader(
        batch("a" * 50, "b" * 50, codec=source, producer_id=9, epoch=1, sequence=5, transactional=True), 7, NOW
    )
    found = log.read(0, 1 << 20, 2)
    assert found is not None
    header = read_header(found.read())
    assert header.codec == target
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 1, 5)
    assert header.is_transactional
    assert header.leader_epoch == 7
    check_crc(found.read(), header)
    assert values(log) == ["a" * 50, "b" * 50]


def test_markers_keep_uncompressed_whatever_the_topics_codec(tmp_path: Path) -> None:
    log = open_at(tmp_path, LogConfig(compression_type=Codec.ZSTD))
    log.append_as_leader(end_txn_marker(0, NOW, 1, 0, True, 0, 0), 0, NOW, AppendOrigin.COORDINATOR)
    found = log.read(0, 1 << 20, 1)
    assert found is not None
    assert read_header(found.read()).codec == Codec.NONE


@pytest.mark.parametrize("target", [None, Codec.ZSTD], ids=["as sent", "recompressed"])
def test_non_consecutive_offsets_within_a_batch_are_reassigned(tmp_path: Path, target: Codec | None) -> None:
    data = batch("a", "b", "c")
    second = BATCH_HEADER_SIZE + 1 + data[BATCH_HEADER_SIZE] // 2
    # Size, attributes, time delta, then the offset delta: 1, zigzag.
    assert data[second + 3] == 2
    data[second + 3] = 0
    data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
    log = open_at(tmp_path, LogConfig(compression_type=target))
    log.append_as_leader(data, 0, NOW)
    assert [record.offset for record in read_all(log)] == [0, 1, 2]


def test_a_batch_that_must_be_rewritten_is_refused_if_it_has_negative_timestamps(tmp_path: Path) -> None:
    data = batch("a", "b")
    second = BATCH_HEADER_SIZE + 1 + data[BATCH_HEADER_SIZE] // 2
    data[second + 3] = 0
    # The base timestamp, to which those of the records are relative.
    data[27:35] = (-5000).to_bytes(8, "big", signed=True)
    data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
    assert refusal_of(tmp_path, data).error is ErrorCode.INVALID_TIMESTAMP


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    data = batch("\0" * (200 << 20), codec=Codec.ZSTD)
    assert len(data) < 100_000
    assert refusal_of(tmp_path, data).error in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)


def test_a_follower_keeps_the_leaders_offsets_epochs_and_bytes(tmp_path: Path) -> None:
    leader, follower = open_at(tmp_path / "leader"), open_at(tmp_path / "follower")
    for epoch, text in ((1, "a"), (1, "b"), (3, "c")):
        leader.append_as_leader(batch(text, text), epoch, NOW)
    found = leader.read(0, 1 << 20, leader.end_offset)
    assert found is not None
    follower.append_as_follower(found.read(), NOW)
    assert follower.active.file.read(0, 1 << 20) == leader.active.file.read(0, 1 << 20)
    assert follower.epochs.entries == leader.epochs.entries


def test_a_follower_leaves_a_batch_that_is_cut_short(tmp_path: Path) -> None:
    follower = open_at(tmp_path)
    first = encode_batch([Record(0, NOW, None, b"a", ())], leader_epoch=0)
    second = encode_batch([Record(1, NOW, None, b"b", ())], leader_epoch=0)
    follower.append_as_follower(first + second[:-1], NOW)
    assert follower.end_offset == 1
    assert follower.append_as_follower(second[:30], NOW) is None


def test_a_follower_leaves_batches_of_a_later_leader_out(tmp_path: Path) -> None:
    follower = open_at(tmp_path)
    batches = [encode_batch([Record(offset, NOW, None, b"a", ())], leader_epoch=offset) for offset in range(3)]
    follower.append_as_follower(b"".join(batches), NOW, leader_epoch=1)
    assert (follower.end_offset, follower.latest_epoch) == (2, 1)
    assert follower.append_as_follower(batches[2], NOW, leader_epoch=1) is None
    follower.append_as_follower(batches[2], NOW, leader_epoch=2)
    assert (follower.end_offset, follower.latest_epoch) == (3, 2)


def test_a_follower_refuses_offsets_that_go_back(tmp_path: Path) -> None:
    follower = open_at(tmp_path)
    data = encode_batch([Record(0, NOW, None, b"a", ())], leader_epoch=0)
    follower.append_as_follower(data, NOW)
    with pytest.raises(Refusal):
        follower.append_as_follower(data, NOW)
    assert follower.end_offset == 1


def test_a_follower_takes_gaps_that_compaction_left(tmp_path: Path) -> None:
    follower = open_at(tmp_path)
    for offset in (3, 70, 2**31 + 200):
        follower.append_as_follower(encode_batch([Record(offset, NOW, None, b"a", ())], leader_epoch=0), NOW)
    assert [record.offset for record in read_all(follower)] == [3, 70, 2**31 + 200]
    # The last one is too far away for the first segment's indexes.
    assert len(follower.segments) == 2


class TestRolling:
    config = LogConfig(segment_bytes=300, index_interval_bytes=1)

    def test_a_full_segment_is_rolled(self, tmp_path: Path) -> None:
        log = open_at(tmp_path, self.config)
        for _ in range(10):
            log.append_as_leader(batch("x" * 40), 0, NOW)
        assert all(segment.size <= 300 for segment in log.segments)
        assert len(log.segments) > 3

    def test_time_between_records_rolls(self, tmp_path: Path) -> None:
        log = open_at(tmp_path, LogConfig(segment_ms=1_000))
        for timestamp in (NOW, NOW + 1_000, NOW + 1_001):
            log.append_as_leader(batch("x", timestamp=timestamp), 0, NOW)
        assert [segment.base_offset for segment in log.segments] == [0, 2]

    def test_jitter_brings_the_roll_forward(self, tmp_path: Path) -> None:
        log = open_at(tmp_path, LogConfig(segment_ms=1_000, segment_jitter_ms=900))
        log.roll(NOW)
        log.append_as_leader(batch("x"), 0, NOW)
        rolled = log.roll(NOW)
        assert 0 < rolled.roll_jitter_ms < 900

    def test_the_first_segment_of_a_log_that_is_made_or_opened_has_jitter_too(self, tmp_path: Path) -> None:
        config = LogConfig(segment_ms=1_000, segment_jitter_ms=900)
        log = open_at(tmp_path, config)
        assert 0 < log.active.roll_jitter_ms < 900
        log.close(NOW)
        assert 0 < open_at(tmp_path, config, clean=True).active.roll_jitter_ms < 900

    def test_without_timestamps_the_segments_age_rolls(self, tmp_path: Path) -> None:
        log = open_at(tmp_path, LogConfig(segment_ms=1_000))
        log.append_as_leader(batch("x", timestamp=-1), 0, NOW)
        log.append_as_leader(batch("x", timestamp=-1), 0, NOW + 1_001)
        assert len(log.segments) == 2

    def test_a_compacted_topic_rolls_for_its_compaction_lag(self, tmp_path: Path) -> None:
        log = open_at(tmp_path, LogConfig(compact=True, max_compaction_lag_ms=500))
        for timestamp in (NOW, NOW + 501):
            log.append_as_leader(batch("x", keys=["k"], timestamp=timestamp), 0, NOW)
        assert len(log.segments) == 2

    def test_a_full_offset_index_rolls(self, tmp_path: Path) -> None:
        log = open_at(tmp_path, replace(self.config, segment_bytes=1 << 20, segment_index_bytes=24))
        for _ in range(10):
            log.append_as_leader(batch("x"), 0, NOW)
        assert all(len(segment.offset_index) <= 3 for segment in log.segments)
        assert len(log.segments) > 1

    def test_a_full_time_index_rolls_and_keeps_room_for_the_last_timestamp(self, tmp_path: Path) -> None:
        log = open_at(tmp_path, replace(self.config, segment_bytes=1 << 20, segment_index_bytes=36))
        for number in range(12):
            log.append_as_leader(batch("x", timestamp=NOW + number), 0, NOW)
        assert all(len(segment.time_index) <= 3 for segment in log.segments)
        for segment in list(log.segments)[:-1]:
            assert segment.time_index.last[0] == segment.max_timestamp
