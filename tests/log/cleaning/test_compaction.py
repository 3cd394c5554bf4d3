"""Compaction against a model on random logs, and its rules one by one."""

import gzip
import json
import random
import tarfile
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cordwood.log.cleaning.cleaner import Cleaner, CleanerConfig
from cordwood.log.cleaning.compaction import Compacted, DedupeBufferTooSmall, Source, group_segments
from cordwood.log.cleaning.throttle import Throttle
from cordwood.log.config import LogConfig
from cordwood.log.dirs.directory import LogDirectory
from cordwood.log.files import CLEANED, LOG, OFFSET_INDEX, TIME_INDEX
from cordwood.log.log import Log
from cordwood.runtime.files.local_disk import LocalDisk
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.virtual.disk import SimDisk
from cordwood.wire.batch_header import BatchHeader
from cordwood.wire.compression import Codec, compress
from cordwood.wire.legacy import encode_message
from cordwood.wire.record import Record
from cordwood.wire.records import decode_batch, encode_batch
from tests.log.cleaning.compaction_model import (
    DELETE_RETENTION_MS,
    PARTITION,
    FakeClock,
    RandomLog,
    World,
    batches_of,
    read_committed,
    read_uncommitted,
)

LOGS = 500
_CHUNK = 25
VECTORS = Path(__file__).parents[2] / "vectors"


@pytest.mark.parametrize("first_seed", range(0, LOGS, _CHUNK))
def test_a_compacted_log_reads_as_the_model_says(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + _CHUNK):
        try:
            RandomLog(seed).run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


# Retained records


def test_the_last_record_of_each_key_stays_at_its_offset() -> None:
    world = make_world()
    world.append(("a", "1"), ("b", "2"), ("a", "3"))
    world.append(("b", "4"), ("c", "5"))
    clean(world)
    assert contents(world) == [(2, "a", "3"), (3, "b", "4"), (4, "c", "5")]


def test_a_clean_record_goes_once_a_dirty_one_supersedes_it_and_stays_otherwise() -> None:
    world = make_world()
    world.append(("a", "1"), ("b", "2"))
    clean(world)
    world.append(("b", "3"))
    clean(world)
    assert contents(world) == [(0, "a", "1"), (2, "b", "3")]


def test_a_batch_without_removed_records_is_copied_unchanged() -> None:
    world = make_world()
    world.append(("a", "1"), ("b", "2"), codec=Codec.ZSTD)
    world.append(("c", "3"))
    before = [bytes(data) for _, data in batches_of(world.log)]
    clean(world)
    assert [bytes(data) for _, data in batches_of(world.log)] == before


def test_a_batch_keeps_its_offsets_sequence_and_codec_when_records_go() -> None:
    world = make_world()
    world.append(("a", "1"), ("b", "2"), ("c", "3"), producer_id=7, codec=Codec.LZ4)
    world.append(("a", "4"), ("c", "5"), producer_id=7)
    clean(world)
    header = headers(world)[0]
    assert (header.base_offset, header.last_offset, header.count) == (0, 2, 1)
    assert (header.base_sequence, header.last_sequence, header.codec) == (0, 2, Codec.LZ4)


def test_keyless_records_are_dropped_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    world = make_world()
    world.log.config = LogConfig(segment_bytes=2000)
    keyless = encode_batch([Record(index, world.now_ms, None, b"x", ()) for index in range(2)])
    world.log.append_as_leader(keyless, 0, world.now_ms)
    world.append(("a", "1"))
    world.log.config = world.config
    result = clean(world)
    assert contents(world) == [(2, "a", "1")]
    assert result.stats.keyless_records == 2
    assert "t-0: compaction dropped 2 records without a key" in caplog.text


# Tombstones


def test_a_tombstone_supersedes_the_value_and_bears_its_delete_horizon() -> None:
    world = make_world()
    world.append(("a", "1"), ("b", "2"))
    world.append(("a", None))
    clean(world)
    assert contents(world) == [(1, "b", "2"), (2, "a", None)]
    horizons = {header.base_offset: header.delete_horizon_ms for header in headers(world)}
    assert horizons == {0: None, 2: world.now_ms + DELETE_RETENTION_MS}


