"""The files that we write: Kafka's very bytes where its own are available, and by the documented layouts elsewhere."""

import gzip
import json
import random
import tarfile
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from cordwood.log.checkpoints.formats import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    CorruptCheckpoint,
    MetaProperties,
    encode_clean_shutdown,
    encode_partition_metadata,
    read_offsets,
    write_offsets,
)
from cordwood.log.config import LogConfig
from cordwood.log.dirs.directory import LogDirectory
from cordwood.log.epochs import EpochStart, LeaderEpochs
from cordwood.log.idempotence.producers import AppendOrigin
from cordwood.log.log import Log
from cordwood.log.recovery import OpenOptions, open_log
from cordwood.runtime.files.local_disk import LocalDisk
from cordwood.runtime.randomness import SeededRandom
from cordwood.wire.control import end_txn_marker
from cordwood.wire.primitives import uuid_from_text
from cordwood.wire.records import Record, encode_batch
from tests.log.layout import (
    Batch,
    ProducerEntry,
    Txn,
    read_clean_shutdown,
    read_offset_index,
    read_partition_metadata,
    read_producer_snapshot,
    read_properties,
    read_segment,
    read_table,
    read_time_index,
    read_txn_index,
)

VECTORS = Path(__file__).parent.parent / "vectors"
TOPIC_RESOURCE = 2
# From both runs of the broker whose directory this is. Most records claim to be three years older.
FIRST_RUN_MS, SECOND_RUN_MS = 1_794_771_797_000, 1_794_771_810_000
SECOND_RUN_EPOCH = 2
# Compaction has rewritten these, so that what was appended to them is not known.
CLEANED = {"compacted", "compacted-txn"}


class StoppedClock:
    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._now_ms / 1000

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing waits here")


@cache
def description() -> dict[str, Any]:
    stated: dict[str, Any] = json.loads(gzip.decompress((VECTORS / "kafka-data-dir.json.gz").read_bytes()))
    return stated


@pytest.fixture(scope="module")
def kafkas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("kafka")
    with tarfile.open(VECTORS / "kafka-data-dir.tar.gz") as archive:
        archive.extractall(target, filter="data")
    return target / "data"


def partitions() -> list[str]:
    return [f"{p['topic']}-{p['partition']}" for p in description()["partitions"] if p["topic"] not in CLEANED]


def config_of(topic: str) -> LogConfig:
    settings: dict[str, str] = {}
    metadata = next(p for p in description()["partitions"] if p["topic"] == "__cluster_metadata")
    for record in metadata["records"]:
        data = record.get("decoded", {}).get("data", {})
        if (data.get("resourceType"), data.get("resourceName")) == (TOPIC_RESOURCE, topic):
            settings[data["name"]] = data["value"]
    return LogConfig(
        compact=settings.get("cleanup.policy") == "compact",
        index_interval_bytes=int(settings.get("index.interval.bytes", 4096)),
        # The broker's log.index.size.max.bytes.
        segment_index_bytes=int(settings.get("segment.index.bytes", 4096)),
        segment_bytes=int(settings.get("internal.segment.bytes", settings.get("segment.bytes", 2**30))),
    )


@pytest.mark.parametrize("partition", partitions())
def test_appending_kafkas_batches_gives_kafkas_files_byte_for_byte(
    partition: str, kafkas: Path, tmp_path: Path
) -> None:
    theirs = {path.name: path.read_bytes() for path in (kafkas / partition).iterdir() if path.name[:20].isdigit()}
    theirs = {name: data for name, data in theirs.items() if not name.endswith((".checkpoint", ".deleted"))}
    disk = LocalDisk(str(tmp_path))
    append_again(
        disk,
        partition,
        [batch for name in sorted(theirs) if name.endswith(".log") for batch in read_segment(theirs[name])],
    )
    ours = {path.name: path.read_bytes() for path in (tmp_path / partition).iterdir() if path.name[:20].isdigit()}
    if not any(theirs.values()):
        # Index files come with the first batch; Kafka makes them when it opens such a partition.
        theirs = {name: data for name, data in theirs.items() if name.endswith(".log")}
    assert sorted(ours) == sorted(theirs)
    assert [name for name in ours if ours[name] != theirs[name]] == []


def append_again(disk: LocalDisk, partition: str, batches: list[Batch]) -> None:
    """Appends batch by batch as the broker did, with its stop and start between the two runs."""
    topic = partition.rpartition("-")[0]
    log = open_again(disk, partition, topic, FIRST_RUN_MS)
    now_ms = FIRST_RUN_MS
    for batch in batches:
        if batch.leader_epoch >= SECOND_RUN_EPOCH and now_ms == FIRST_RUN_MS:
            now_ms = SECOND_RUN_MS
            log.close(FIRST_RUN_MS)
            log = open_again(disk, partition, topic, SECOND_RUN_MS)
        log.append_as_follower(batch.data, now_ms)
    log.close(now_ms)


