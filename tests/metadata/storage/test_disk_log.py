"""Our metadata log on disk: Kafka's files, and nothing committed is ever lost."""

import random

import pytest

from cordwood.log.checkpoints.formats import decode_partition_metadata
from cordwood.metadata.bootstrap import (
    activation_records,
    bootstrap_version,
    first_voter,
    format_directory,
    read_bootstrap,
)
from cordwood.metadata.exceptions import InvalidMetadata
from cordwood.metadata.image import OffsetAndEpoch
from cordwood.metadata.loader import Loader
from cordwood.metadata.storage.disk_log import METADATA_DIRECTORY, METADATA_TOPIC_ID, MetadataLogConfig
from cordwood.metadata.storage.snapshot import decode_snapshot, snapshot_name
from cordwood.raft.election_state import ElectionState
from cordwood.raft.identity import Endpoint
from cordwood.raft.voters import VoterSet
from cordwood.sim.virtual.disk import SimDisk, SimulatedCrash
from cordwood.wire.batch_header import batch_headers
from cordwood.wire.messages.data.voters_record import Voter, VotersRecord
from cordwood.wire.messages.metadata_records.config_record import ConfigRecord
from cordwood.wire.messages.metadata_records.no_op_record import NoOpRecord
from cordwood.wire.primitives import Uuid
from cordwood.wire.schema import MetadataRecord
from tests.metadata.cluster import directory_of
from tests.metadata.kafka_metadata import KAFKA_LEVELS, files
from tests.metadata.one_voter import OneVoter

NOW = 1_700_000_000_000
SMALL = MetadataLogConfig(
    segment_bytes=900,
    max_record_bytes_between_snapshots=600,
    max_retention_bytes=2_500,
    max_retention_ms=5_000,
    file_delete_delay_ms=100,
)


def new_disk(seed: int = 1) -> SimDisk:
    return SimDisk(random.Random(seed))


def opened(
    disk: SimDisk, config: MetadataLogConfig | None = None, now_ms: int = NOW, directory_id: Uuid | None = None
) -> OneVoter:
    return OneVoter(disk, config or MetadataLogConfig(), now_ms, directory_id)


def kafkas_voter() -> Voter:
    voters = decode_snapshot("0", files()["00000000000000000000-0000000000.checkpoint"]).quorum.voters
    assert voters is not None
    return voters.voters[0]


def formatted(disk: SimDisk) -> SimDisk:
    voter = first_voter(1, directory_of(1), {"CONTROLLER": Endpoint("127.0.0.1", 39611)})
    format_directory(disk, VoterSet([voter]), now_ms=NOW)
    return disk


def setting(name: str, value: str) -> MetadataRecord:
    return ConfigRecord(resource_type=4, resource_name="", name=name, value=value)


def append(log: OneVoter, *records: MetadataRecord, now_ms: int = NOW) -> int:
    return log.append(list(records), 30, now_ms)


# As Kafka does it


def test_a_new_cluster_begins_with_kafkas_bytes() -> None:
    """The first two batches of Kafka's log, written by us at the same times with the same voter."""
    theirs = files()["00000000000000000000.log"]
    (_, leader_change), (activation_at, activation) = list(batch_headers(theirs))[:2]
    disk = new_disk()
    voter = kafkas_voter()
    format_directory(disk, VoterSet.of_record(VotersRecord(voters=[voter])), now_ms=NOW, levels=KAFKA_LEVELS)
    log = opened(disk, now_ms=leader_change.max_timestamp, directory_id=voter.voter_directory_id)
    bootstrap = read_bootstrap(disk)
    log.append(activation_records(bootstrap, 1), bootstrap_version(bootstrap), activation.max_timestamp)
    log.commit(NOW)
    ours = disk.files()[f"{METADATA_DIRECTORY}/00000000000000000000.log"]
    assert ours == theirs[: activation_at + activation.size]


def test_the_directory_has_kafkas_files() -> None:
    disk = formatted(new_disk())
    log = opened(disk)
    assert log.epoch == 1
    found = disk.files()
    metadata = found[f"{METADATA_DIRECTORY}/partition.metadata"]
    assert decode_partition_metadata("", metadata) == METADATA_TOPIC_ID
    assert found[f"{METADATA_DIRECTORY}/quorum-state"] == ElectionState(1, 1).encode(1, [1])
    assert found[f"{METADATA_DIRECTORY}/leader-epoch-checkpoint"] == b"0\n1\n1 0\n"
    log.close(NOW)
    again = opened(disk)
    assert again.epoch == 2
    assert disk.files()[f"{METADATA_DIRECTORY}/leader-epoch-checkpoint"] == b"0\n2\n1 0\n2 3\n"
    # The voters were written in the first epoch only.
    assert [len(batch.control) for batch in again.read(0)] == [3, 1]


