"""The metadata log: `__cluster_metadata-0`, where the cluster's metadata is committed.

`SingleNodeLog` is the log of a quorum of one, without I/O of its own beyond its disk. Nodes use it through the
interface in `metadata_log`, which a Raft log implements as well.

    log = SingleNodeLog.open(disk, 1, MetadataLogConfig(), random, now_ms=now)     # leads from here on
    loader = load(log)                              # newest snapshot, then the log after it
    last_offset = log.append(records, loader.image.metadata_version, now)
    log.commit(now)                                 # or begin_commit, its job in a thread, end_commit
    for batch in log.read(loader.image.covers.offset):
        delta = loader.load(batch)
    if log.snapshot_due(loader.image, now) and not loader.in_transaction:
        job = log.begin_snapshot(loader.image, now)
        job.run()                                   # in any thread
        log.end_snapshot(job, now)
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from cordwood.log.checkpoint import (
    CorruptCheckpoint,
    encode_partition_metadata,
    read_offsets,
    write_offsets,
)
from cordwood.log.config import MAX_INT64, LogConfig
from cordwood.log.contents import METADATA_PARTITION
from cordwood.log.durability import FlushJob
from cordwood.log.files import CORRUPT, LOG, PARTITION_METADATA
from cordwood.log.log import Log
from cordwood.log.producers import AppendOrigin
from cordwood.log.recovery import OpenOptions, open_log
from cordwood.log.retention import apply_retention
from cordwood.runtime.disk import Disk
from cordwood.runtime.randomness import Random
from cordwood.wire.batch_header import BatchHeader, batch_headers, check_crc, whole_batches_length
from cordwood.wire.codec import encode
from cordwood.wire.control import ControlType, control_batch
from cordwood.wire.frames import encode_metadata_record
from cordwood.wire.messages.data.leader_change_message import LeaderChangeMessage, Voter
from cordwood.wire.messages.metadata_records.abort_transaction_record import AbortTransactionRecord
from cordwood.wire.messages.metadata_records.begin_transaction_record import BeginTransactionRecord
from cordwood.wire.messages.metadata_records.end_transaction_record import EndTransactionRecord
from cordwood.wire.messages.metadata_records.remove_topic_record import RemoveTopicRecord
from cordwood.wire.primitives import Uuid
from cordwood.wire.record import CorruptBatch, Record
from cordwood.wire.records import encode_batch
from cordwood.wire.schema import MetadataRecord

from .batch import MetadataBatch, read_batch
from .damage import keep_copy, mend
from .exceptions import InvalidMetadata
from .image import MetadataImage, OffsetAndEpoch
from .image_records import image_records
from .loader import Loader
from .quorum_state import QUORUM_STATE, QuorumState
from .snapshot import (
    CHECKPOINT,
    CONFIGURED_VOTERS,
    QuorumVoters,
    Snapshot,
    decode_opening,
    decode_snapshot,
    encode_snapshot,
    parse_snapshot_name,
    snapshot_name,
)
from .versions import record_version

logger = logging.getLogger(__name__)

METADATA_DIRECTORY = "__cluster_metadata-0"
METADATA_TOPIC_ID: Uuid = bytes(15) + b"\x01"
# Beside Kafka's checkpoints, which do not speak of this log: how far it is known to be committed. Kafka leaves files
# that it does not know alone.
COMMITTED_OFFSET = "metadata-offset-checkpoint"

_READ_BYTES = 1 << 20
# A snapshot's header and the voters.
_OPENING_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class MetadataLogConfig:
    """Kafka's names (`metadata.log.…`, `metadata.max.…`) and defaults."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    max_record_bytes_between_snapshots: int = 20 << 20
    # 0: not by time.
    max_snapshot_interval_ms: int = 3_600_000
    # Of the log and its snapshots; -1: no limit. The newest snapshot and the log after it always stay.
    max_retention_bytes: int = 100 << 20
    max_retention_ms: int = 604_800_000
    file_delete_delay_ms: int = 60_000

    def log_config(self) -> LogConfig:
        return LogConfig(
            # Only what a snapshot holds may go, and `clean` sees to that.
            delete=False,
            segment_bytes=self.segment_bytes,
            segment_ms=self.segment_ms,
            file_delete_delay_ms=self.file_delete_delay_ms,
        )


@dataclass(frozen=True, slots=True)
class SnapshotJob:
    """Runs in any thread; `end_snapshot` then takes note of it."""

    id: OffsetAndEpoch
    last_timestamp_ms: int
    run: Callable[[], None]