def open_again(disk: LocalDisk, partition: str, topic: str, now_ms: int) -> Log:
    options = OpenOptions(clean=True)
    return open_log(disk, partition, config_of(topic), SeededRandom(0), now_ms=now_ms, options=options)


# The small files, from their contents back to Kafka's bytes


def test_checkpoints_are_written_as_kafka_writes_them(kafkas: Path, tmp_path: Path) -> None:
    theirs, ours = LocalDisk(str(kafkas)), LocalDisk(str(tmp_path))
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_START_OFFSETS, CLEANER_OFFSETS):
        write_offsets(ours, name, read_offsets(theirs, name))
        assert (tmp_path / name).read_bytes() == (kafkas / name).read_bytes()


def test_a_sealed_checkpoint_has_one_row_more(tmp_path: Path) -> None:
    disk = LocalDisk(str(tmp_path))
    write_offsets(disk, LOG_START_OFFSETS, {("t", 0): 15}, is_sealed=True)
    version, count, first, seal = (tmp_path / LOG_START_OFFSETS).read_text().splitlines()
    assert (version, count, first) == ("0", "2", "t 0 15")
    assert seal.startswith("__cordwood_checksum 0 ")


def test_a_damaged_digit_in_a_sealed_checkpoint_is_noticed(tmp_path: Path) -> None:
    disk = LocalDisk(str(tmp_path))
    offsets = {("t", 0): 15, ("a b", 7): 200}
    write_offsets(disk, LOG_START_OFFSETS, offsets, is_sealed=True)
    assert read_offsets(disk, LOG_START_OFFSETS) == offsets
    data = (tmp_path / LOG_START_OFFSETS).read_bytes()
    for old, new in ((b"t 0 15", b"t 0 95"), (b"t 0 15", b"t 1 15"), (b"a b 7", b"a b 3"), (b"t 0 15\n", b"")):
        (tmp_path / LOG_START_OFFSETS).write_bytes(data.replace(old, new))
        with pytest.raises(CorruptCheckpoint):
            read_offsets(disk, LOG_START_OFFSETS)


def test_meta_properties_are_written_as_kafka_writes_them(kafkas: Path) -> None:
    data = (kafkas / "meta.properties").read_bytes()
    written = datetime.strptime(data.decode().splitlines()[1], "#%a %b %d %H:%M:%S UTC %Y").replace(tzinfo=UTC)
    properties = MetaProperties.decode("meta.properties", data)
    assert properties.encode(int(written.timestamp() * 1000)) == data
    assert read_properties(data.decode())["cluster.id"] == properties.cluster_id


def test_the_clean_shutdown_marker_is_written_as_kafka_writes_it(kafkas: Path) -> None:
    data = (kafkas / ".kafka_cleanshutdown").read_bytes()
    assert encode_clean_shutdown(read_clean_shutdown(data.decode())) == data


@pytest.mark.parametrize("partition", partitions())
def test_partition_metadata_is_written_as_kafka_writes_it(partition: str, kafkas: Path) -> None:
    data = (kafkas / partition / "partition.metadata").read_bytes()
    assert encode_partition_metadata(uuid_from_text(read_partition_metadata(data.decode()))) == data


@pytest.mark.parametrize("partition", partitions())
def test_leader_epochs_are_written_as_kafka_writes_them(partition: str, kafkas: Path) -> None:
    data = (kafkas / partition / "leader-epoch-checkpoint").read_bytes()
    entries = [EpochStart(int(epoch), int(offset)) for epoch, offset in read_table(data.decode())]
    assert LeaderEpochs(entries).encode() == data


# A directory of our own, with rolls, epochs, and transactions

NOW_MS = 1_700_000_000_000
INDEX_INTERVAL_BYTES, SEGMENT_BYTES = 300, 2_000
TOPIC_ID = bytes(range(16))
BROKER_EPOCH = 42
START_OFFSET = 5


