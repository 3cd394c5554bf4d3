"""Retention: which segments are deleted, when, and in which steps."""

from pathlib import Path

import pytest

from cordwood.log.config import LogConfig
from cordwood.log.log import Log
from cordwood.log.retention import apply_retention
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from tests.log.support import NOW, batch, open_at, read_all


def filled(path: Path, *, count: int = 10, replicated: bool = True, **config: int | bool) -> Log:
    log = open_at(path, LogConfig(segment_bytes=100, **config))  # type: ignore[arg-type]
    for number in range(count):
        log.append_as_leader(batch("some value", keys=["k"], timestamp=NOW + number * 1_000), 0, NOW + number * 1_000)
    if replicated:
        log.advance_high_watermark(log.end_offset)
    return log


def test_segments_whose_youngest_record_is_too_old_go(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_ms=5_000)
    assert len(log.segments) == 10
    apply_retention(log, NOW + 9_000)
    assert log.start_offset == 4
    assert [record.offset for record in read_all(log)] == [4, 5, 6, 7, 8, 9]


def test_all_segments_may_be_deleted_and_the_log_continues_at_its_end(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_ms=5_000)
    apply_retention(log, NOW + 10**9)
    assert (log.start_offset, log.end_offset) == (10, 10)
    assert log.append_as_leader(batch("next", keys=["k"], timestamp=NOW + 10**9), 0, NOW + 10**9).first_offset == 10


def test_the_oldest_go_until_the_rest_would_be_too_small(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_bytes=250, retention_ms=-1)
    size = log.segments.first.size
    apply_retention(log, NOW)
    assert log.size >= 250
    assert log.size - size < 250


def test_without_limits_nothing_goes(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_ms=-1)
    assert apply_retention(log, NOW + 10**12) == 0


def test_unreplicated_records_are_not_deleted(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_ms=5_000, replicated=False)
    log.advance_high_watermark(2)
    apply_retention(log, NOW + 10**9)
    assert log.start_offset == 2


def test_a_compacted_topic_keeps_old_segments(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_ms=5_000, compact=True, delete=False)
    assert apply_retention(log, NOW + 10**9) == 0


def test_deleted_records_take_whole_segments_also_of_a_compacted_topic(tmp_path: Path) -> None:
    log = filled(tmp_path, compact=True, delete=False)
    log.advance_start(4)
    apply_retention(log, NOW)
    assert [segment.base_offset for segment in log.segments] == [4, 5, 6, 7, 8, 9]


def test_records_cannot_be_deleted_past_the_high_watermark(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.advance_high_watermark(5)
    with pytest.raises(Refusal) as refusal:
        log.advance_start(6)
    assert refusal.value.error is ErrorCode.OFFSET_OUT_OF_RANGE


def test_files_are_renamed_first_and_removed_after_the_delay(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_ms=5_000, file_delete_delay_ms=1_000)
    now_ms = NOW + 9_000
    before = log.read(0, 1 << 20, log.end_offset)
    assert before is not None
    apply_retention(log, now_ms)
    directory = tmp_path / "t-0"
    assert (directory / "00000000000000000000.log.deleted").exists()
    assert not (directory / "00000000000000000000.log").exists()
    # A reader in the middle of a range still gets its bytes.
    assert len(before.read()) == len(before)
    log.purge(now_ms + 999)
    assert (directory / "00000000000000000000.log.deleted").exists()
    log.purge(now_ms + 1_000)
    assert not list(directory.glob("*.deleted"))


def test_segments_without_timestamps_use_the_age_of_their_files(tmp_path: Path) -> None:
    log = open_at(tmp_path, LogConfig(segment_bytes=100, retention_ms=5_000))
    for _ in range(3):
        log.append_as_leader(batch("some value", timestamp=-1), 0, NOW)
    log.advance_high_watermark(3)
    written_ms = (tmp_path / "t-0" / "00000000000000000000.log").stat().st_mtime_ns // 1_000_000
    assert apply_retention(log, written_ms + 4_000) == 0
    assert apply_retention(log, written_ms + 60_000) == 3