def load(log: "SingleNodeLog") -> Loader:
    """All that is committed. A snapshot that cannot be read is passed over if the log still has what it held."""
    loader = _newest_readable(log)
    for batch in log.read(loader.image.covers.offset):
        loader.load(batch)
    return loader


def _newest_readable(log: "SingleNodeLog") -> Loader:
    for snapshot_id in reversed(log.snapshot_ids):
        if snapshot_id.offset < log.start_offset:
            break
        try:
            return Loader.of_snapshot(snapshot_id, log.read_snapshot(snapshot_id))
        except InvalidMetadata as error:
            logger.error("trying an older metadata snapshot: %s", error)
    if log.start_offset > 0:
        raise InvalidMetadata(
            f"the metadata log begins at offset {log.start_offset}, and no snapshot of what was before it can be read"
        )
    return Loader()


class SingleNodeLog:
    """The only voter leads: a record is committed when it is on stable storage."""

    def __init__(
        self, log: Log, node_id: int, config: MetadataLogConfig, snapshots: dict[OffsetAndEpoch, "_Kept"], now_ms: int
    ) -> None:
        self.log = log
        self.node_id = node_id
        self.epoch = 0
        self.quorum = CONFIGURED_VOTERS
        self._config = config
        self._disk = log.disk
        # Oldest first.
        self._snapshots = snapshots
        self._bytes_since_snapshot = 0
        self._last_snapshot_ms = now_ms
        # What the checkpoint says.
        self._recorded = -1

    @classmethod
    def open(
        cls,
        disk: Disk,
        node_id: int,
        config: MetadataLogConfig,
        random: Random,
        *,
        now_ms: int,
        accept_loss: bool = False,
    ) -> "SingleNodeLog":
        """Opens the log, made if it is not there, and begins a leader epoch in it. Raises `DamagedMetadata`, with
        nothing changed, if it lacks what was committed, unless `accept_loss`."""
        snapshots = _find_snapshots(disk)
        # A snapshot is of committed records, so all before the newest is on stable storage.
        newest = max(snapshots, default=OffsetAndEpoch(0, 0))
        recorded = _recorded_offset(disk)
        mend(disk, METADATA_DIRECTORY, newest.offset, recorded, accept_loss=accept_loss)
        if not disk.exists(METADATA_DIRECTORY):
            disk.make_directory(METADATA_DIRECTORY)
        if disk.read_file(_path(PARTITION_METADATA)) is None:
            disk.write_file(_path(PARTITION_METADATA), encode_partition_metadata(METADATA_TOPIC_ID))
        options = OpenOptions(recovery_point=newest.offset)
        log = open_log(disk, METADATA_DIRECTORY, config.log_config(), random, now_ms=now_ms, options=options)
        if log.end_offset < newest.offset:
            log.truncate_fully(newest.offset, now_ms)
        opened = cls(log, node_id, config, snapshots, now_ms)
        opened._look_at_log()
        if recorded is None and log.end_offset > 0:
            # From here on a torn end may be ours, whatever a clean stop has said.
            opened.commit(now_ms)
            opened.record_committed()
        opened._become_leader(now_ms)
        opened.record_committed()
        return opened

    # Starting

    def _look_at_log(self) -> None:
        """Who the voters are, and how much was written since the newest snapshot. Data is not decoded for that."""
        newest = self.latest_snapshot_id
        if newest is not None:
            self.quorum = self._snapshots[newest].quorum
        for data, position, header in self._batches(newest.offset if newest else self.start_offset, self.end_offset):
            self._bytes_since_snapshot += header.size
            if header.is_control:
                for control_type, value in read_batch(data, position, header).control:
                    self.quorum = self.quorum.after(control_type, value)

    def _become_leader(self, now_ms: int) -> None:
        """The only voter elects itself: a new epoch, durable before anything is written in it."""
        path = _path(QUORUM_STATE)
        known = _read_quorum_state(self._disk, path)
        newest = self.latest_snapshot_id
        self.epoch = max(known.leader_epoch, self.log.epochs.latest, newest.epoch if newest else 0) + 1
        state = QuorumState(self.node_id, self.epoch)
        self._disk.write_file(path, state.encode(self.quorum.kraft_version, [self.node_id]))

        me = Voter(voter_id=self.node_id)
        change = LeaderChangeMessage(version=0, leader_id=self.node_id, voters=[me], granting_voters=[me])
        contents = [(ControlType.LEADER_CHANGE, encode(change, 0))]
        if self.end_offset == 0:
            # The voters that the directory was formatted with: from here on the log says who they are.
            contents += self.quorum.control_records()
        self._append(control_batch(contents, base_offset=0, timestamp=now_ms, leader_epoch=self.epoch), now_ms)
        self.commit(now_ms)

    # Writing

    @property
    def start_offset(self) -> int:
        return self.log.start_offset

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    @property
    def end_offset(self) -> int:
        return self.log.end_offset

    def append(self, records: Sequence[MetadataRecord], metadata_version: int, now_ms: int) -> int:
        values = [encode_metadata_record(record, record_version(record, metadata_version)) for record in records]
        batch = encode_batch([Record(number, now_ms, None, value) for number, value in enumerate(values)])
        return self._append(batch, now_ms)

    def _append(self, batch: bytearray, now_ms: int) -> int:
        self._bytes_since_snapshot += len(batch)
        return self.log.append_as_leader(batch, self.epoch, now_ms, AppendOrigin.RAFT_LEADER).last_offset

    def commit(self, now_ms: int) -> None:
        job = self.begin_commit(now_ms)
        job.run()
        self.end_commit(job)

    def begin_commit(self, now_ms: int) -> FlushJob:
        """What makes all that was appended so far durable: one job serves every append before it."""
        return self.log.begin_flush(now_ms)

    def end_commit(self, job: FlushJob) -> None:
        self.log.end_flush(job)
        self.log.advance_high_watermark(max(job.end_offset, self.high_watermark))

    # Reading

    def read(self, offset: int, max_offset: int | None = None) -> Iterator[MetadataBatch]:
        offset = max(offset, self.start_offset)
        for data, position, header in self._batches(offset, self.high_watermark if max_offset is None else max_offset):
            yield read_batch(data, position, header, offset)

    def _batches(self, offset: int, end: int) -> Iterator[tuple[bytes, int, BatchHeader]]:
        """Whole batches: the bytes that they are in, where there, and their headers."""
        while offset < end and (found := self.log.read(offset, _READ_BYTES, end)) is not None:
            data = found.read()
            for position, header in batch_headers(data[: whole_batches_length(data)]):
                if header.next_offset > offset:
                    _check(data, header, position)
                    yield data, position, header
                    offset = header.next_offset

    # Snapshots

    @property
    def snapshot_ids(self) -> list[OffsetAndEpoch]:
        """Oldest first."""
        return list(self._snapshots)

    @property
    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        return next(reversed(self._snapshots), None)

    def read_snapshot(self, snapshot_id: OffsetAndEpoch) -> Snapshot:
        path = _path(snapshot_name(snapshot_id))
        data = self._disk.read_file(path)
        if data is None:
            raise InvalidMetadata(f"there is no {path}")
        return decode_snapshot(path, data)

    def snapshot_due(self, image: MetadataImage, now_ms: int) -> bool:
        newest = self.latest_snapshot_id
        if newest is not None and image.covers.offset <= newest.offset:
            return False
        if self._bytes_since_snapshot >= self._config.max_record_bytes_between_snapshots:
            return True
        interval_ms = self._config.max_snapshot_interval_ms
        return 0 < interval_ms <= now_ms - self._last_snapshot_ms

    def begin_snapshot(self, image: MetadataImage, now_ms: int) -> SnapshotJob:
        if image.covers.offset > self.high_watermark:
            raise ValueError(f"an image up to {image.covers.offset} is not committed: {self.high_watermark} is")
        # Counted from here: what is appended while the job runs belongs to the next one.
        self._bytes_since_snapshot = 0
        self._last_snapshot_ms = now_ms
        disk, quorum = self._disk.another(), self.quorum

        def run() -> None:
            data = encode_snapshot(
                image_records(image),
                metadata_version=image.metadata_version,
                epoch=image.covers.epoch,
                last_timestamp_ms=image.last_timestamp_ms,
                now_ms=now_ms,
                quorum=quorum,
            )
            disk.write_file(_path(snapshot_name(image.covers)), data)

        return SnapshotJob(image.covers, image.last_timestamp_ms, run)

    def end_snapshot(self, job: SnapshotJob, now_ms: int) -> None:
        file = self._disk.open(_path(snapshot_name(job.id)))
        self._snapshots[job.id] = _Kept(file.size, job.last_timestamp_ms, self.quorum)
        file.close()
        self.clean(now_ms)

    def clean(self, now_ms: int) -> None:
        """Deletes old snapshots by size and age, and the log below the oldest that is left; the second step of earlier
        deletions too. The owner calls it now and then."""
        self.log.purge(now_ms)
        ids = self.snapshot_ids
        for snapshot_id, following in pairwise(ids):
            if not self._is_expired(snapshot_id, now_ms):
                break
            self.log.advance_start(following.offset)
            # The log goes first: a snapshot too many does no harm.
            apply_retention(self.log, now_ms)
            self._disk.remove(_path(snapshot_name(snapshot_id)))
            del self._snapshots[snapshot_id]

    def _is_expired(self, snapshot_id: OffsetAndEpoch, now_ms: int) -> bool:
        limit_bytes, limit_ms = self._config.max_retention_bytes, self._config.max_retention_ms
        if 0 <= limit_bytes < self.log.size + sum(kept.size for kept in self._snapshots.values()):
            return True
        return 0 <= limit_ms < now_ms - self._snapshots[snapshot_id].last_timestamp_ms

    # What is known to be committed

    def record_committed(self) -> None:
        """Notes durably how far the log is committed: damage below is never taken for a write that was not finished."""
        job = self.recording()
        if job is not None:
            job()

    def recording(self) -> Callable[[], None] | None:
        """As `record_committed`, as a job for any thread; None when it was noted before."""
        offset = self.high_watermark
        if offset == self._recorded:
            return None
        disk = self._disk.another()

        def run() -> None:
            write_offsets(disk, COMMITTED_OFFSET, {METADATA_PARTITION: offset}, is_sealed=True)
            disk.close()
            self._recorded = offset

        return run

    @property
    def was_cut(self) -> bool:
        """Whether a part of it was ever cut off: copies are left of it."""
        return any(f"{LOG}{CORRUPT}" in entry.name for entry in self._disk.list(METADATA_DIRECTORY))

    def deleted_topics(self) -> set[Uuid]:
        """The ids of all topics whose deletion is in the log."""
        deleted: set[Uuid] = set()
        # Of a metadata transaction, which may be aborted.
        undecided: set[Uuid] = set()
        for record in (record for batch in self.read(self.start_offset) for record in batch.records):
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
        self.record_committed()


