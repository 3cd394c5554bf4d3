"""The metadata log on disk: `__cluster_metadata-0`, with its snapshots and the file of the quorum's state.

`DiskLog` performs the effects of a Raft machine (`raft.log.RaftLog`), reads committed batches, and keeps what the next
start needs. Elections are not its concern: `quorum.member` runs the machine over it.

    log = DiskLog.open(disk, MetadataLogConfig(), random, now_ms=now)
    loader = log.newest_image()                     # the newest snapshot
    for batch in log.batches(loader.image.covers.offset, high_watermark):
        delta = loader.load(batch)
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from cordwood.log.checkpoints.formats import (
    encode_partition_metadata,
)
from cordwood.log.config import LogConfig
from cordwood.log.durability import FlushJob
from cordwood.log.files import CORRUPT, LOG, PARTITION_METADATA
from cordwood.log.log import Log
from cordwood.log.recovery import OpenOptions, open_log
from cordwood.log.retention import apply_retention
from cordwood.log.steps import Steps
from cordwood.metadata.exceptions import InvalidMetadata
from cordwood.metadata.image import MetadataImage, OffsetAndEpoch
from cordwood.metadata.loader import Loader
from cordwood.raft.election_state import QUORUM_STATE_FILE, ElectionState
from cordwood.raft.exceptions import InvalidQuorumState
from cordwood.raft.log import EpochStart
from cordwood.runtime.disk import Disk
from cordwood.runtime.randomness import Random
from cordwood.wire.batch_header import BatchHeader, batch_headers, check_crc, whole_batches_length
from cordwood.wire.messages.metadata_records.abort_transaction_record import AbortTransactionRecord
from cordwood.wire.messages.metadata_records.begin_transaction_record import BeginTransactionRecord
from cordwood.wire.messages.metadata_records.end_transaction_record import EndTransactionRecord
from cordwood.wire.messages.metadata_records.remove_topic_record import RemoveTopicRecord
from cordwood.wire.primitives import Uuid
from cordwood.wire.record import Buffer, CorruptBatch

from .batch import MetadataBatch, read_batch
from .committed_offset import CommittedOffset, recorded_offset
from .damage import keep_copy, mend
from .snapshot import QuorumVoters
from .snapshot_files import SnapshotFiles, SnapshotJob

logger = logging.getLogger(__name__)

METADATA_DIRECTORY = "__cluster_metadata-0"
METADATA_TOPIC_ID: Uuid = bytes(15) + b"\x01"

_READ_BYTES = 1 << 20


class MetadataLogConfig(NamedTuple):
    """Kafka's names (`metadata.log.…`, `metadata.max.…`) and defaults."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    max_record_bytes_between_snapshots: int = 20 << 20
    # 0: not by time.
    max_snapshot_interval_ms: int = 3_600_000
    # The size limit of the log and its snapshots; -1: no limit. The newest snapshot and the log after it always stay.
    max_retention_bytes: int = 100 << 20
    max_retention_ms: int = 604_800_000
    file_delete_delay_ms: int = 60_000

    def log_config(self) -> LogConfig:
        return LogConfig(
            # Only records covered by a snapshot may be deleted, which `clean` ensures.
            delete=False,
            segment_bytes=self.segment_bytes,
            segment_ms=self.segment_ms,
            file_delete_delay_ms=self.file_delete_delay_ms,
        )


class Cleaned(NamedTuple):
    """Records that the log starts here, and that these snapshots are deleted."""

    start_offset: int
    snapshots: list[OffsetAndEpoch]