def test_a_tombstone_goes_delete_retention_ms_after_it_was_first_cleaned_and_not_before() -> None:
    world = make_world()
    world.append(("a", None))
    world.append(("b", "1"))
    clean(world)
    first_cleaned_ms = world.now_ms
    for later_ms, is_there in ((1, True), (DELETE_RETENTION_MS - 1, True), (DELETE_RETENTION_MS, False)):
        world.clock.ms = first_cleaned_ms + later_ms
        world.append(("b", str(later_ms)))
        clean(world)
        assert ((0, "a", None) in contents(world)) is is_there, f"{later_ms} ms later"


# Transactions


def test_aborted_data_goes_and_committed_data_stays() -> None:
    world = make_world()
    world.append(("a", "old"))
    world.append(("a", "aborted"), producer_id=1, transactional=True)
    world.append(("b", "committed"), producer_id=2, transactional=True)
    world.end_txn(1, commit=False)
    world.end_txn(2, commit=True)
    forget_producers(world)
    clean(world)
    assert contents(world) == [(0, "a", "old"), (2, "b", "committed")]


def test_data_that_was_aborted_by_a_marker_beyond_the_cleaned_range_goes_too() -> None:
    world = make_world()
    world.append(("a", "old"))
    world.append(("a", "aborted"), producer_id=1, transactional=True)
    world.roll()
    world.append(("x", "open"), producer_id=2, transactional=True)
    world.end_txn(1, commit=False)
    forget_producers(world)
    world.roll()
    result = world.clean()
    assert result is not None
    assert result.end_offset == 2
    assert (0, "a", "old") in contents(world)
    assert (1, "a", "aborted") not in contents(world)


def test_nothing_from_the_first_open_transaction_on_is_touched() -> None:
    world = make_world()
    world.append(("a", "1"))
    world.append(("a", "2"))
    world.roll()
    world.append(("b", "1"))
    world.append(("b", "2"), producer_id=1, transactional=True)
    world.append(("b", "3"))
    world.roll()
    world.append(("b", "4"))
    world.roll()
    world.clean_all()
    assert contents(world) == [(1, "a", "2"), (2, "b", "1"), (3, "b", "2"), (4, "b", "3"), (5, "b", "4")]


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_stays_until_its_data_has_gone_and_delete_retention_ms_longer(commit: bool) -> None:
    world = make_world()
    world.append(("a", "1"), producer_id=1, transactional=True)
    marker = world.end_txn(1, commit=commit)
    forget_producers(world)
    world.append(("a", "2"))
    clean(world)
    assert horizon_of(world, marker) == "none yet", "data was there when the pass came by"
    world.append(("a", "3"))
    clean(world)
    assert horizon_of(world, marker) == world.now_ms + DELETE_RETENTION_MS
    horizon_ms = world.now_ms + DELETE_RETENTION_MS
    world.clock.ms = horizon_ms - 1
    world.append(("a", "4"))
    clean(world)
    assert horizon_of(world, marker) == horizon_ms
    world.clock.ms = horizon_ms
    world.append(("a", "5"))
    clean(world)
    assert horizon_of(world, marker) == "gone"


def test_the_marker_of_a_transaction_with_live_data_stays_however_long() -> None:
    world = make_world()
    world.append(("a", "1"), producer_id=1, transactional=True)
    marker = world.end_txn(1, commit=True)
    forget_producers(world)
    for value in "234":
        world.clock.ms += 2 * DELETE_RETENTION_MS
        world.append(("b", value))
        clean(world)
        assert horizon_of(world, marker) == "none yet"


def test_a_marker_goes_for_its_own_transaction_whatever_its_producer_has_in_others() -> None:
    world = make_world()
    world.append(("a", "live"), producer_id=1, transactional=True)
    first = world.end_txn(1, commit=True)
    world.append(("b", "1"), producer_id=1, transactional=True)
    second = world.end_txn(1, commit=True)
    forget_producers(world)
    for value in "23":
        world.append(("b", value))
        clean(world)
    assert horizon_of(world, first) == "none yet"
    assert horizon_of(world, second) == world.now_ms + DELETE_RETENTION_MS


def test_aborted_transactions_stay_indexed_while_readers_need_them() -> None:
    world = make_world()
    first = world.append(("a", "aborted"), producer_id=1, transactional=True)
    marker = world.end_txn(1, commit=False)
    forget_producers(world)
    world.append(("b", "1"))
    clean(world)
    indexed = world.log.aborted_txns_between(0, world.log.end_offset)
    assert [(txn.producer_id, txn.first_offset, txn.last_offset) for txn in indexed] == [(1, first, marker)]
    world.append(("b", "2"))
    clean(world)
    assert world.log.aborted_txns_between(0, world.log.end_offset) == []


