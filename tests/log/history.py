"""Random histories of one partition on a disk that crashes, and the list that says what the log may hold.

The model is the list of all records by offset. A flush makes a promise: what it covered survives any crash. Beyond it
a crash may take any suffix; what it leaves must be whole, in order, without a hole, and agree in everything that is
derived from it (indexes, producer state, leader epochs, transactions) with a plain walk over the records.
"""

import random
from dataclasses import dataclass, field

from cordwood.log.cleaning.cleaner import Cleaner, CleanerConfig
from cordwood.log.config import LogConfig
from cordwood.log.dirs.directory import LogDirectory
from cordwood.log.durability import FlushJob
from cordwood.log.epoch_file import writing_epochs
from cordwood.log.idempotence.markers import end_txn_of
from cordwood.log.idempotence.producers import AppendOrigin
from cordwood.log.retention import apply_retention
from cordwood.log.steps import Steps
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.virtual.disk import SimDisk, SimulatedCrash
from cordwood.wire.batch_header import batch_headers
from cordwood.wire.control import end_txn_marker
from cordwood.wire.record import Record
from cordwood.wire.records import decode_batch, encode_batch

TOPIC, PARTITION = "t", 0
TOPIC_ID = bytes(range(16))
KEYS = [f"k{number}".encode() for number in range(6)]


class SimClock:
    def __init__(self, now_ms: int) -> None:
        self.ms = now_ms

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000

    def sleep(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)


