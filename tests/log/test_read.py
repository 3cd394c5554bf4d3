"""Reading by offset, by timestamp, and up to a bound."""

import random
from pathlib import Path

import pytest

from cordwood.log.config import LogConfig
from cordwood.log.log import Log
from cordwood.runtime.disk import DiskError, FileGone
from cordwood.shard.refusal import Refusal
from cordwood.sim.virtual.disk import SimDisk
from cordwood.wire.batch_header import batch_headers, read_header
from cordwood.wire.errors import ErrorCode
from tests.log.support import NOW, batch, open_at, read_all

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = open_at(tmp_path, SMALL)
    for number in range(10):
        log.append_as_leader(batch("a", "b", "c", timestamp=NOW + number), 0, NOW)
    return log


def first_offset(log: Log, offset: int, **bounds: int) -> int | None:
    found = log.read(offset, bounds.get("max_bytes", 1 << 20), bounds.get("max_offset", log.end_offset))
    return None if found is None else read_header(found.read()).base_offset


def test_every_offset_is_found_in_the_batch_that_holds_it(log: Log) -> None:
    assert [first_offset(log, offset) for offset in range(30)] == [offset // 3 * 3 for offset in range(30)]


def test_recent_batches_are_found_without_reading_the_file() -> None:
    disk = SimDisk(random.Random(1), root="/data", now_ms=lambda: NOW)
    disk.make_directory("t-0")
    log = open_at(disk)
    for _ in range(100):
        last = log.append_as_leader(batch("a", "b", "c"), 0, NOW)
    disk.fail_next("read")
    found = log.read(last.first_offset, 1 << 20, log.end_offset)
    assert found is not None
    with pytest.raises(DiskError):
        found.read()


def test_truncated_recent_batches_are_not_found(log: Log) -> None:
    log.truncate_to(24, NOW)
    log.append_as_leader(batch("x"), 1, NOW)
    log.append_as_leader(batch("w", "y", "z"), 1, NOW)
    assert [first_offset(log, offset) for offset in range(23, 28)] == [21, 24, 25, 25, 25]


def test_a_read_at_the_end_finds_nothing(log: Log) -> None:
    assert log.read(30, 1 << 20, 30) is None


@pytest.mark.parametrize("offset", [-1, 31])
def test_a_read_outside_of_the_log_is_out_of_range(log: Log, offset: int) -> None:
    with pytest.raises(Refusal) as refusal:
        log.read(offset, 1 << 20, 30)
    assert refusal.value.error is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_read_before_the_start_is_out_of_range(log: Log) -> None:
    log.advance_high_watermark(30)
    log.advance_start(4)
    with pytest.raises(Refusal):
        log.read(3, 1 << 20, 30)
    assert first_offset(log, 4) == 3


def test_at_least_one_batch_comes_whole_however_small_the_limit(log: Log) -> None:
    found = log.read(4, 1, 30)
    assert found is not None
    assert [header.base_offset for _, header in batch_headers(found.read())] == [3]


def test_without_that_promise_a_batch_that_does_not_fit_is_not_begun(log: Log) -> None:
    whole = log.read(4, 1, 30)
    assert whole is not None
    assert log.read(4, len(whole) - 1, 30, min_one_batch=False) is None
    found = log.read(4, len(whole) + 10, 30, min_one_batch=False)
    assert found is not None
    assert len(found) == len(whole) + 10


def test_nothing_at_or_past_the_bound_is_read(log: Log) -> None:
    for bound in range(3, 30, 3):
        assert max(record.offset for record in read_all(log, 0, bound)) == bound - 1
        assert first_offset(log, bound, max_offset=bound) is None


def test_a_bound_that_moves_up_is_followed(log: Log) -> None:
    found = log.read(27, 1 << 20, 30)
    assert found is not None
    before = len(found)
    log.append_as_leader(batch("d"), 0, NOW)
    bounded = log.read(27, 1 << 20, 30)
    assert bounded is not None
    assert len(bounded) == before


def test_a_timestamp_finds_the_first_record_that_is_not_older(log: Log) -> None:
    for number in range(10):
        found = log.offset_for_timestamp(NOW + number)
        assert found is not None
        assert (found.offset, found.timestamp) == (number * 3, NOW + number)
    assert log.offset_for_timestamp(NOW + 10) is None


def test_timestamps_out_of_order_give_the_first_match_in_the_log(tmp_path: Path) -> None:
    log = open_at(tmp_path, LogConfig(index_interval_bytes=0))
    for timestamp in (NOW + 50, NOW + 10, NOW + 90, NOW + 20):
        log.append_as_leader(batch("x", timestamp=timestamp), 0, NOW)
    assert [log.offset_for_timestamp(NOW + at).offset for at in (0, 15, 60)] == [0, 0, 2]  # type: ignore[union-attr]
    youngest = log.offset_of_max_timestamp()
    assert youngest is not None
    assert (youngest.offset, youngest.timestamp) == (2, NOW + 90)


def test_an_empty_log_has_no_youngest_record(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    assert log.offset_of_max_timestamp() is None
    assert log.offset_for_timestamp(0) is None


def test_the_youngest_record_is_found_after_a_restart(log: Log, tmp_path: Path) -> None:
    log.close(NOW)
    youngest = open_at(tmp_path, SMALL, clean=True).offset_of_max_timestamp()
    assert youngest is not None
    assert (youngest.offset, youngest.timestamp) == (27, NOW + 9)


class TestDamage:
    """A bit that flipped in the log: what cannot be read is refused, not passed over, and the rest is there."""

    def damaged(self, tmp_path: Path, byte: int) -> Log:
        """The batches at offsets 9 to 12 are, at least one of which is in the index."""
        log = open_at(tmp_path, LogConfig(segment_bytes=3_000, index_interval_bytes=200))
        for number in range(60):
            log.append_as_leader(batch(f"value {number:03d}"), 0, NOW)
        assert len(log.segments) == 2
        segment = log.segments.first
        file = tmp_path / segment.file.path
        data = bytearray(file.read_bytes())
        for position, header in batch_headers(bytes(data)):
            if 9 <= header.base_offset <= 12:
                data[position + byte] = 0x7F
        file.write_bytes(data)
        return log

    @pytest.mark.parametrize("byte", [pytest.param(8, id="length"), pytest.param(16, id="magic")])
    def test_a_read_of_a_damaged_batch_is_refused(self, tmp_path: Path, byte: int) -> None:
        log = self.damaged(tmp_path, byte)
        for offset in range(9, 13):
            with pytest.raises(Refusal, match=r"00000000000000000000\.log.* is damaged") as refusal:
                log.read(offset, 1, log.end_offset)
            assert refusal.value.error is ErrorCode.CORRUPT_MESSAGE

    @pytest.mark.parametrize("byte", [pytest.param(8, id="length"), pytest.param(16, id="magic")])
    def test_data_behind_it_is_still_found(self, tmp_path: Path, byte: int) -> None:
        log = self.damaged(tmp_path, byte)
        for offset in range(9, 13):
            with pytest.raises(Refusal):
                log.read(offset, 1, log.end_offset)
        assert [first_offset(log, offset, max_bytes=1) for offset in (5, 20, 30, 50)] == [5, 20, 30, 50]


def test_a_reader_of_a_deleted_file_gets_an_error_and_the_disk_stays_online(log: Log) -> None:
    log.advance_high_watermark(30)
    found = log.read(0, 100, 30)
    assert found is not None
    log.delete_segments([log.segments.first], NOW, "a test")
    assert len(found.read()) == 100
    log.purge(NOW + 60_000)
    with pytest.raises(FileGone):
        found.read()
    assert log.disk.failure is None


def test_the_high_watermark_stays_within_the_log(log: Log) -> None:
    log.advance_high_watermark(99)
    assert log.high_watermark == 30
    log.advance_start(12)
    log.advance_high_watermark(5)
    assert (log.high_watermark, log.last_stable_offset) == (12, 12)


@pytest.mark.parametrize("is_reopened", [False, True])
def test_the_next_offset_follows_the_last_whole_batch(log: Log, tmp_path: Path, is_reopened: bool) -> None:
    if is_reopened:
        log.close(NOW)
        log = open_at(tmp_path, SMALL, clean=True, recovery_point=30)
    for offset in range(30):
        # Where a high watermark may be: at the end of a batch.
        for max_offset in range(offset // 3 * 3 + 3, 31, 3):
            for max_bytes in (1, 100, 150, 200, 250, 300, 1 << 20):
                found = log.read(offset, max_bytes, max_offset)
                if found is None:
                    continue
                whole = [
                    header.next_offset
                    for position, header in batch_headers(found.read())
                    if position + header.size <= found.length
                ]
                assert log.next_offset_of(found, offset, max_offset) == max(whole)