# Batches that stay without records


def test_the_last_batch_of_a_producer_that_is_remembered_is_kept_without_its_records() -> None:
    world = make_world()
    world.append(("a", "1"), producer_id=1)
    world.append(("a", "2"), ("b", "3"), producer_id=1)
    world.append(("a", "4"), ("b", "5"))
    clean(world)
    kept = [header for header in headers(world) if header.producer_id == 1]
    assert [(header.base_offset, header.last_offset, header.base_sequence, header.count) for header in kept] == [
        (1, 2, 1, 0)
    ]
    world.crash(lose_snapshots=True)
    world.check_retries()


def test_the_last_batch_of_an_aborted_transaction_is_kept_without_its_records() -> None:
    world = make_world()
    world.append(("a", "1"), producer_id=1, transactional=True)
    marker = world.end_txn(1, commit=False)
    world.append(("b", "2"))
    for _ in range(3):
        world.clock.ms += 2 * DELETE_RETENTION_MS
        clean(world)
        world.append(("b", "3"))
    assert [(header.base_offset, header.count) for header in headers(world) if header.producer_id == 1] == [
        (0, 0),
        (marker, 1),
    ]
    assert b"1" not in [record.value for record in read_uncommitted(world.log)]
    assert [txn.last_offset for txn in world.log.aborted_txns_between(0, world.log.end_offset)] == [marker]


def test_a_marker_that_is_all_a_producer_has_in_its_epoch_is_kept() -> None:
    world = make_world()
    world.append(("a", "1"), producer_id=1, transactional=True)
    marker = world.end_txn(1, commit=False, bump_epoch=True)
    for value in "234":
        world.clock.ms += 2 * DELETE_RETENTION_MS
        world.append(("b", value))
        clean(world)
    kept = [(header.base_offset, header.producer_epoch, header.count) for header in headers(world) if header.is_control]
    assert kept == [(marker, 1, 0)], "emptied in the end, but there, since it fences the epoch before"


def test_the_last_batch_of_the_cleaned_range_is_kept_so_that_no_offsets_go_missing() -> None:
    world = make_world()
    world.append(("a", "1"))
    world.append(("b", "aborted"), producer_id=1, transactional=True)
    world.roll()
    world.end_txn(1, commit=False)
    forget_producers(world)
    result = world.clean()
    assert result is not None
    assert [(header.base_offset, header.count) for header in headers(world)] == [(0, 1), (1, 0), (2, 1)]


def test_a_batch_that_lost_its_records_goes_when_nothing_needs_it() -> None:
    world = make_world()
    world.append(("a", "1"))
    world.append(("a", "2"))
    clean(world)
    assert [header.base_offset for header in headers(world)] == [1]


# Memory


def test_keys_that_do_not_fit_into_the_map_take_several_passes_to_the_same_result() -> None:
    for seed in range(12):
        large, small = RandomLog(seed), RandomLog(seed)
        small.cleaner_config = CleanerConfig(dedupe_buffer_size=24 * 11)
        for world in (large, small):
            # Every batch has fewer keys than the small map takes; a segment may have more.
            world.keys = [f"k{number}" for number in range(25)]
            for _ in range(120):
                world.write()
            for client in world.clients.values():
                if client.txn is not None:
                    world.end_txn(client.producer_id, commit=client.producer_id % 2 == 0)
            world.roll()
            world.config = replace(world.config, min_cleanable_dirty_ratio=0.0)
            world.reopen()
        assert large.clean_all() == 1
        assert small.clean_all() > 1
        assert small.clean_to == large.clean_to
        assert read_uncommitted(small.log) == read_uncommitted(large.log)
        assert read_committed(small.log) == read_committed(large.log)


def test_a_pass_ends_within_a_segment_when_the_map_is_full() -> None:
    world = make_world(dedupe_buffer_size=24 * 7)
    for number in range(10):
        world.append((f"k{number}", "1"), (f"k{number}", "2"))
    world.append(("k0", "3"))
    world.roll()
    world.append(("z", "1"))
    world.roll()
    result = world.clean()
    assert result is not None
    assert (result.end_offset, result.replaced) == (12, 1), "six keys fit, and the second segment is not looked at"
    assert [offset for offset, _, _ in contents(world)] == [1, 3, 5, 7, 9, 11, *range(12, 22)]
    assert world.clean_all() == 1
    assert [offset for offset, _, _ in contents(world)] == [3, 5, 7, 9, 11, 13, 15, 17, 19, 20, 21]


