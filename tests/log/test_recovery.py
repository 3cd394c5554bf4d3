"""Opening a log after a crash or damage, and its log lines."""

import logging
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from cordwood.log.config import LogConfig
from cordwood.log.idempotence.producers import AppendOrigin
from cordwood.log.log import Log
from cordwood.log.metrics import LogMetrics
from cordwood.log.recovery import OpenOptions, open_log
from cordwood.runtime.files.local_disk import LocalDisk
from cordwood.runtime.randomness import SeededRandom
from cordwood.wire.control import end_txn_marker
from cordwood.wire.record import Record
from cordwood.wire.records import encode_batch
from tests.log.support import NOW, batch, open_at, read_all, values

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100)
FIRST = "00000000000000000000"


def filled(path: Path, batches: int = 12, config: LogConfig = SMALL) -> Log:
    log = open_at(path, config)
    for number in range(batches):
        log.append_as_leader(batch(f"value {number:03d}", timestamp=NOW + number), 0, NOW)
    return log


def stopped(path: Path, batches: int = 12, config: LogConfig = SMALL) -> Path:
    filled(path, batches, config).close(NOW)
    return path / "t-0"


def recovered(path: Path, recovery_point: int = 0, config: LogConfig = SMALL) -> tuple[Log, LogMetrics]:
    metrics = LogMetrics()
    options = OpenOptions(recovery_point=recovery_point)
    log = open_log(LocalDisk(str(path)), "t-0", config, SeededRandom(1), now_ms=NOW, options=options, metrics=metrics)
    return log, metrics


def all_index_entries(log: Log) -> list[object]:
    return [(segment.offset_index.entries(), segment.time_index.entries()) for segment in log.segments]


def test_a_killed_log_comes_back_whole(tmp_path: Path) -> None:
    log = filled(tmp_path)
    expected = read_all(log)
    again, metrics = recovered(tmp_path)
    assert read_all(again) == expected
    assert metrics.torn_bytes == metrics.corrupt_bytes == 0


@pytest.mark.parametrize("cut", [1, 11, 12, 60, 61, 62])
def test_a_torn_batch_is_cut_off_and_logged(tmp_path: Path, cut: int, caplog: pytest.LogCaptureFixture) -> None:
    log = filled(tmp_path, 3, LogConfig())
    last = log.active.locate(2)
    assert last is not None
    file = tmp_path / "t-0" / f"{FIRST}.log"
    file.write_bytes(file.read_bytes()[: last[0] + cut])
    again, metrics = recovered(tmp_path, config=LogConfig())
    assert values(again) == ["value 000", "value 001"]
    assert again.end_offset == 2
    assert file.stat().st_size == last[0]
    assert metrics.torn_bytes == cut
    line = next(record for record in caplog.records if "not completely written" in record.message)
    assert line.levelno == logging.WARNING
    assert f"{FIRST}.log" in line.message
    assert f"position {last[0]}" in line.message
    assert "offset 2" in line.message


@pytest.mark.parametrize("padding", [b"\0" * 100, b"\xff" * 70, b"\0" * 7])
def test_garbage_appended_by_the_file_system_is_cut_off(tmp_path: Path, padding: bytes) -> None:
    filled(tmp_path, 3, LogConfig())
    file = tmp_path / "t-0" / f"{FIRST}.log"
    size = file.stat().st_size
    file.write_bytes(file.read_bytes() + padding)
    again, _ = recovered(tmp_path, config=LogConfig())
    assert again.end_offset == 3
    assert file.stat().st_size == size