def _path(name: str) -> str:
    return f"{METADATA_DIRECTORY}/{name}"


def _recorded_offset(disk: Disk) -> int | None:
    """How far the log was known to be committed; None if nobody has said so."""
    try:
        return read_offsets(disk, COMMITTED_OFFSET).get(METADATA_PARTITION)
    except CorruptCheckpoint as error:
        logger.error("Ignoring a damaged checkpoint of %s: %s", disk.root, error)
        return None


def _check(data: bytes, header: BatchHeader, position: int) -> None:
    try:
        check_crc(data, header, position)
    except CorruptBatch as error:
        raise InvalidMetadata(f"the metadata log is damaged at offset {header.base_offset}: {error}") from error


def _read_quorum_state(disk: Disk, path: str) -> QuorumState:
    """The only voter has nobody to contradict: without its file the log says which epochs there were."""
    data = disk.read_file(path)
    if data is None:
        return QuorumState()
    try:
        return QuorumState.decode(path, data)
    except InvalidMetadata as error:
        logger.error("Writing a new quorum state, and keeping the old one as %s: %s", f"{path}{CORRUPT}", error)
        keep_copy(disk, disk.open(path))
        return QuorumState()


class _Kept(NamedTuple):
    """What is known of a snapshot without reading its records."""

    size: int
    last_timestamp_ms: int
    quorum: QuorumVoters


def _find_snapshots(disk: Disk) -> dict[OffsetAndEpoch, _Kept]:
    """Those that are whole, by name; what was left unfinished, ours or Kafka's, is removed."""
    found: dict[OffsetAndEpoch, _Kept] = {}
    for entry in disk.list(METADATA_DIRECTORY):
        snapshot_id = parse_snapshot_name(entry.name)
        if snapshot_id is not None:
            found[snapshot_id] = _look_at_snapshot(disk, _path(entry.name), entry.size)
        elif CHECKPOINT in entry.name and entry.name.endswith((".tmp", ".part", ".deleted")):
            disk.remove(_path(entry.name))
    return dict(sorted(found.items()))


def _look_at_snapshot(disk: Disk, path: str, size: int) -> _Kept:
    file = disk.open(path, size)
    try:
        opening = decode_opening(path, file.read(0, _OPENING_BYTES))
    except InvalidMetadata as error:
        # `load` decides what to do without it. It does not age.
        logger.error("a damaged metadata snapshot: %s", error)
        return _Kept(size, MAX_INT64, CONFIGURED_VOTERS)
    finally:
        file.close()
    return _Kept(size, opening.last_timestamp_ms, opening.quorum)