def test_kafkas_own_directory_is_opened_and_carried_on() -> None:
    disk = new_disk()
    disk.make_directory(METADATA_DIRECTORY)
    for name, data in files().items():
        if name != "bootstrap.checkpoint":
            disk.write_file(f"{METADATA_DIRECTORY}/{name}", data)
    log = opened(disk, directory_id=kafkas_voter().voter_directory_id)
    assert log.epoch == 3
    assert log.kraft_version == 1
    assert log.snapshot_ids == [OffsetAndEpoch(0, 0), OffsetAndEpoch(122, 1), OffsetAndEpoch(255, 2)]
    loader = log.load()
    assert loader.image.covers == OffsetAndEpoch(291, 3)
    assert len(loader.image.topics) == 17
    append(log, setting("a", "1"))
    log.commit(NOW)
    assert log.load().image.configs != loader.image.configs


# Committing


def test_a_record_counts_only_once_it_is_flushed() -> None:
    log = opened(formatted(new_disk()))
    offset = append(log, setting("a", "1"))
    assert log.high_watermark == offset
    assert log.load().image.configs == {}
    job = log.begin_commit(NOW)
    later = append(log, setting("b", "2"))
    job.run()
    log.end_commit(job)
    assert log.high_watermark == later
    assert [*log.load().image.configs.values()] == [{"a": "1"}]


def test_reading_from_within_a_batch_skips_earlier_records() -> None:
    log = opened(formatted(new_disk()))
    last = append(log, setting("a", "1"), setting("b", "2"), setting("c", "3"))
    log.commit(NOW)
    (batch,) = log.read(last)
    assert (batch.base_offset, batch.next_offset, len(batch.records)) == (last, last + 1, 1)


# Snapshots


def test_a_snapshot_is_due_by_bytes_and_by_time() -> None:
    log = opened(formatted(new_disk()), SMALL)
    loader = log.load()
    assert not log.snapshot_due(loader.image, NOW)
    assert log.snapshot_due(loader.image, NOW + SMALL.max_snapshot_interval_ms)
    for number in range(8):
        append(log, setting(f"key-{number}", "value"))
    log.commit(NOW)
    image = log.load().image
    assert log.snapshot_due(image, NOW)
    log.snapshot(image, NOW)
    assert not log.snapshot_due(image, NOW + SMALL.max_snapshot_interval_ms)


def test_an_image_that_is_not_committed_is_not_made_a_snapshot_of() -> None:
    log = opened(formatted(new_disk()))
    append(log, setting("a", "1"))
    loader = Loader()
    for batch in log.read(0, log.end_offset):
        loader.load(batch)
    with pytest.raises(ValueError, match="not committed"):
        log.begin_snapshot(loader.image, NOW)


def test_old_snapshots_go_with_the_log_below_them_and_the_newest_stays() -> None:
    disk = formatted(new_disk())
    log = opened(disk, SMALL)
    for number in range(60):
        append(log, setting("key", str(number)), now_ms=NOW + number)
        log.commit(NOW + number)
        image = log.load().image
        if log.snapshot_due(image, NOW + number):
            log.snapshot(image, NOW + number)
    log.clean(NOW + 10_000)
    # The files go in a second step.
    log.clean(NOW + 20_000)
    (kept,) = log.snapshot_ids
    assert log.start_offset == kept.offset
    found = disk.files()
    assert [name for name in found if name.endswith(".checkpoint") and "-" in name.rpartition("/")[2]] == [
        f"{METADATA_DIRECTORY}/{snapshot_name(kept)}"
    ]
    assert not [name for name in found if name.endswith(".deleted")]
    image = log.load().image
    log.close(NOW)
    assert opened(disk, SMALL).load().image.same_state(image)