def test_a_map_that_is_too_small_for_one_batch_is_an_error_that_names_the_setting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = make_world(dedupe_buffer_size=24 * 7)
    world.append(*((f"k{number}", "1") for number in range(7)))
    world.roll()
    plan = world.cleaner.next(world.now_ms)
    assert plan is not None
    outcome = plan.run()
    assert isinstance(outcome.result, DedupeBufferTooSmall)
    assert not world.cleaner.install(outcome, world.now_ms)
    assert "t-0: compaction failed" in caplog.text
    assert "log.cleaner.dedupe.buffer.size" in caplog.text


def test_a_pass_needs_no_more_memory_than_its_buffers(tmp_path: Path) -> None:
    config = LogConfig(compact=True, delete=False, segment_bytes=4 << 20)
    world = World(LocalDisk(str(tmp_path)), config, CleanerConfig(dedupe_buffer_size=1 << 20, io_buffer_size=1 << 18))
    for number in range(300):
        world.append(*((f"k{(number * 50 + index) % 10_000}", "v" * 1000) for index in range(50)))
    world.roll()
    plan = world.cleaner.next(world.now_ms)
    assert plan is not None
    assert world.log.size > 14 << 20
    tracemalloc.start()
    result = plan.run().result
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(result, Compacted)
    assert peak < 2 << 20


# Segments


def test_neighbours_are_combined_as_long_as_they_fit() -> None:
    config = LogConfig(segment_bytes=100, segment_index_bytes=50)

    def groups(*sources: Source) -> list[list[int]]:
        return [[source.base_offset for source in group] for group in group_segments(sources, config)]

    def source(base: int, end: int, log: int = 1, index: int = 0, time_index: int = 0) -> Source:
        return Source(base, end, {LOG: log, OFFSET_INDEX: index, TIME_INDEX: time_index})

    assert groups(source(0, 10, 60), source(10, 20, 40), source(20, 30, 1)) == [[0, 10], [20]]
    assert groups(source(0, 10, index=30), source(10, 20, index=30)) == [[0], [10]]
    assert groups(source(0, 10, time_index=30), source(10, 20, time_index=20), source(20, 30, time_index=1)) == [
        [0, 10],
        [20],
    ]
    assert groups(source(0, 10), source(10, 2**31)) == [[0, 10]]
    assert groups(source(0, 10), source(10, 2**31 + 1)) == [[0], [10]]
    assert groups(source(0, 10), source(10, 2**31 + 1, 0)) == [[0, 10]], "an empty one has no offsets"
    assert groups(source(0, 10, 500), source(10, 20, 500)) == [[0], [10]]


def test_a_cleaned_segment_has_indexes_that_lead_to_its_batches() -> None:
    world = make_world(segment_bytes=100_000, index_interval_bytes=1)
    for number in range(60):
        world.clock.ms += 1000
        world.append((f"k{number % 40}", str(number)))
    clean(world)
    segment = world.log.segments.first
    entries = segment.offset_index.entries()
    assert len(entries) == 39
    world.reopen()
    for offset in range(world.log.end_offset):
        found = world.log.segments.first.locate(offset)
        assert found is not None
        assert found[1].base_offset == max(offset, 20)
    oldest = next(record for record in read_uncommitted(world.log) if record.offset == 35)
    looked_up = world.log.offset_for_timestamp(oldest.timestamp)
    assert looked_up is not None
    assert looked_up.offset == 35


def test_a_gap_at_the_end_of_the_range_is_clean_too() -> None:
    world = make_world()
    world.append(("a", "1"))
    far = 2**31 + 5
    batch = encode_batch([Record(far, world.now_ms, b"a", b"2", ())], leader_epoch=0)
    world.log.append_as_follower(batch, world.now_ms)
    world.log.advance_high_watermark(world.log.end_offset)
    assert world.log.active.base_offset == far
    assert world.clean_all() == 1
    assert world.clean_to == far