@dataclass(frozen=True)
class Written:
    """A directory that was stopped cleanly, and what had been done to it."""

    root: Path
    partition: Path
    end_offset: int
    high_watermark: int
    # (epoch, first offset)
    epochs: list[tuple[int, int]]
    aborted: list[Txn]

    @cached_property
    def segments(self) -> dict[int, list[Batch]]:
        paths = sorted(self.partition.glob("*.log"))
        return {int(path.stem): read_segment(path.read_bytes()) for path in paths}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    root = tmp_path_factory.mktemp("ours")
    config = LogConfig(index_interval_bytes=INDEX_INTERVAL_BYTES, segment_bytes=SEGMENT_BYTES)
    directory = LogDirectory(LocalDisk(str(root)), lambda _: config, StoppedClock(NOW_MS), SeededRandom(1))
    directory.open()
    log = directory.create("orders", 3, TOPIC_ID, NOW_MS)
    # Without records, but asked for its files: otherwise it would have none yet.
    directory.create("silent", 0, TOPIC_ID, NOW_MS).make_files()
    chance = random.Random(1)
    epochs: list[tuple[int, int]] = []
    aborted: list[Txn] = []
    sequences = {7: 0, 8: 0}
    for step in range(40):
        epoch = step // 15 * 2
        if not epochs or epochs[-1][0] != epoch:
            epochs.append((epoch, log.end_offset))
        producer_id = chance.choice([-1, 7])
        _append(log, epoch, chance, producer_id, sequences)
        if step % 6 == 5:
            first_offset = log.end_offset
            _append(log, epoch, chance, 8, sequences)
            _append(log, epoch, chance, 8, sequences)
            commit = step % 12 == 5
            marker = end_txn_marker(0, NOW_MS + step, 8, 0, commit, 1, epoch)
            end = log.append_as_leader(marker, epoch, NOW_MS, AppendOrigin.COORDINATOR).last_offset
            if not commit:
                aborted.append(Txn(0, 8, first_offset, end, end + 1))
    # One that stays open.
    _append(log, epoch, chance, 8, sequences)
    log.advance_high_watermark(log.end_offset - 1)
    log.advance_start(START_OFFSET)
    directory.close(BROKER_EPOCH)
    return Written(root, root / "orders-3", log.end_offset, log.high_watermark, epochs, aborted)


def _append(log: Log, epoch: int, chance: random.Random, producer_id: int, sequences: dict[int, int]) -> None:
    count = chance.randrange(1, 5)
    records = [
        Record(index, NOW_MS + chance.randrange(1_000_000), b"key", chance.randbytes(chance.randrange(60)))
        for index in range(count)
    ]
    batch = encode_batch(
        records,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=sequences.get(producer_id, -1),
        transactional=producer_id == 8,
    )
    if producer_id >= 0:
        sequences[producer_id] += count
    log.append_as_leader(batch, epoch, NOW_MS)


def test_segments_are_named_after_their_first_offset_and_leave_no_gap(written: Written) -> None:
    next_offset = 0
    for base_offset, batches in written.segments.items():
        assert base_offset == next_offset
        for batch in batches:
            assert (batch.magic, batch.base_offset) == (2, next_offset)
            next_offset = batch.last_offset + 1
        assert sum(batch.size for batch in batches) <= SEGMENT_BYTES
    assert next_offset == written.end_offset
    assert len(written.segments) > 3


def test_every_batch_bears_its_leaders_epoch(written: Written) -> None:
    for batch in chain.from_iterable(written.segments.values()):
        assert batch.leader_epoch == max(epoch for epoch, first in written.epochs if first <= batch.base_offset)


def test_an_index_entry_points_to_the_first_batch_after_each_interval(written: Written) -> None:
    for base_offset, batches in written.segments.items():
        offsets, times = _expected_indexes(batches)
        name = f"{base_offset:020d}"
        assert read_offset_index((written.partition / f"{name}.index").read_bytes(), base_offset) == offsets
        assert read_time_index((written.partition / f"{name}.timeindex").read_bytes(), base_offset) == times
    assert any(len(_expected_indexes(batches)[0]) > 1 for batches in written.segments.values())


