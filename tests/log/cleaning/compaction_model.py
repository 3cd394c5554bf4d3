"""Random compacted logs, and a plain list that says what must be left of them.

The list has every record ever written with what became of its transaction. The model determines the records below the
clean point, independent of how compaction works: the last record of each key that no abort took back, and tombstones
only until delete.retention.ms after they were first cleaned.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from cordwood.log.cleaning.cleaner import Cleaner, CleanerConfig
from cordwood.log.cleaning.compaction import Compacted
from cordwood.log.config import LogConfig
from cordwood.log.dirs.directory import LogDirectory
from cordwood.log.files import PRODUCER_SNAPSHOT
from cordwood.log.idempotence.markers import end_txn_of
from cordwood.log.idempotence.producers import AppendOrigin
from cordwood.log.log import Log
from cordwood.runtime.disk import Disk
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.virtual.disk import SimDisk
from cordwood.wire.batch_header import BatchHeader, batch_headers, whole_batches_length
from cordwood.wire.compression import Codec
from cordwood.wire.control import end_txn_marker
from cordwood.wire.record import Record
from cordwood.wire.records import decode_batch, encode_batch

PARTITION = ("t", 0)
START_MS = 1_700_000_000_000
DELETE_RETENTION_MS = 60_000


class FakeClock:
    def __init__(self) -> None:
        self.ms = float(START_MS)

    def now_ms(self) -> int:
        return int(self.ms)

    def monotonic(self) -> float:
        return self.ms / 1000

    def sleep(self, seconds: float) -> None:
        self.ms += seconds * 1000


@dataclass
class Txn:
    producer_id: int
    first_offset: int
    marker_offset: int | None = None
    committed: bool = False


@dataclass
class Written:
    offset: int
    key: bytes
    value: bytes | None
    txn: Txn | None
    # The time of the first pass that had it below its clean point; None also when that one crashed in its last step.
    cleaned_ms: int | None = None

    @property
    def is_aborted(self) -> bool:
        return self.txn is not None and self.txn.marker_offset is not None and not self.txn.committed

    @property
    def is_open(self) -> bool:
        return self.txn is not None and self.txn.marker_offset is None


@dataclass
class Client:
    producer_id: int
    epoch: int = 0
    sequence: int = 0
    txn: Txn | None = None
    last_sent: bytes = b""


@dataclass
class World:
    """A partition, the clients that write to it, and the list of what they wrote."""

    disk: Disk
    config: LogConfig
    cleaner_config: CleanerConfig = field(default_factory=CleanerConfig)
    clock: FakeClock = field(default_factory=FakeClock)
    written: list[Written] = field(default_factory=list)
    txns: list[Txn] = field(default_factory=list)
    clients: dict[int, Client] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.open()
        if PARTITION not in self.directory.logs:
            self.directory.create(*PARTITION, bytes(16), self.now_ms)

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    @property
    def log(self) -> Log:
        return self.directory.logs[PARTITION]

    @property
    def clean_to(self) -> int:
        return self.directory.checkpoints.cleaner_offsets.get(PARTITION, self.log.start_offset)

    def open(self) -> None:
        self.directory = LogDirectory(self.disk, lambda _topic: self.config, self.clock, SeededRandom(1))
        self.directory.open()
        self.cleaner = Cleaner([self.directory], self.cleaner_config, self.clock)

    # Writing

    def append(
        self,
        *records: tuple[str, str | None],
        producer_id: int = -1,
        transactional: bool = False,
        codec: Codec = Codec.NONE,
    ) -> int:
        """Key and value of each; the first offset. The high watermark follows."""
        client = self.clients.setdefault(producer_id, Client(producer_id)) if producer_id >= 0 else None
        contents = [
            Record(index, self.now_ms, key.encode(), None if value is None else value.encode(), ())
            for index, (key, value) in enumerate(records)
        ]
        data = encode_batch(
            contents,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=client.epoch if client else -1,
            base_sequence=client.sequence if client else -1,
            transactional=transactional,
        )
        sent = bytes(data)
        first = self.log.append_as_leader(data, 0, self.now_ms).first_offset
        if client is not None:
            client.sequence += len(contents)
            client.last_sent = sent
            if transactional and client.txn is None:
                client.txn = Txn(producer_id, first)
                self.txns.append(client.txn)
        txn = client.txn if client and transactional else None
        for record in contents:
            assert record.key is not None
            self.written.append(Written(first + record.offset, record.key, record.value, txn))
        self.log.advance_high_watermark(self.log.end_offset)
        return first

    def end_txn(self, producer_id: int, *, commit: bool, bump_epoch: bool = False) -> int:
        client = self.clients[producer_id]
        assert client.txn is not None
        if bump_epoch:
            client.epoch, client.sequence, client.last_sent = client.epoch + 1, 0, b""
        marker = end_txn_marker(0, self.now_ms, producer_id, client.epoch, commit, 1, 0)
        offset = self.log.append_as_leader(marker, 0, self.now_ms, AppendOrigin.COORDINATOR).first_offset
        client.txn.marker_offset, client.txn.committed = offset, commit
        client.txn = None
        self.log.advance_high_watermark(self.log.end_offset)
        return offset

    def roll(self) -> None:
        self.log.roll(self.now_ms)

    # Cleaning

    def clean(self) -> Compacted | None:
        """One pass over the log, if it is due."""
        plan = self.cleaner.next(self.now_ms)
        if plan is None:
            return None
        outcome = plan.run()
        if isinstance(outcome.result, Exception):
            raise AssertionError(f"compaction failed: {outcome.result!r}") from outcome.result
        assert self.cleaner.install(outcome, self.now_ms)
        for written in self.written:
            if written.offset < self.clean_to and written.cleaned_ms is None:
                written.cleaned_ms = self.now_ms
        return outcome.result

    def clean_all(self) -> int:
        """As many passes as it takes; how many."""
        passes = 0
        while self.clean() is not None:
            passes += 1
            assert passes < 1000, "passes that get nowhere"
        return passes

    # Stopping

    def reopen(self) -> None:
        self.directory.close()
        self.open()

    def crash(self, *, lose_snapshots: bool = False) -> None:
        """A power loss just after everything was flushed."""
        assert isinstance(self.disk, SimDisk)
        self.log.flush(self.now_ms)
        self.directory.checkpoints.write_all()
        self.disk = self.disk.restart()
        if lose_snapshots:
            for path in [path for path in self.disk.files() if PRODUCER_SNAPSHOT in path]:
                self.disk.remove(path)
        self.open()

    # The model

    def expected_clean(self, last_pass_ms: int) -> list[tuple[int, bytes, bytes | None]]:
        """The records that must remain below the clean point."""
        last: dict[bytes, Written] = {}
        for written in self.written:
            if written.offset < self.clean_to and not written.is_aborted:
                last[written.key] = written
        left = sorted(last.values(), key=lambda written: written.offset)
        return [
            (written.offset, written.key, written.value)
            for written in left
            if written.value is not None
            or written.cleaned_ms is None
            or last_pass_ms < written.cleaned_ms + DELETE_RETENTION_MS
        ]

    def expected_state(self) -> dict[bytes | None, bytes]:
        """Key to value, as a reader of committed data ends up with."""
        stable = [written for written in self.written if written.offset < self.log.last_stable_offset]
        return state_of([(written.offset, written.key, written.value) for written in stable if not written.is_aborted])

    def check(self, last_pass_ms: int | None) -> None:
        """Holds the log against the list."""
        uncommitted = [(record.offset, record.key, record.value) for record in read_uncommitted(self.log)]
        committed = [(record.offset, record.key, record.value) for record in read_committed(self.log)]
        by_offset = {written.offset: written for written in self.written}
        for offset, key, value in uncommitted:
            written = by_offset[offset]
            assert (written.key, written.value) == (key, value), f"offset {offset} is another record now"
        if last_pass_ms is not None:
            clean = [record for record in uncommitted if record[0] < self.clean_to]
            assert clean == self.expected_clean(last_pass_ms), "below the clean point"
            dirty = [(written.offset, written.key, written.value) for written in self.written]
            assert uncommitted[len(clean) :] == [record for record in dirty if record[0] >= self.clean_to]
        decided = [
            (offset, key, value)
            for offset, key, value in uncommitted
            if offset < self.log.last_stable_offset and not by_offset[offset].is_aborted
        ]
        assert committed == decided, "what a reader of committed data sees"
        assert state_of(committed) == self.expected_state()
        self.check_markers()

    def check_markers(self) -> None:
        """A transaction of which a batch is left has its marker, too, and so has every one reported to readers."""
        headers = [header for header, _ in batches_of(self.log)]
        offsets = {header.base_offset for header in headers}
        for aborted in self.log.aborted_txns_between(self.log.start_offset, self.log.end_offset):
            assert aborted.last_offset in offsets, f"{aborted} would go on for ever"
        for txn in self.txns:
            if txn.marker_offset is not None and txn.marker_offset not in offsets:
                left = [
                    header
                    for header in headers
                    if header.producer_id == txn.producer_id
                    and txn.first_offset <= header.base_offset < txn.marker_offset
                ]
                assert not left, f"the marker at {txn.marker_offset} has gone before {left}"

    def check_retries(self) -> None:
        """The last batch of every producer is recognised when it is sent again."""
        for client in self.clients.values():
            if client.last_sent:
                appended = self.log.append_as_leader(bytearray(client.last_sent), 0, self.now_ms)
                assert appended.is_duplicate, f"producer {client.producer_id}"

    def facts(self) -> dict[str, object]:
        """Facts that no cleaning and no restart may change."""
        return {
            "end": self.log.end_offset,
            "start": self.log.start_offset,
            "stable": self.log.last_stable_offset,
            "producers": {
                producer.producer_id: (
                    producer.epoch,
                    producer.last_sequence,
                    producer.txn_first_offset,
                    producer.batches[-1].last_offset if producer.batches else None,
                )
                for producer in self.log.producers.by_id.values()
            },
        }


def state_of(records: Sequence[tuple[int, bytes | None, bytes | None]]) -> dict[bytes | None, bytes]:
    state: dict[bytes | None, bytes] = {}
    for _, key, value in records:
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value
    return state


# Reading as clients do


def batches_of(log: Log, end_offset: int | None = None) -> Iterator[tuple[BatchHeader, memoryview]]:
    for header, data, _ in _fetched(log, end_offset):
        yield header, data


def read_uncommitted(log: Log) -> list[Record]:
    return [record for header, data in batches_of(log) if not header.is_control for record in decode_batch(data)]


def read_committed(log: Log) -> list[Record]:
    """Reads like a consumer: it gets aborted transactions with each fetch, and follows the markers."""
    records: list[Record] = []
    aborted: set[int] = set()
    for header, data, to_come in _fetched(log, log.last_stable_offset):
        while to_come and to_come[0][0] <= header.last_offset:
            aborted.add(to_come.pop(0)[1])
        if header.is_control:
            marker = end_txn_of(data, header)
            if marker is not None and not marker.commit:
                aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            records += decode_batch(data)
    return records


def _fetched(log: Log, end_offset: int | None) -> Iterator[tuple[BatchHeader, memoryview, list[tuple[int, int]]]]:
    offset = log.start_offset
    end = log.end_offset if end_offset is None else end_offset
    while offset < end:
        found = log.read(offset, 700, end)
        if found is None:
            return
        to_come = [(txn.first_offset, txn.producer_id) for txn in log.aborted_txns(found, offset)]
        data = found.read()
        for position, header in batch_headers(data[: whole_batches_length(data)]):
            offset = header.next_offset
            yield header, memoryview(data)[position : position + header.size], to_come


class RandomLog(World):
    """One seed, one history of appends, transactions, passes and restarts."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        clock = FakeClock()
        super().__init__(
            SimDisk(random.Random(seed), now_ms=clock.now_ms),
            LogConfig(
                compact=True,
                delete=False,
                segment_bytes=self.random.choice([400, 900, 3000]),
                index_interval_bytes=self.random.choice([1, 200, 4096]),
                segment_index_bytes=self.random.choice([40, 10_485_760]),
                min_cleanable_dirty_ratio=self.random.choice([0.0, 0.3]),
                delete_retention_ms=DELETE_RETENTION_MS,
            ),
            CleanerConfig(io_buffer_size=self.random.choice([512, 524_288])),
            clock,
        )
        self.keys = [f"k{number}" for number in range(self.random.choice([3, 8, 25]))]

    def run(self) -> None:
        last_pass_ms = None
        for _ in range(self.random.choice([2, 3, 5])):
            for _ in range(self.random.randrange(5, 40)):
                self.write()
            facts = self.facts()
            if self.clean() is not None:
                last_pass_ms = self.now_ms
            assert self.facts() == facts
            self.check(last_pass_ms)
            self.check_retries()
            restart = self.random.choice([None, self.reopen, self.crash, lambda: self.crash(lose_snapshots=True)])
            if restart is not None:
                # A restart forgets all but the last batch of a producer, so this comes after the retries.
                restart()
                assert self.facts() == facts, "after a restart"
                self.check(last_pass_ms)
                self.check_retries()

    def write(self) -> None:
        self.clock.ms += self.random.choice([1, 500, 8_000, 30_000])
        producer_id = self.random.randrange(-1, 4)
        client = self.clients.get(producer_id)
        in_txn = client is not None and client.txn is not None
        if in_txn and self.random.random() < 0.4:
            self.end_txn(producer_id, commit=self.random.random() < 0.5, bump_epoch=self.random.random() < 0.3)
            return
        records = [
            (self.random.choice(self.keys), None if self.random.random() < 0.25 else f"v{self.log.end_offset}-{index}")
            for index in range(self.random.choice([1, 1, 2, 6]))
        ]
        self.append(
            *records,
            producer_id=producer_id,
            transactional=in_txn or (producer_id >= 2 and self.random.random() < 0.8),
            codec=self.random.choice(list(Codec)),
        )