def test_damage_to_flushed_data_is_kept_beside_the_segment_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = filled(tmp_path, 5, LogConfig())
    third = log.active.locate(2)
    assert third is not None
    file = tmp_path / "t-0" / f"{FIRST}.log"
    data = bytearray(file.read_bytes())
    data[third[0] + 70] ^= 1
    file.write_bytes(data)
    again, metrics = recovered(tmp_path, recovery_point=5, config=LogConfig())
    assert values(again) == ["value 000", "value 001"]
    assert (tmp_path / "t-0" / f"{FIRST}.log.corrupt").read_bytes() == data[third[0] :]
    assert metrics.corrupt_bytes == len(data) - third[0]
    assert metrics.torn_bytes == 0
    line = next(record for record in caplog.records if record.levelno == logging.ERROR)
    assert f"{FIRST}.log is damaged at position {third[0]}" in line.message
    assert "offsets 2 up to the recovery point 5" in line.message


def test_damage_found_twice_is_kept_twice(tmp_path: Path) -> None:
    for _ in range(2):
        filled(tmp_path, 3, LogConfig())
        file = tmp_path / "t-0" / f"{FIRST}.log"
        data = bytearray(file.read_bytes())
        data[70] ^= 1
        file.write_bytes(data)
        recovered(tmp_path, recovery_point=3, config=LogConfig())
    kept = sorted(path.name for path in (tmp_path / "t-0").glob("*.corrupt*"))
    assert kept == [f"{FIRST}.log.corrupt", f"{FIRST}.log.corrupt.1"]


def test_segments_after_the_first_invalid_batch_go_too(tmp_path: Path) -> None:
    log = filled(tmp_path, 20)
    assert len(log.segments) > 3
    second = list(log.segments)[1]
    file = tmp_path / second.file.path
    file.write_bytes(file.read_bytes()[:-5])
    again, metrics = recovered(tmp_path)
    assert [segment.base_offset for segment in again.segments] == [0, second.base_offset]
    assert again.end_offset < log.end_offset
    assert metrics.torn_bytes > 0
    again.append_as_leader(batch("goes on"), 1, NOW)
    assert values(again)[-1] == "goes on"