@dataclass(frozen=True, slots=True)
class Entry:
    """The model's state of one offset."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    epoch: int
    is_control: bool = False


@dataclass
class Model:
    # Every version of the log since the last flush: a crash may bring back any of them, cut short anywhere.
    entries: list[Entry] = field(default_factory=list)
    versions: list[list[Entry]] = field(default_factory=list)
    start_offset: int = 0
    # The oldest start that a crash may bring back.
    durable_start: int = 0
    durable_end: int = 0
    cleaned_to: int = 0
    # Where aborted transactions reached: their data may be compacted away.
    aborted: list[range] = field(default_factory=list)

    @property
    def end_offset(self) -> int:
        return self.entries[-1].offset + 1 if self.entries else 0

    def flushed(self) -> None:
        self.versions = []
        self.durable_end = self.end_offset

    def truncated(self, offset: int, boundary: int) -> None:
        self.versions.append(list(self.entries))
        self.entries = [entry for entry in self.entries if entry.offset < offset]
        self.durable_end = min(self.durable_end, boundary)
        self.start_offset = min(self.start_offset, offset)
        self.durable_start = min(self.durable_start, self.start_offset)
        self.cleaned_to = min(self.cleaned_to, offset)


@dataclass
class ProducerModel:
    """A client that keeps its sequence and its last batch, to send it again."""

    producer_id: int
    sequence: int = 0
    is_open: bool = False
    txn_first: int = -1


class History:
    """One seed, one history. `run` raises AssertionError with the disk's content where the log and the list differ."""

    def __init__(self, seed: int, steps: int = 40) -> None:
        self.source = random.Random(seed)
        self.steps = steps
        self.clock = SimClock(1_700_000_000_000)
        self.disk = SimDisk(random.Random(seed + 1), now_ms=self.clock.now_ms)
        self.compact = self.source.random() < 0.35
        self.config = LogConfig(
            compact=self.compact,
            delete=not self.compact,
            segment_bytes=self.source.choice([500, 1200, 4000]),
            index_interval_bytes=self.source.choice([1, 150, 600]),
            segment_index_bytes=self.source.choice([64, 10_485_760]),
            segment_ms=self.source.choice([5_000, 10**9]),
            retention_bytes=self.source.choice([-1, 1500, 4000]),
            retention_ms=self.source.choice([-1, 60_000]),
            min_cleanable_dirty_ratio=0.0,
            message_timestamp_after_max_ms=10**12,
        )
        self.model = Model()
        self.epoch = 0
        self.producers: dict[int, ProducerModel] = {}
        self.directory = self._open_directory()
        self.log = self.directory.create(TOPIC, PARTITION, TOPIC_ID, self.clock.ms)
        self.directory.checkpoints.write_all()
        # One that a thread is at, and how many truncations there were before it.
        self.flushing: tuple[FlushJob, int] | None = None
        self.truncations = 0
        self.writing_epochs: Steps[None] | None = None
        self.checkpointing: Steps[None] | None = None
        self.trace: list[str] = []

    def run(self) -> None:
        try:
            for _ in range(self.steps):
                self.clock.ms += self.source.choice([1, 10, 1000])
                if self.source.random() < 0.12:
                    self.disk.crash_at(self.disk.steps + self.source.choice([1, 1, 2, 3, 5, 8, 13, 21]))
                try:
                    self._act()
                except SimulatedCrash:
                    self._restart()
            self.check()
            self.disk = self.disk.restart()
            self._open()
            self._after_crash()
            self.reopen_cleanly()
            self.check()
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.describe()}") from error

    def describe(self) -> str:
        return "\n".join([str(self.config), *self.trace[-40:], repr(self.log), self.disk.dump()])

    # Events

    def _act(self) -> None:
        actions = [
            (self.append, 10),
            (self.append_transactional, 4),
            (self.end_transaction, 4),
            (self.append_as_follower, 3),
            (self.roll, 1),
            (self.flush, 3),
            (self.flush_in_a_thread, 4),
            (self.write_epochs_in_a_thread, 3),
            (self.checkpoint, 2),
            (self.checkpoint_in_a_thread, 5),
            (self.truncate, 1.5),
            (self.delete_records, 1),
            (self.retain, 1),
            (self.compact_log, 3 if self.compact else 0),
            (self.purge, 1),
            (self.reopen_cleanly, 0.7),
            (self.check, 1),
        ]
        names, weights = zip(*actions, strict=True)
        action = self.source.choices(names, weights)[0]
        self.trace.append(action.__name__)
        action()

    def _records(self) -> list[Record]:
        return [
            Record(
                index,
                self.clock.ms + self.source.randrange(-5000, 5000),
                self.source.choice(KEYS),
                self.source.randbytes(self.source.choice([3, 20, 60])),
                (),
            )
            for index in range(self.source.choice([1, 1, 2, 5]))
        ]

    def _producer(self) -> ProducerModel | None:
        if self.source.random() < 0.4:
            return None
        producer_id = self.source.randrange(1, 4)
        return self.producers.setdefault(producer_id, ProducerModel(producer_id))

    def append(self) -> None:
        producer = self._producer()
        if producer is not None and producer.is_open:
            return
        self._append(self._records(), producer, transactional=False)

    def append_transactional(self) -> None:
        producer = self._producer()
        if producer is not None:
            self._append(self._records(), producer, transactional=True)

    def _append(self, records: list[Record], producer: ProducerModel | None, *, transactional: bool) -> None:
        data = encode_batch(
            records,
            producer_id=producer.producer_id if producer else -1,
            producer_epoch=0 if producer else -1,
            base_sequence=producer.sequence if producer else -1,
            transactional=transactional,
        )
        retry = bytes(data)
        base = self.model.end_offset
        # The model goes first: a crash inside the append may leave it written or not.
        self.model.entries += [
            Entry(base + record.offset, record.timestamp, record.key, record.value, self.epoch) for record in records
        ]
        appended = self.log.append_as_leader(data, self.epoch, self.clock.ms)
        assert (appended.first_offset, appended.last_offset) == (base, base + len(records) - 1), appended
        if producer is not None:
            if transactional and not producer.is_open:
                producer.is_open, producer.txn_first = True, base
            producer.sequence += len(records)
            again = self.log.append_as_leader(bytearray(retry), self.epoch, self.clock.ms)
            assert again.is_duplicate, f"a retry was not recognised: {again}"
            assert again.first_offset == base
        self._replicate()

    def end_transaction(self) -> None:
        open_ones = [producer for producer in self.producers.values() if producer.is_open]
        if not open_ones:
            return
        producer = self.source.choice(open_ones)
        commit = self.source.random() < 0.5
        offset = self.model.end_offset
        data = end_txn_marker(0, self.clock.ms, producer.producer_id, 0, commit, 1, self.epoch)
        record = decode_batch(data)[0]
        self.model.entries.append(Entry(offset, self.clock.ms, record.key, record.value, self.epoch, is_control=True))
        if not commit:
            self.model.aborted.append(range(producer.txn_first, offset))
        self.log.append_as_leader(data, self.epoch, self.clock.ms, AppendOrigin.COORDINATOR)
        producer.is_open, producer.txn_first = False, -1
        self._replicate()

    def append_as_follower(self) -> None:
        """Several batches at once, with the leader's offsets and epoch, the last one perhaps cut short."""
        data = bytearray()
        self.epoch += self.source.choice([0, 1])
        base = self.model.end_offset
        for _ in range(self.source.choice([1, 3])):
            records = [record._replace(offset=base + record.offset) for record in self._records()]
            data += encode_batch(records, leader_epoch=self.epoch)
            self.model.entries += [
                Entry(record.offset, record.timestamp, record.key, record.value, self.epoch) for record in records
            ]
            base += len(records)
        torn = bytes(data) + bytes(data)[: self.source.randrange(40)]
        self.log.append_as_follower(torn, self.clock.ms)
        self._replicate()

    def _replicate(self) -> None:
        if self.source.random() < 0.8:
            self.log.advance_high_watermark(self.log.end_offset)

    def roll(self) -> None:
        self.log.roll(self.clock.ms)

    def flush(self) -> None:
        self.log.flush(self.clock.ms)
        self.model.flushed()

    def flush_in_a_thread(self) -> None:
        """Begins, or ends what was begun: meanwhile the log continues."""
        if self.flushing is None:
            self.flushing = (self.log.begin_flush(self.clock.ms), self.truncations)
            return
        job, truncations = self.flushing
        self.flushing = None
        job.run()
        self.log.end_flush(job)
        if truncations == self.truncations:
            self.model.versions = []
            self.model.durable_end = max(self.model.durable_end, job.end_offset)
        # The recovery point is a promise too.
        self.model.durable_end = max(self.model.durable_end, self.log.durability.recovery_point)

    def write_epochs_in_a_thread(self) -> None:
        self.writing_epochs = self._go_on(self.writing_epochs or writing_epochs(self.log, "flusher"))

    def checkpoint(self) -> None:
        self.directory.checkpoints.write_all()
        self.model.durable_start = self.model.start_offset

    def checkpoint_in_a_thread(self) -> None:
        """It may be out of date by the time that it is written; what matters is that it never promises too much."""
        self.checkpointing = self._go_on(
            self.checkpointing or self.directory.checkpoints.writing(*self.directory.checkpoints)
        )

    def _go_on(self, steps: Steps[None]) -> Steps[None] | None:
        """The next of its steps; None when there is none."""
        step = next(steps, None)
        if step is None:
            return None
        if not isinstance(step, int):
            step()
        return steps

    def truncate(self) -> None:
        # Compaction only looks at what is committed, and that is never truncated.
        first, end = max(self.log.start_offset, self.model.cleaned_to), self.log.end_offset
        if first >= end:
            return
        offset = self.source.randrange(first, end)
        boundary = self._batch_start(offset)
        self.epoch += 1
        self.truncations += 1
        self.model.truncated(max(boundary, min(self.log.start_offset, offset)), boundary)
        self.directory.truncate(TOPIC, PARTITION, offset, self.clock.ms)
        self._producers_from_log()

    def _batch_start(self, offset: int) -> int:
        """A batch goes as a whole."""
        found = self.log.read(offset, 1, self.log.end_offset)
        if found is None:
            return offset
        header = next(iter(batch_headers(found.read())))[1]
        return min(offset, header.base_offset)

    def delete_records(self) -> None:
        if self.log.high_watermark > self.log.start_offset:
            offset = self.source.randrange(self.log.start_offset, self.log.high_watermark + 1)
            self.model.start_offset = offset
            self.log.advance_start(offset)

    def retain(self) -> None:
        # An interrupted operation may have deleted any number of segments.
        self.model.start_offset = max(self.model.start_offset, self.log.start_offset)
        try:
            apply_retention(self.log, self.clock.ms)
        finally:
            self.model.start_offset = max(self.model.start_offset, self.log.start_offset)

    def compact_log(self) -> None:
        cleaner = Cleaner([self.directory], CleanerConfig(), self.clock)
        self.model.cleaned_to = max(self.model.cleaned_to, self.log.active.base_offset)
        plan = cleaner.next(self.clock.ms)
        if plan is not None:
            cleaner.install(plan.run(), self.clock.ms)
            # The cleaner flushes before it swaps.
        self.model.cleaned_to = max(
            self.model.cleaned_to, self.directory.checkpoints.cleaner_offsets.get((TOPIC, PARTITION), 0)
        )

    def purge(self) -> None:
        self.clock.ms += self.source.choice([0, 70_000])
        self.directory.purge(self.clock.ms)

    def reopen_cleanly(self) -> None:
        self.model.start_offset = self.log.start_offset
        self.directory.close()
        self.model.flushed()
        self.checkpoint_done()
        self._open()

    def checkpoint_done(self) -> None:
        self.model.durable_start = self.model.start_offset

    def _restart(self) -> None:
        """Opens what a crash has left; there may be another crash during that."""
        self.trace.append("restart")
        while True:
            self.disk = self.disk.restart()
            if self.source.random() < 0.2:
                self.disk.crash_at(self.disk.steps + self.source.choice([1, 2, 4, 8, 16]))
            try:
                self._open()
                self._after_crash()
                return
            except SimulatedCrash:
                self.trace.append("crash while opening")

    def _open(self) -> None:
        self.flushing = self.writing_epochs = self.checkpointing = None
        self.directory = self._open_directory()
        self.directory.open()
        # A new one has no files until its first batch: its broker makes it again.
        found = self.directory.logs.get((TOPIC, PARTITION))
        self.log = found or self.directory.create(TOPIC, PARTITION, TOPIC_ID, self.clock.ms)

    def _open_directory(self) -> LogDirectory:
        return LogDirectory(
            self.disk, lambda _topic: self.config, self.clock, SeededRandom(7), producer_expiration_ms=10**12
        )

    # Invariants

    def _after_crash(self) -> None:
        """Takes over what survived, provided that it is one of the states that a crash may leave."""
        log, model = self.log, self.model
        assert log.end_offset >= model.durable_end, (
            f"flushed up to {model.durable_end}, but the log ends at {log.end_offset}"
        )
        assert log.start_offset <= model.start_offset, (
            f"starts at {log.start_offset}, should not before {model.start_offset}"
        )
        survivors = self._walk()
        flushed = [entry for entry in model.entries if entry.offset < model.durable_end]
        for version in [model.entries, *model.versions]:
            if [entry for entry in version if entry.offset < model.durable_end] != flushed:
                continue
            problem = self._mismatch(survivors, [entry for entry in version if entry.offset < log.end_offset])
            if problem is None:
                model.entries = [entry for entry in version if entry.offset < log.end_offset]
                break
        else:
            raise AssertionError(f"no state of the past: {problem}")
        model.versions = []
        model.start_offset = log.start_offset
        model.durable_start = log.start_offset
        model.durable_end = log.durability.recovery_point
        self._producers_from_log()
        log.advance_high_watermark(log.end_offset)
        self.check()

    def _producers_from_log(self) -> None:
        """A client that lost its answers begins where the log says."""
        self.producers = {
            producer.producer_id: ProducerModel(
                producer.producer_id,
                producer.last_sequence + 1,
                producer.txn_first_offset >= 0,
                producer.txn_first_offset,
            )
            for producer in self.log.producers.by_id.values()
        }

    def check(self) -> None:
        log, model = self.log, self.model
        assert log.end_offset == max(model.end_offset, log.start_offset), f"{log} should end at {model.end_offset}"
        survivors = self._walk()
        problem = self._mismatch(survivors, model.entries)
        assert problem is None, problem
        self._check_reads(survivors)
        self._check_epochs(survivors)
        self._check_timestamps()
        self._check_transactions()

    def _walk(self) -> list[Entry]:
        """All that a reader sees from the start on, in reads of random size."""
        log, offset = self.log, self.log.start_offset
        entries: list[Entry] = []
        while offset < log.end_offset:
            found = log.read(offset, self.source.choice([1, 100, 5000]), log.end_offset)
            if found is None:
                break
            data = found.read()
            headers = list(batch_headers(data))
            assert headers, "the first batch of a read is whole"
            for position, header in headers:
                entries += [
                    Entry(
                        record.offset,
                        record.timestamp,
                        record.key,
                        record.value,
                        header.leader_epoch,
                        header.is_control,
                    )
                    for record in decode_batch(data, position)
                    if record.offset >= log.start_offset
                ]
                offset = header.next_offset
        offsets = [entry.offset for entry in entries]
        assert offsets == sorted(set(offsets)), f"offsets not in order: {offsets}"
        return entries

    def _mismatch(self, survivors: list[Entry], expected: list[Entry]) -> str | None:
        """Why the log is not the list; None if it is, but for records that compaction may have taken."""
        expected = [entry for entry in expected if entry.offset >= self.log.start_offset]
        found = {entry.offset: entry for entry in survivors}
        for entry in survivors:
            if entry not in expected:
                return f"{entry} is in the log, but was never written there"
        latest = {
            entry.key: entry.offset
            for entry in expected
            if not entry.is_control and entry.offset < self.model.cleaned_to
        }
        for entry in expected:
            if entry.offset in found:
                continue
            if entry.offset >= self.model.cleaned_to or not self.compact:
                return f"{entry} is missing"
            superseded = latest.get(entry.key, -1) > entry.offset
            aborted = any(entry.offset in offsets for offsets in self.model.aborted)
            if not superseded and not entry.is_control and not aborted:
                return f"{entry} is missing, and nothing replaces it"
        return None

    def _check_reads(self, survivors: list[Entry]) -> None:
        for _ in range(5):
            if self.log.end_offset == self.log.start_offset:
                return
            offset = self.source.randrange(self.log.start_offset, self.log.end_offset)
            found = self.log.read(offset, 1, self.log.end_offset)
            following = next((entry for entry in survivors if entry.offset >= offset), None)
            if found is None:
                assert following is None, f"nothing found at {offset}, but {following} is there"
                continue
            header = next(iter(batch_headers(found.read())))[1]
            assert header.last_offset >= offset, f"a read of {offset} begins after it"
            if following is not None and header.count > 0:
                assert header.base_offset <= following.offset, f"a read of {offset} passes over {following}"

    def _check_epochs(self, survivors: list[Entry]) -> None:
        for entry in survivors:
            known = self.log.epochs.epoch_for(entry.offset)
            assert known == entry.epoch, f"offset {entry.offset} was written in epoch {entry.epoch}, not {known}"

    def _check_transactions(self) -> None:
        """Producer state, the last stable offset and the aborted transactions, against a walk over all batches."""
        log = self.log
        sequences: dict[int, int] = {}
        open_since: dict[int, int] = {}
        aborted: set[tuple[int, int, int]] = set()
        for segment in log.segments:
            data = segment.file.read(0, segment.size)
            for position, header in batch_headers(data):
                if not header.has_producer_id or header.last_offset < log.start_offset:
                    continue
                marker = end_txn_of(data[position : position + header.size], header)
                if marker is not None:
                    first = open_since.pop(header.producer_id, None)
                    if first is not None and not marker.commit:
                        aborted.add((header.producer_id, first, header.base_offset))
                elif not header.is_control:
                    sequences[header.producer_id] = header.last_sequence
                    if header.is_transactional:
                        open_since.setdefault(header.producer_id, header.base_offset)
        for producer_id, sequence in sequences.items():
            known = log.producers.by_id[producer_id]
            # A snapshot may know of batches that were compacted, and of a transaction that began before the start.
            is_known = known.last_sequence >= sequence if self.compact else known.last_sequence == sequence
            assert is_known, f"{known} wrote up to sequence {sequence}"
            is_open = known.txn_first_offset >= (log.start_offset if producer_id not in open_since else 0)
            assert is_open == (producer_id in open_since), f"{known}: {open_since}"
        unstable = min((offset for offset in open_since.values()), default=log.end_offset)
        assert log.last_stable_offset <= max(unstable, log.start_offset), f"{log.last_stable_offset} is past {unstable}"
        # Where a transaction began a walk does not know if that lies before the start, or was compacted.
        listed = {txn[1:4] for txn in log.aborted_txns_between(0, log.end_offset)}
        if self.compact:
            aborted = {(producer_id, 0, last_offset) for producer_id, _, last_offset in aborted}
            listed = {(producer_id, 0, last_offset) for producer_id, _, last_offset in listed}
            assert aborted <= listed, f"{aborted - listed} were aborted and are not listed"
        else:
            whole = {txn for txn in listed if txn[1] >= log.start_offset}
            cut = {txn[2] for txn in listed - whole}
            assert {txn for txn in aborted if txn[2] not in cut} == whole, (
                f"{aborted} were aborted, {listed} are listed"
            )

    def _check_timestamps(self) -> None:
        """Kafka's answer: the first match in the first segment whose youngest record is young enough."""
        entries = self._walk()
        if not entries:
            return
        timestamp = self.source.choice(entries).timestamp
        found = self.log.offset_for_timestamp(timestamp)
        bases = [segment.base_offset for segment in self.log.segments]
        youngest = max(entry.timestamp for entry in entries)
        if found is not None:
            assert any(entry.offset == found.offset and entry.timestamp == found.timestamp for entry in entries)
            segment_start = max(base for base in bases if base <= found.offset)
            earlier = [
                entry
                for entry in entries
                if segment_start <= entry.offset < found.offset and entry.timestamp >= timestamp
            ]
            assert not earlier, f"{earlier[0]} comes before {found}"
        latest = self.log.offset_of_max_timestamp()
        if latest is None:
            # As in Kafka: the batch of the youngest record was emptied, and its header kept.
            assert self.compact
        else:
            assert latest.timestamp >= youngest