# Old messages


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_are_compacted_and_their_tombstones_get_a_horizon_as_magic_2(magic: int) -> None:
    world = make_world()
    time_ms = world.now_ms
    inner = b"".join(
        encode_message(magic, offset, time_ms, key, value)
        for offset, key, value in ((0, b"a", b"4"), (1, b"e", b"5"), (2, b"f", b"6"))
    )
    if magic == 0:
        inner = b"".join(
            encode_message(0, 3 + offset, time_ms, key, value)
            for offset, key, value in ((0, b"a", b"4"), (1, b"e", b"5"), (2, b"f", b"6"))
        )
    data = b"".join(
        [
            encode_message(magic, 0, time_ms, b"a", b"1"),
            encode_message(magic, 1, time_ms, b"b", None),
            encode_message(magic, 2, time_ms, b"c", b"3"),
            encode_message(magic, 5, time_ms, None, bytes(compress(Codec.GZIP, inner)), codec=Codec.GZIP),
        ]
    )
    world.log.append_as_follower(data, world.now_ms)
    world.append(("e", "7"))
    clean(world)
    assert contents(world) == [(1, "b", None), (2, "c", "3"), (3, "a", "4"), (5, "f", "6"), (6, "e", "7")]
    assert {header.base_offset: (header.magic, header.delete_horizon_ms) for header in headers(world)} == {
        1: (2, world.now_ms + DELETE_RETENTION_MS),
        2: (magic, None),
        3: (2, None),
        6: (2, None),
    }
    world.clock.ms += DELETE_RETENTION_MS
    world.append(("e", "8"))
    clean(world)
    assert (1, "b", None) not in contents(world)


# Damage