def test_a_segment_that_lost_its_end_does_not_leave_a_hole(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = filled(tmp_path)
    first, second = list(log.segments)[:2]
    last = first.locate(second.base_offset - 1)
    assert last is not None
    file = tmp_path / first.file.path
    file.write_bytes(file.read_bytes()[: last[0]])
    again, _ = recovered(tmp_path)
    assert again.end_offset == second.base_offset - 1
    assert (tmp_path / "t-0" / f"{second.base_offset:020d}.log.corrupt").exists()
    assert any("was lost" in record.message for record in caplog.records)


def test_only_batches_past_the_recovery_point_are_scanned(tmp_path: Path) -> None:
    log = filled(tmp_path)
    bases = [segment.base_offset for segment in log.segments]
    first = tmp_path / log.segments.first.file.path
    damaged = bytearray(first.read_bytes())
    damaged[-1] ^= 1
    first.write_bytes(damaged)
    log.active.write_indexes()
    again, _ = recovered(tmp_path, recovery_point=bases[1])
    assert again.end_offset == log.end_offset


def test_recovery_reports_its_progress(tmp_path: Path) -> None:
    log = filled(tmp_path)
    told: list[int] = []
    options = OpenOptions(progress=told.append)
    open_log(LocalDisk(str(tmp_path)), "t-0", SMALL, SeededRandom(1), now_ms=NOW, options=options)
    assert sum(told) == log.size


class TestIndexes:
    def test_a_missing_index_is_rebuilt_after_a_clean_stop(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        directory = stopped(tmp_path)
        expected = all_index_entries(open_at(tmp_path, SMALL, clean=True))
        for path in [*directory.glob("*.index"), *directory.glob("*.timeindex")]:
            path.unlink()
        again = open_at(tmp_path, SMALL, clean=True)
        assert all_index_entries(again) == expected
        assert any("an index is missing" in record.message for record in caplog.records)

    @pytest.mark.parametrize("padding", [8 * 100, 12 * 100, 5])
    def test_a_zero_padded_index_is_rebuilt(self, tmp_path: Path, padding: int) -> None:
        directory = stopped(tmp_path)
        log = open_at(tmp_path, SMALL, clean=True)
        expected, records = all_index_entries(log), read_all(log)
        for path in [*directory.glob("*.index"), *directory.glob("*.timeindex")]:
            path.write_bytes(path.read_bytes() + bytes(padding))
        again = open_at(tmp_path, SMALL, clean=True)
        assert again.end_offset == log.end_offset
        assert read_all(again) == records
        for offset in range(again.end_offset):
            assert read_all(again, offset)[0].offset == offset
        assert [entries[0] for entries in all_index_entries(again)] == [entries[0] for entries in expected]  # type: ignore[index]

    def test_an_index_with_wrong_positions_is_rebuilt_when_it_is_used(self, tmp_path: Path) -> None:
        directory = stopped(tmp_path)
        log = open_at(tmp_path, SMALL, clean=True)
        records = read_all(log)
        for path in directory.glob("*.index"):
            entries = list(struct.iter_unpack(">ii", path.read_bytes()))
            moved = b"".join(struct.pack(">ii", offset, position + 90) for offset, position in entries)
            path.write_bytes(moved)
        again = open_at(tmp_path, SMALL, clean=True)
        for record in records:
            assert read_all(again, record.offset)[0] == record

    @pytest.mark.parametrize(
        "broken",
        [
            pytest.param(lambda _: 100_000, id="past the end"),
            pytest.param(lambda size: size, id="at the end"),
            pytest.param(lambda size: size - 70, id="within the last batch"),
            pytest.param(lambda _: -70, id="before the start"),
        ],
    )
    def test_an_index_that_leads_nowhere_costs_neither_the_disk_nor_offsets(
        self, tmp_path: Path, broken: Callable[[int], int]
    ) -> None:
        config = LogConfig(segment_bytes=2_000, index_interval_bytes=100)
        directory = stopped(tmp_path, 40, config)
        log = open_at(tmp_path, config, clean=True)
        records = read_all(log)
        for path in directory.glob("*.index"):
            entries = path.read_bytes()
            assert len(entries) > 16
            path.write_bytes(entries[:-4] + struct.pack(">i", broken(path.with_suffix(".log").stat().st_size)))
        again = open_at(tmp_path, config, clean=True)
        assert again.end_offset == 40
        for record in records:
            assert read_all(again, record.offset)[0] == record
        assert again.disk.failure is None

    def test_a_lost_index_does_not_cost_the_producer_state(self, tmp_path: Path) -> None:
        log = open_at(tmp_path, SMALL)
        for sequence in range(12):
            log.append_as_leader(batch("x", producer_id=7, epoch=0, sequence=sequence, transactional=True), 0, NOW)
        log.close(NOW)
        (tmp_path / "t-0" / f"{FIRST}.index").unlink()
        again = open_at(tmp_path, SMALL, clean=True)
        assert again.producers.by_id[7].last_sequence == 11
        assert again.producers.first_unstable_offset == 0

    @pytest.mark.parametrize("active", [True, False])
    @pytest.mark.parametrize("rubbish", [b"\xff" * 34, b"\0" * 34, b"\0" * 20])
    def test_a_broken_transaction_index_is_rebuilt(self, tmp_path: Path, rubbish: bytes, active: bool) -> None:
        config = LogConfig() if active else SMALL
        log = open_at(tmp_path, config)
        for sequence, commit in enumerate((False, True, False, False)):
            log.append_as_leader(batch("x", producer_id=1, epoch=0, sequence=sequence, transactional=True), 0, NOW)
            log.append_as_leader(end_txn_marker(0, NOW, 1, 0, commit, 1, 0), 0, NOW, AppendOrigin.COORDINATOR)
        expected = log.aborted_txns_between(0, 8)
        assert [txn.first_offset for txn in expected] == [0, 4, 6]
        log.close(NOW)
        paths = list((tmp_path / "t-0").glob("*.txnindex"))
        assert len(paths) == (1 if active else 2)
        for path in paths:
            path.write_bytes(rubbish)
        again = open_at(tmp_path, config, clean=True)
        again.append_as_leader(batch("x", producer_id=1, epoch=0, sequence=4, transactional=True), 0, NOW)
        again.append_as_leader(end_txn_marker(0, NOW, 1, 0, False, 1, 0), 0, NOW, AppendOrigin.COORDINATOR)
        assert again.aborted_txns_between(0, 8) == expected
        assert [txn.first_offset for txn in again.aborted_txns_between(0, 10)] == [0, 4, 6, 8]

    @pytest.mark.parametrize("clean", [True, False])
    def test_a_damaged_segment_without_an_index_is_cut_and_kept_and_the_log_opens(
        self, tmp_path: Path, clean: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        directory = stopped(tmp_path)
        log = directory / f"{FIRST}.log"
        data = log.read_bytes()
        log.write_bytes(data[:-5])
        (directory / f"{FIRST}.index").unlink()
        again = open_at(tmp_path, SMALL, clean=clean, recovery_point=12)
        assert [record.offset for record in read_all(again)] == [0, 1, 2, 3, *range(5, 12)]
        assert (directory / f"{FIRST}.log.corrupt").read_bytes() == data[308:-5]
        line = next(record for record in caplog.records if "is damaged" in record.message)
        assert line.levelno == logging.ERROR
        assert "offsets 4 up to the next segment" in line.message

    def test_an_index_without_a_log_is_removed(self, tmp_path: Path) -> None:
        directory = stopped(tmp_path)
        orphan = directory / "00000000000000000999.index"
        orphan.write_bytes(bytes(8))
        open_at(tmp_path, SMALL, clean=True)
        assert not orphan.exists()

    def test_recovery_writes_the_very_indexes_that_appending_did(self, tmp_path: Path) -> None:
        log = filled(tmp_path)
        log.active.seal()
        expected = {path.name: path.read_bytes() for path in (tmp_path / "t-0").glob("*index")}
        again, _ = recovered(tmp_path)
        again.active.seal()
        assert {path.name: path.read_bytes() for path in (tmp_path / "t-0").glob("*index")} == expected


@pytest.mark.parametrize("tail", [b"\0" * 100, b"\0" * 7, b"torn"])
def test_an_active_segment_that_was_damaged_after_a_clean_stop_is_cut_and_kept(tmp_path: Path, tail: bytes) -> None:
    """To append behind the rubbish would make all that comes after it unreadable."""
    directory = stopped(tmp_path, 3, LogConfig())
    file = directory / f"{FIRST}.log"
    size = file.stat().st_size
    file.write_bytes(file.read_bytes()[:-10] + tail)
    log = open_at(tmp_path, LogConfig(), clean=True, recovery_point=3)
    assert log.end_offset == 2
    log.append_as_leader(batch("goes on"), 1, NOW)
    assert values(log) == ["value 000", "value 001", "goes on"]
    kept = (directory / f"{FIRST}.log.corrupt").read_bytes()
    assert kept.endswith(tail)
    assert len(kept) == size // 3 - 10 + len(tail)


class TestInterruptedSwaps:
    """The file names that compaction leaves at each step (Kafka's `.cleaned`, `.swap`, `.deleted`)."""

    def rename(self, path: Path, base: str, suffix: str) -> None:
        for kind in (".log", ".index", ".timeindex"):
            (path / f"{base}{kind}").rename(path / f"{base}{kind}{suffix}")

    def copy(self, path: Path, base: str, suffix: str) -> None:
        for kind in (".log", ".index", ".timeindex"):
            (path / f"{base}{kind}{suffix}").write_bytes((path / f"{base}{kind}").read_bytes())

    def test_a_cleaned_segment_that_was_not_swapped_in_is_dropped(self, tmp_path: Path) -> None:
        directory = stopped(tmp_path)
        self.copy(directory, FIRST, ".cleaned")
        log = open_at(tmp_path, SMALL, clean=True)
        assert len(read_all(log)) == 12
        assert not list(directory.glob("*.cleaned"))

    def test_a_half_renamed_cleaned_segment_is_dropped(self, tmp_path: Path) -> None:
        directory = stopped(tmp_path)
        self.copy(directory, FIRST, ".cleaned")
        (directory / f"{FIRST}.log.cleaned").rename(directory / f"{FIRST}.log.swap")
        log = open_at(tmp_path, SMALL, clean=True)
        assert len(read_all(log)) == 12
        assert not list(directory.glob("*.swap"))

    def test_a_swap_that_was_decided_is_completed(self, tmp_path: Path) -> None:
        directory = stopped(tmp_path)
        bases = [segment.base_offset for segment in open_at(tmp_path, SMALL, clean=True).segments]
        # The second segment's content stands for the cleaned one of the first two.
        second = f"{bases[1]:020d}"
        for kind in (".log", ".index", ".timeindex"):
            (directory / f"{FIRST}{kind}.swap").write_bytes((directory / f"{second}{kind}").read_bytes())
        log = open_at(tmp_path, SMALL, clean=True)
        assert read_all(log)[0].offset == bases[1]
        assert [segment.base_offset for segment in log.segments] == [0, *bases[2:]]
        assert not list(directory.glob("*.swap"))

    def test_deleted_files_are_removed(self, tmp_path: Path) -> None:
        directory = stopped(tmp_path)
        self.rename(directory, FIRST, ".deleted")
        log = open_at(tmp_path, SMALL, clean=True)
        assert log.start_offset > 0
        assert not list(directory.glob("*.deleted"))


def test_a_log_without_files_restarts_at_its_start_offset(tmp_path: Path) -> None:
    directory = stopped(tmp_path)
    for path in directory.iterdir():
        path.unlink()
    log = open_at(tmp_path, SMALL, clean=True, start_offset=9)
    assert (log.start_offset, log.end_offset) == (9, 9)


def test_a_damaged_snapshot_is_made_up_for_by_the_log(tmp_path: Path) -> None:
    log = open_at(tmp_path, LogConfig())
    for sequence in range(3):
        log.append_as_leader(batch("x", producer_id=1, epoch=0, sequence=sequence), 0, NOW)
    log.close(NOW)
    for snapshot in (tmp_path / "t-0").glob("*.snapshot"):
        snapshot.write_bytes(snapshot.read_bytes()[:-1] + b"!")
    again = open_at(tmp_path, LogConfig(), clean=True)
    assert again.producers.by_id[1].last_sequence == 2


def test_a_gap_after_a_segment_with_gaps_is_compactions_and_no_loss(tmp_path: Path) -> None:
    """Kafka may be killed between a compaction and its checkpoint."""
    log = open_at(tmp_path, LogConfig(compact=True))
    for offset in (0, 3, 4):
        log.append_as_follower(encode_batch([Record(offset, NOW, b"k", b"v", ())], leader_epoch=0), NOW)
    log.roll(NOW, 9)
    log.append_as_follower(encode_batch([Record(9, NOW, b"k", b"v", ())], leader_epoch=0), NOW)
    again, metrics = recovered(tmp_path, config=LogConfig(compact=True))
    assert [record.offset for record in read_all(again)] == [0, 3, 4, 9]
    assert metrics.corrupt_bytes == 0


def test_damage_below_the_recovery_point_does_not_keep_a_log_from_opening(tmp_path: Path) -> None:
    """Nor a whole node: without snapshots producer state and leader epochs are read from all of it."""
    directory = stopped(tmp_path)
    for path in [*directory.glob("*.snapshot"), directory / "leader-epoch-checkpoint"]:
        path.unlink()
    file = directory / f"{FIRST}.log"
    data = bytearray(file.read_bytes())
    data[8] = 0x7F
    file.write_bytes(data)
    again, _ = recovered(tmp_path, recovery_point=12)
    assert again.end_offset == 12
    assert [record.offset for record in read_all(again, 5)] == list(range(5, 12))