def test_a_damaged_snapshot_is_skipped_while_the_log_covers_it() -> None:
    disk = formatted(new_disk())
    log = opened(disk)
    append(log, setting("a", "1"))
    log.commit(NOW)
    image = log.load().image
    log.snapshot(image, NOW)
    newest = log.snapshot_ids[-1]
    path = f"{METADATA_DIRECTORY}/{snapshot_name(newest)}"
    data = bytearray(disk.files()[path])
    data[100] ^= 1
    disk.write_file(path, bytes(data))
    assert opened(disk).load().image.same_state(image)


def test_without_log_and_snapshot_nothing_is_invented() -> None:
    disk = formatted(new_disk())
    log = opened(disk, SMALL)
    for number in range(60):
        append(log, setting("key", str(number)), now_ms=NOW + number)
    log.commit(NOW)
    log.snapshot(log.load().image, NOW)
    log.clean(NOW + 10_000)
    assert log.start_offset > 0
    for snapshot_id in log.snapshot_ids:
        disk.remove(f"{METADATA_DIRECTORY}/{snapshot_name(snapshot_id)}")
    log.close(NOW)
    with pytest.raises(InvalidMetadata, match="no snapshot"):
        opened(disk, SMALL).load()


# Crashes


class History:
    """One seed: records are appended, committed, made snapshots of and cleaned up, on a disk that loses power."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self.disk = new_disk(seed + 1)
        self.now_ms = NOW
        # Values in the order in which they were appended; how many of them are committed.
        self.appended: list[str] = []
        self.committed = 0
        self.epoch = 0
        self.trace: list[str] = []

    def run(self) -> None:
        formatted(self.disk)
        self.log = self.start()
        for _ in range(40):
            self.now_ms += self.source.choice([1, 50, 3_000])
            if self.source.random() < 0.2:
                self.disk.crash_at(self.disk.steps + self.source.choice([1, 1, 2, 3, 5, 8, 13]))
            action = self.source.choice([self.append, self.append, self.append, self.commit, self.snapshot, self.clean])
            self.trace.append(action.__name__)
            try:
                action()
            except SimulatedCrash:
                self.restart()
        self.restart()

    def start(self) -> OneVoter:
        log = opened(self.disk, SMALL, self.now_ms)
        assert log.epoch > self.epoch, "a leader epoch was used twice"
        self.epoch = log.epoch
        return log

    def restart(self) -> None:
        while True:
            self.trace.append("restart")
            # A process that was killed leaves everything that it wrote, flushed or not; the power may go later.
            self.disk = self.disk.restart(power_lost=self.source.random() < 0.6)
            if self.source.random() < 0.3:
                self.disk.crash_at(self.disk.steps + self.source.choice([1, 2, 4, 8, 12]))
            try:
                self.log = self.start()
            except SimulatedCrash:
                continue
            break
        self.check()

    def append(self) -> None:
        records = []
        for _ in range(self.source.choice([1, 3])):
            value = str(len(self.appended))
            self.appended.append(value)
            # Each value implies the earlier ones by its key.
            records += [setting(f"key-{value}", value), NoOpRecord()]
        append(self.log, *records, now_ms=self.now_ms)

    def commit(self) -> None:
        if self.source.random() < 0.5:
            self.log.commit(self.now_ms)
            self.committed = len(self.appended)
            return
        job = self.log.begin_commit(self.now_ms)
        end = len(self.appended)
        if self.source.random() < 0.3:
            self.append()
        job.run()
        self.log.end_commit(job)
        self.committed = end
        self.check()

    def snapshot(self) -> None:
        image = self.log.load().image
        if self.log.snapshot_due(image, self.now_ms):
            self.log.snapshot(image, self.now_ms)

    def clean(self) -> None:
        self.log.clean(self.now_ms)

    def check(self) -> None:
        """The log is a prefix of what was appended, and not shorter than what was committed."""
        found = [value for config in self.log.load().image.configs.values() for value in config.values()]
        assert sorted(found, key=int) == self.appended[: len(found)]
        assert len(found) >= self.committed, f"{self.committed} were committed, {len(found)} are there"
        if self.trace and self.trace[-1] == "restart":
            # The new leader's first act commits what it found.
            self.appended = self.appended[: len(found)]
            self.committed = len(found)


@pytest.mark.parametrize("first_seed", range(0, 400, 50))
def test_nothing_committed_is_lost_in_any_crash(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 50):
        history = History(seed)
        try:
            history.run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}\n{history.trace}\n{history.disk.dump()}") from error