def _expected_indexes(batches: list[Batch]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    offsets: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    youngest, since = (-1, -1), 0
    for batch in batches:
        if batch.max_timestamp > youngest[0]:
            youngest = (batch.max_timestamp, batch.last_offset)
        if since > INDEX_INTERVAL_BYTES:
            offsets.append((batch.last_offset, batch.position))
            if not times or youngest[0] > times[-1][0]:
                times.append(youngest)
            since = 0
        since += batch.size
    # A segment that is complete has its youngest record indexed.
    if batches and (not times or youngest[0] > times[-1][0]):
        times.append(youngest)
    return offsets, times


def test_an_aborted_transaction_is_indexed_where_its_marker_is(written: Written) -> None:
    found = []
    for path in sorted(written.partition.glob("*.txnindex")):
        txns = read_txn_index(path.read_bytes())
        batches = written.segments[int(path.stem)]
        assert txns, "there is no file where nothing was aborted"
        assert all(batches[0].base_offset <= txn.last_offset <= batches[-1].last_offset for txn in txns)
        found += txns
    assert found == written.aborted
    assert len(found) == 3


def test_producer_snapshots_exist_at_each_segment_and_at_the_end(written: Written) -> None:
    bases = sorted(written.segments)
    names = sorted(int(path.stem) for path in written.partition.glob("*.snapshot"))
    assert names == [*bases[1:], written.end_offset]
    for offset in names:
        snapshot = written.partition / f"{offset:020d}.snapshot"
        before = [b for b in chain.from_iterable(written.segments.values()) if b.last_offset < offset]
        assert read_producer_snapshot(snapshot.read_bytes()) == _expected_producers(before)


CONTROL, TRANSACTIONAL = 0x20, 0x10


def _expected_producers(batches: list[Batch]) -> list[ProducerEntry]:
    producers: dict[int, ProducerEntry] = {}
    for batch in batches:
        if batch.producer_id < 0:
            continue
        new = ProducerEntry(batch.producer_id, batch.producer_epoch, -1, -1, 0, -1, -1, -1)
        producer = producers.get(batch.producer_id, new)
        if batch.attributes & CONTROL:
            producer = producer._replace(timestamp=batch.max_timestamp, coordinator_epoch=1, txn_first_offset=-1)
        else:
            producer = producer._replace(
                last_sequence=batch.base_sequence + batch.last_offset - batch.base_offset,
                last_offset=batch.last_offset,
                offset_delta=batch.last_offset - batch.base_offset,
                timestamp=batch.max_timestamp,
            )
            if batch.attributes & TRANSACTIONAL and producer.txn_first_offset < 0:
                producer = producer._replace(txn_first_offset=batch.base_offset)
        producers[batch.producer_id] = producer
    return sorted(producers.values())


def test_the_leader_epoch_checkpoint_has_each_epochs_first_offset_from_the_logs_start_on(written: Written) -> None:
    rows = read_table((written.partition / "leader-epoch-checkpoint").read_text())
    (first_epoch, _), *later = written.epochs
    assert rows == [[str(epoch), str(offset)] for epoch, offset in [(first_epoch, START_OFFSET), *later]]


def test_a_clean_stop_leaves_checkpoints_and_a_marker(written: Written) -> None:
    def rows(name: str) -> list[list[str]]:
        return sorted(read_table((written.root / name).read_text()))

    assert rows(RECOVERY_POINTS) == [["orders", "3", str(written.end_offset)], ["silent", "0", "0"]]
    assert rows(HIGH_WATERMARKS) == [["orders", "3", str(written.high_watermark)], ["silent", "0", "0"]]
    checksum, *starts = rows(LOG_START_OFFSETS)
    assert checksum[:2] == ["__cordwood_checksum", "0"]
    assert starts == [["orders", "3", str(START_OFFSET)], ["silent", "0", "0"]]
    assert rows(CLEANER_OFFSETS) == []
    assert read_clean_shutdown((written.root / ".kafka_cleanshutdown").read_text()) == BROKER_EPOCH


def test_a_partition_says_which_topic_it_is_of(written: Written) -> None:
    topic_id = urlsafe_b64encode(TOPIC_ID).decode().rstrip("=")
    assert read_partition_metadata((written.partition / "partition.metadata").read_text()) == topic_id


def test_a_partition_without_records_has_an_empty_segment_and_no_snapshot(written: Written) -> None:
    sizes = {path.name: path.stat().st_size for path in (written.root / "silent-0").iterdir() if path.name[0] == "0"}
    name = f"{0:020d}"
    assert sizes == {f"{name}.log": 0}


def test_an_index_entry_needs_more_bytes_than_the_interval_before_it(tmp_path: Path) -> None:
    batch = bytes(encode_batch([Record(0, NOW_MS, None, b"value")]))
    config = LogConfig(index_interval_bytes=len(batch))
    log = open_log(LocalDisk(str(tmp_path)), "t-0", config, SeededRandom(0), now_ms=NOW_MS)
    for _ in range(3):
        log.append_as_leader(batch, 0, NOW_MS)
    log.close(NOW_MS)
    index = (tmp_path / "t-0" / f"{0:020d}.index").read_bytes()
    assert read_offset_index(index, 0) == [(2, 2 * len(batch))]
    # The batch of the first of equally young records is indexed.
    times = (tmp_path / "t-0" / f"{0:020d}.timeindex").read_bytes()
    assert read_time_index(times, 0) == [(NOW_MS, 0)]
