"""A quorum of one over a disk, without an event loop: each call is done when it returns, and flushes are the test's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cordwood.log.durability import FlushJob
from cordwood.metadata.image import MetadataImage
from cordwood.metadata.loader import Loader
from cordwood.metadata.storage.batch import MetadataBatch
from cordwood.metadata.storage.disk_log import DiskLog, MetadataLogConfig
from cordwood.metadata.storage.snapshot import QuorumVoters
from cordwood.metadata.storage.snapshot_files import SnapshotJob
from cordwood.metadata.versions import record_version
from cordwood.raft.control_state import ControlState
from cordwood.raft.effects import Append, CommitUpTo, Effect, Flush, PersistQuorumState
from cordwood.raft.events import Event, Flushed, LogCleaned, Propose, SnapshotTaken
from cordwood.raft.identity import Endpoint, ReplicaKey, VersionRange
from cordwood.raft.log import LogState, OffsetAndEpoch
from cordwood.raft.machine import RaftMachine
from cordwood.raft.replica import ReplicaConfig
from cordwood.raft.voters import VoterNode, VoterSet
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.virtual.disk import SimDisk
from cordwood.wire.frames import encode_metadata_record
from cordwood.wire.primitives import Uuid
from cordwood.wire.schema import MetadataRecord
from tests.metadata.cluster import directory_of

LISTENER = "CONTROLLER"
ENDPOINT = Endpoint("127.0.0.1", 39611)


class OneVoter:
    def __init__(self, disk: SimDisk, config: MetadataLogConfig, now_ms: int, directory_id: Uuid | None = None) -> None:
        self.log = DiskLog.open(disk, config, SeededRandom(1), now_ms=now_ms)
        self.log.newest_image()
        key = ReplicaKey(1, directory_of(1) if directory_id is None else directory_id)
        local = VoterNode(key, {LISTENER: ENDPOINT}, VersionRange(0, 1))
        self._machine = RaftMachine(
            ReplicaConfig("a cluster", local, LISTENER, []),
            LogState.of(self.log),
            ControlState.load(self.log, VoterSet([VoterNode(ReplicaKey(1), {})])),
            self.log.read_election(is_only_voter=True),
            SeededRandom(1),
        )
        self._now_ms = now_ms
        self._is_flush_wanted = False
        self._perform(self._machine.start(now_ms), now_ms)
        self.commit(now_ms)

    def _step(self, event: Event, now_ms: int) -> None:
        self._now_ms = max(self._now_ms, now_ms)
        self._perform(self._machine.step(event, self._now_ms), now_ms)

    def _perform(self, effects: list[Effect], now_ms: int) -> None:
        for effect in effects:
            match effect:
                case PersistQuorumState(data):
                    self.log.write_election(data)
                case Append(batches=batches):
                    self.log.append(batches, now_ms)
                case Flush():
                    self._is_flush_wanted = True
                case CommitUpTo(high_watermark):
                    self.log.committed(high_watermark)

    # State

    @property
    def epoch(self) -> int:
        return self._machine.epoch

    @property
    def start_offset(self) -> int:
        return self.log.start_offset

    @property
    def high_watermark(self) -> int:
        return self.log.log.high_watermark

    @property
    def end_offset(self) -> int:
        return self.log.end_offset

    @property
    def kraft_version(self) -> int:
        return self._machine.control.kraft_version

    @property
    def snapshot_ids(self) -> list[OffsetAndEpoch]:
        return self.log.snapshot_files.ids

    def read(self, offset: int, max_offset: int | None = None) -> Iterator[MetadataBatch]:
        return self.log.batches(offset, self.high_watermark if max_offset is None else max_offset)

    def load(self) -> Loader:
        """All that is committed."""
        loader = self.log.newest_image()
        for batch in self.read(loader.image.covers.offset):
            loader.load(batch)
        return loader

    # Actions

    def append(self, records: Sequence[MetadataRecord], metadata_version: int, now_ms: int) -> int:
        """The offset of the last record."""
        values = [encode_metadata_record(record, record_version(record, metadata_version)) for record in records]
        self._step(Propose(0, self.epoch, values), now_ms)
        return self.end_offset - 1

    def commit(self, now_ms: int) -> None:
        job = self.begin_commit(now_ms)
        job.run()
        self.end_commit(job)

    def begin_commit(self, now_ms: int) -> FlushJob:
        return self.log.begin_flush(now_ms)

    def end_commit(self, job: FlushJob) -> None:
        self.log.end_flush(job)
        # The machine asks for a flush per append that none has covered, and this one has covered all.
        while self._is_flush_wanted and self.high_watermark < job.end_offset:
            self._is_flush_wanted = False
            self._step(Flushed(job.end_offset), self._now_ms)

    def snapshot_due(self, image: MetadataImage, now_ms: int) -> bool:
        return self.log.snapshot_due(image, now_ms)

    def begin_snapshot(self, image: MetadataImage, now_ms: int) -> SnapshotJob:
        control, last = self._machine.control, image.covers.offset - 1
        voters = control.voters_at(last)
        quorum = QuorumVoters(control.kraft_version_at(last), None if voters is None else voters.to_record())
        return self.log.begin_snapshot(image, quorum, now_ms)

    def end_snapshot(self, job: SnapshotJob, now_ms: int) -> None:
        size = self.log.end_snapshot(job)
        assert size is not None
        self._step(SnapshotTaken(job.id, size), now_ms)
        self.clean(now_ms)

    def snapshot(self, image: MetadataImage, now_ms: int) -> None:
        job = self.begin_snapshot(image, now_ms)
        job.run()
        self.end_snapshot(job, now_ms)

    def clean(self, now_ms: int) -> None:
        cleaned = self.log.clean(now_ms)
        if cleaned is not None:
            self._step(LogCleaned(cleaned.start_offset, cleaned.snapshots), now_ms)

    def close(self, now_ms: int) -> None:
        self.log.close(now_ms)