@pytest.mark.parametrize("position", [20, 70], ids=["in the header", "in a record"])
def test_a_damaged_batch_ends_the_compaction_and_nothing_is_dropped(
    position: int, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    world = World(LocalDisk(str(tmp_path)), make_config())
    world.append(("a", "1"))
    world.append(("a", "2"))
    clean_to = world.log.end_offset
    world.append(("a", "3"))
    world.roll()
    path = tmp_path / "t-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[headers(world)[0].size + position] ^= 0x10
    path.write_bytes(data)
    outcome = world.cleaner.next(world.now_ms)
    assert outcome is not None
    assert not world.cleaner.install(outcome.run(), world.now_ms)
    assert clean_to > 0
    assert path.read_bytes() == data
    assert not list(tmp_path.glob(f"t-0/*{CLEANED}"))
    assert "t-0: compaction failed" in caplog.text
    assert list(world.cleaner.uncleanable) == [PARTITION]
    assert world.cleaner.next(world.now_ms) is None


# The rate


def test_reading_and_writing_are_held_to_the_rate() -> None:
    world = make_world(io_max_bytes_per_second=1000)
    for number in range(40):
        world.append((f"k{number % 20}", "v" * 50))
    world.roll()
    size = world.log.size
    started = world.clock.monotonic()
    result = world.clean()
    assert result is not None
    # Read twice, half of it written.
    transferred = 2 * size + result.stats.bytes_written
    assert world.clock.monotonic() - started == pytest.approx(transferred / 1000, rel=0.05)


def test_a_job_without_a_limit_does_not_wait() -> None:
    world = make_world()
    world.append(("a", "1"))
    started = world.clock.monotonic()
    clean(world)
    assert world.clock.monotonic() == started


def test_a_slow_stretch_does_not_pay_for_a_fast_one() -> None:
    clock = FakeClock()
    throttle = Throttle(clock, 1000)
    clock.sleep(100)
    throttle.spend(1000)
    started = clock.monotonic()
    throttle.spend(1000)
    assert clock.monotonic() - started == pytest.approx(1.0, rel=0.02)


def test_a_throttled_job_can_be_stopped() -> None:
    world = make_world(io_max_bytes_per_second=10)
    world.append(("a", "1"))
    world.append(("a", "2"))
    world.roll()
    plan = world.cleaner.next(world.now_ms)
    assert plan is not None
    sleep: Callable[[float], None] = world.clock.sleep

    def stop_while_it_sleeps(seconds: float) -> None:
        sleep(seconds)
        world.cleaner.stop(PARTITION)

    world.clock.sleep = stop_while_it_sleeps  # type: ignore[method-assign]
    started = world.clock.monotonic()
    outcome = plan.run()
    assert world.clock.monotonic() - started <= 0.5, "not the seven seconds that the first batch is worth"
    assert not world.cleaner.install(outcome, world.now_ms)
    assert world.cleaner.uncleanable == {}
    assert contents(world) == [(0, "a", "1"), (1, "a", "2")]


# Kafka's own


@pytest.mark.parametrize("partition", [("compacted", 0), ("compacted", 1), ("compacted-txn", 0)])
def test_segments_compacted_by_kafka_stay_and_the_rest_is_compacted(partition: tuple[str, int], tmp_path: Path) -> None:
    with tarfile.open(VECTORS / "kafka-data-dir.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    with gzip.open(VECTORS / "kafka-data-dir.json.gz") as file:
        facts = next(
            facts for facts in json.load(file)["partitions"] if (facts["topic"], facts["partition"]) == partition
        )
    config = LogConfig(compact=True, delete=False, segment_bytes=1 << 20, min_cleanable_dirty_ratio=0.0)
    clock = FakeClock()
    # The time of Kafka's run, so that no horizon has passed and no producer has expired.
    clock.ms = max(batch["maxTimestamp"] for segment in facts["segments"] for batch in segment["batches"]) + 1

    def opened() -> LogDirectory:
        directory = LogDirectory(LocalDisk(str(tmp_path / "data")), lambda _topic: config, clock, SeededRandom(1))
        directory.open()
        directory.logs = {partition: directory.logs[partition]}
        return directory

    def compact(directory: LogDirectory) -> None:
        cleaner = Cleaner([directory], CleanerConfig(), clock)
        plan = cleaner.next(clock.now_ms())
        assert plan is not None
        outcome = plan.run()
        assert cleaner.install(outcome, clock.now_ms()), outcome

    def records(log: Log) -> list[Record]:
        return [record for _, data in batches_of(log) for record in decode_batch(data)]

    directory = opened()
    log = directory.logs[partition]
    before, producers = records(log), repr(log.producers.by_id)
    assert [record.offset for record in before] == [record["offset"] for record in facts["records"]]
    # Up to where Kafka has cleaned it, the log is compacted already: doing it again must not change a record.
    assert log.active.base_offset == facts["checkpointCleaner"]
    directory.checkpoints.cleaner_offsets.clear()
    compact(directory)
    assert records(log) == before

    latest = {record.key: record for record in read_committed(log)}
    log.roll(clock.now_ms())
    compact(directory)
    assert read_uncommitted(log) == sorted(latest.values(), key=lambda record: record.offset)
    after = records(log)
    directory.close()
    directory = opened()
    assert records(directory.logs[partition]) == after
    assert repr(directory.logs[partition].producers.by_id) == producers


def make_config(**overrides: int) -> LogConfig:
    settings: dict[str, int] = {"segment_bytes": 2000, "delete_retention_ms": DELETE_RETENTION_MS, **overrides}
    return LogConfig(compact=True, delete=False, min_cleanable_dirty_ratio=0.0, **settings)  # type: ignore[arg-type]


def make_world(
    *,
    segment_bytes: int = 2000,
    index_interval_bytes: int = 4096,
    dedupe_buffer_size: int = 1 << 20,
    io_max_bytes_per_second: float = 1e308,
) -> World:
    config = make_config(segment_bytes=segment_bytes, index_interval_bytes=index_interval_bytes)
    cleaner_config = CleanerConfig(
        dedupe_buffer_size=dedupe_buffer_size, io_max_bytes_per_second=io_max_bytes_per_second
    )
    return World(SimDisk(random.Random(1)), config, cleaner_config)


def clean(world: World) -> Compacted:
    """Everything written so far, in one pass."""
    world.roll()
    result = world.clean()
    assert result is not None
    assert world.clean_to == world.log.end_offset
    return result


def forget_producers(world: World) -> None:
    """As when producer.id.expiration.ms has passed: nothing is kept for their sake."""
    world.log.producers.by_id.clear()
    world.clients.clear()


def contents(world: World) -> list[tuple[int, str, str | None]]:
    return [
        (record.offset, (record.key or b"").decode(), None if record.value is None else record.value.decode())
        for record in read_uncommitted(world.log)
    ]


def headers(world: World) -> list[BatchHeader]:
    return [header for header, _ in batches_of(world.log)]


def horizon_of(world: World, marker_offset: int) -> int | str:
    for header, data in batches_of(world.log):
        if header.base_offset == marker_offset:
            assert header.is_control
            assert len(decode_batch(data)) == 1
            return "none yet" if header.delete_horizon_ms is None else header.delete_horizon_ms
    return "gone"