class DiskLog:
    def __init__(self, log: Log, config: MetadataLogConfig, snapshots: SnapshotFiles, now_ms: int) -> None:
        self.log = log
        self.snapshot_files = snapshots
        self._config = config
        self._disk = log.disk
        self._bytes_since_snapshot = 0
        self._last_snapshot_ms = now_ms
        self.committed_offset = CommittedOffset(log.disk)

    @classmethod
    def open(
        cls, disk: Disk, config: MetadataLogConfig, random: Random, *, now_ms: int, accept_loss: bool = False
    ) -> "DiskLog":
        """Opens the log, or creates it; its contents are then on stable storage. Raises `DamagedMetadata`, without
        changing anything, if committed records are missing, unless `accept_loss`."""
        snapshots = SnapshotFiles(disk, METADATA_DIRECTORY)
        # A snapshot is of committed records, so all before the newest is on stable storage.
        newest = snapshots.newest or OffsetAndEpoch(0, 0)
        recorded = recorded_offset(disk)
        mend(disk, METADATA_DIRECTORY, newest.offset, recorded, accept_loss=accept_loss)
        if not disk.exists(METADATA_DIRECTORY):
            disk.make_directory(METADATA_DIRECTORY)
        if disk.read_file(_path(PARTITION_METADATA)) is None:
            disk.write_file(_path(PARTITION_METADATA), encode_partition_metadata(METADATA_TOPIC_ID))
        options = OpenOptions(recovery_point=newest.offset)
        log = open_log(disk, METADATA_DIRECTORY, config.log_config(), random, now_ms=now_ms, options=options)
        is_replaced = log.start_offset < log.end_offset and log.latest_epoch < newest.epoch
        if log.end_offset < newest.offset or is_replaced:
            # A crash came after a snapshot was fetched and before the log that it replaces was emptied.
            log.truncate_fully(newest.offset, now_ms)
        log.flush(now_ms)
        opened = cls(log, config, snapshots, now_ms)
        if recorded is None and log.end_offset > 0:
            # From here on a torn end may be ours, even after a clean stop. An empty log has no such end, and a
            # checkpoint beside it would look as if the log had been lost.
            opened.committed_offset.begin(newest.offset)
        elif recorded is not None and recorded > log.end_offset and accept_loss:
            # The loss was accepted: the next start must not miss it again.
            opened.committed_offset.begin(log.end_offset)
        opened._count_bytes()
        return opened

    def _count_bytes(self) -> None:
        newest = self.snapshot_files.newest
        start = newest.offset if newest else self.start_offset
        self._bytes_since_snapshot = sum(header.size for _, _, header in self._walk(start, self.end_offset))

    def newest_image(self) -> Loader:
        """The newest snapshot, loaded. An unreadable one is skipped if the log still has its records."""
        for snapshot_id in reversed(self.snapshot_files.ids):
            if snapshot_id.offset < self.start_offset:
                break
            try:
                return Loader.of_snapshot(snapshot_id, self.snapshot_files.load(snapshot_id))
            except InvalidMetadata as error:
                logger.error("Trying an older metadata snapshot: %s", error)
                self.snapshot_files.pass_over(snapshot_id)
        if self.start_offset > 0:
            raise InvalidMetadata(
                f"the metadata log begins at offset {self.start_offset}, and no snapshot of the earlier records can "
                "be read"
            )
        return Loader()

    # As Raft sees it

    @property
    def start_offset(self) -> int:
        return self.log.start_offset

    @property
    def end_offset(self) -> int:
        return self.log.end_offset

    @property
    def epochs(self) -> Sequence[EpochStart]:
        return [EpochStart(entry.epoch, entry.start_offset) for entry in self.log.epochs.entries]

    @property
    def snapshots(self) -> Mapping[OffsetAndEpoch, int]:
        return self.snapshot_files.sizes

    def read(self, offset: int, max_bytes: int) -> bytes:
        found = self.log.read(offset, max_bytes, self.end_offset)
        data = b"" if found is None else found.read()
        return data[: whole_batches_length(data)]

    def read_snapshot(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
        return self.snapshot_files.read(snapshot_id, position, max_bytes)

    def append(self, batches: Buffer, now_ms: int) -> None:
        self._bytes_since_snapshot += len(batches)
        self.log.append_as_follower(batches, now_ms)

    def truncate(self, offset: int, now_ms: int) -> None:
        self.log.truncate_to(offset, now_ms)

    def install_snapshot(self, snapshot_id: OffsetAndEpoch, now_ms: int) -> None:
        """Makes a fetched snapshot durable, and the log empty from its end offset on."""
        if not self.committed_offset.exists:
            # A start that finds the snapshot beside a shorter log must not treat that as damage.
            self.committed_offset.begin(0)
        self.snapshot_files.finish(snapshot_id)
        self.log.truncate_fully(snapshot_id.offset, now_ms)
        # Replaced records must not reappear beside later appends.
        self._disk.sync_directory(METADATA_DIRECTORY)
        for older in self.snapshot_files.ids:
            if older < snapshot_id:
                self.snapshot_files.remove(older)
        self._bytes_since_snapshot = 0
        self._last_snapshot_ms = now_ms

    def begin_flush(self, now_ms: int) -> FlushJob:
        """Returns a job for any thread that makes all earlier appends durable."""
        return self.log.begin_flush(now_ms)

    def end_flush(self, job: FlushJob) -> None:
        self.log.end_flush(job)

    def read_election(self, *, is_only_voter: bool) -> ElectionState:
        """The epoch, leader and vote that this node knew. A damaged file stops a node that could vote twice without it;
        a single voter can't contradict another one."""
        path = _path(QUORUM_STATE_FILE)
        data = self._disk.read_file(path)
        if data is None:
            return ElectionState()
        try:
            return ElectionState.decode(path, data)
        except InvalidQuorumState as error:
            if not is_only_voter:
                raise InvalidMetadata(
                    f"{error}. This node may have voted in an election and must not do so twice: restore the file, or "
                    f"remove this voter from the quorum and add it again with an empty directory"
                ) from error
            logger.error("Writing a new quorum state, and keeping the old one as %s: %s", f"{path}{CORRUPT}", error)
            keep_copy(self._disk, self._disk.open(path))
            return ElectionState()

    def write_election(self, data: bytes) -> None:
        self._disk.write_file(_path(QUORUM_STATE_FILE), data)

    # As its readers see it

    def committed(self, high_watermark: int) -> None:
        self.log.advance_high_watermark(max(high_watermark, self.log.high_watermark))

    def batches(self, offset: int, end: int) -> Iterator[MetadataBatch]:
        offset = max(offset, self.start_offset)
        for data, position, header in self._walk(offset, end):
            yield read_batch(data, position, header, offset)

    def headers(self, offset: int, end: int) -> Iterator[BatchHeader]:
        """The batches from the one that contains `offset` on, below `end`."""
        for _, _, header in self._walk(max(offset, self.start_offset), end):
            yield header

    def _walk(self, offset: int, end: int) -> Iterator[tuple[bytes, int, BatchHeader]]:
        """Whole batches: the bytes that they are in, where there, and their headers."""
        while offset < end and (found := self.log.read(offset, _READ_BYTES, end)) is not None:
            data = found.read()
            for position, header in batch_headers(data[: whole_batches_length(data)]):
                if header.next_offset > offset:
                    _check(data, header, position)
                    yield data, position, header
                    offset = header.next_offset

    # Snapshots

    def snapshot_due(self, image: MetadataImage, now_ms: int) -> bool:
        newest = self.snapshot_files.newest
        if newest is not None and image.covers.offset <= newest.offset:
            return False
        if self._bytes_since_snapshot >= self._config.max_record_bytes_between_snapshots:
            return True
        interval_ms = self._config.max_snapshot_interval_ms
        return 0 < interval_ms <= now_ms - self._last_snapshot_ms

    def begin_snapshot(self, image: MetadataImage, quorum: QuorumVoters, now_ms: int) -> SnapshotJob:
        high_watermark = self.log.high_watermark
        if image.covers.offset > high_watermark:
            raise ValueError(f"an image up to {image.covers.offset} is not committed: {high_watermark} is")
        # Counted from here: records appended while the job runs belong to the next one.
        self._bytes_since_snapshot = 0
        self._last_snapshot_ms = now_ms
        return self.snapshot_files.job(image, quorum, now_ms)

    def end_snapshot(self, job: SnapshotJob) -> int | None:
        """Registers the snapshot, and returns its size; None if a newer one was fetched in the meantime."""
        newest = self.snapshot_files.newest
        size = self.snapshot_files.written(job.id, job.last_timestamp_ms)
        if newest is not None and job.id < newest:
            self.snapshot_files.remove(job.id)
            return None
        return size

    def clean(self, now_ms: int) -> Cleaned | None:
        """Deletes old snapshots by size and age, and the log below the oldest that is left; the second step of earlier
        deletions too. The owner calls it now and then. None if nothing went."""
        self.log.purge(now_ms)
        config, removed = self._config, []
        for snapshot_id, start_offset in self.snapshot_files.expired(
            self.log.size, config.max_retention_bytes, config.max_retention_ms, now_ms
        ):
            if start_offset > self.log.high_watermark:
                break
            self.log.advance_start(start_offset)
            # The log goes first: a snapshot too many does no harm.
            apply_retention(self.log, now_ms)
            self.snapshot_files.remove(snapshot_id)
            removed.append(snapshot_id)
        return Cleaned(self.start_offset, removed) if removed else None

    def purging(self, now_ms: int) -> Steps[object]:
        return self.log.removals.purging(now_ms)

    @property
    def was_cut(self) -> bool:
        """True if a part of it was ever cut off: copies of it remain."""
        return any(f"{LOG}{CORRUPT}" in entry.name for entry in self._disk.list(METADATA_DIRECTORY))

    def deleted_topics(self) -> set[Uuid]:
        """The ids of all topics whose deletion is in the log."""
        deleted: set[Uuid] = set()
        # Deleted within a metadata transaction, which may be aborted.
        undecided: set[Uuid] = set()
        batches = self.batches(self.start_offset, self.log.high_watermark)
        for record in (record for batch in batches for record in batch.records):
            match record:
                case RemoveTopicRecord():
                    undecided.add(record.topic_id)
                case AbortTransactionRecord():
                    undecided.clear()
                case BeginTransactionRecord() | EndTransactionRecord():
                    deleted |= undecided
                    undecided.clear()
        return deleted | undecided

    # Stopping

    def close(self, now_ms: int) -> None:
        self.log.close(now_ms)
        self.committed_offset.record(self.log.high_watermark)


def _path(name: str) -> str:
    return f"{METADATA_DIRECTORY}/{name}"


def _check(data: bytes, header: BatchHeader, position: int) -> None:
    try:
        check_crc(data, header, position)
    except CorruptBatch as error:
        raise InvalidMetadata(f"the metadata log is damaged at offset {header.base_offset}: {error}") from error
