"""Records of one partition on their way to its leader; sans-IO.

At most one batch is in flight, so order holds whatever fails and is tried again. A batch that is tried again has the
same sequence number, so an idempotent broker appends it once.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from cordwood.wire.compression import Codec
from cordwood.wire.records import encode_batch

Headers = Sequence[tuple[str, bytes | None]]
Outgoing = tuple[int, bytes | None, bytes | None, Headers]
"""Timestamp, key, value, headers."""

# What a record takes beside its key, value and headers; varints, so about.
RECORD_OVERHEAD_BYTES = 16
_SEQUENCES = 1 << 31


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """From InitProducerId; makes appends idempotent."""

    id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class OutgoingBatch:
    records: Sequence[Outgoing]
    size_bytes: int
    """Of the records as they were added: what the queue holds less once they are delivered."""
    base_sequence: int
    encoded: bytearray


class ProduceQueue:
    def __init__(self, batch_bytes: int, codec: Codec = Codec.NONE, identity: ProducerIdentity | None = None) -> None:
        self._batch_bytes = batch_bytes
        self._codec = codec
        self._identity = identity
        self._waiting: deque[tuple[Outgoing, int]] = deque()
        self._next_sequence = 0
        # What a batch that was too large was split into; goes before everything else.
        self._split: deque[tuple[Sequence[Outgoing], int, int]] = deque()
        self._in_flight: OutgoingBatch | None = None

    @property
    def is_empty(self) -> bool:
        return not self._waiting and not self._split and self._in_flight is None

    def add(self, record: Outgoing, size_bytes: int) -> None:
        self._waiting.append((record, size_bytes))

    def take(self) -> OutgoingBatch:
        """The next batch: as many records as fit, at least one. There must be some, and nothing in flight."""
        assert self._in_flight is None
        if self._split:
            records, size_bytes, sequence = self._split.popleft()
        else:
            records, size_bytes = self._gather()
            sequence = self._next_sequence
            self._next_sequence = (sequence + len(records)) % _SEQUENCES
        self._in_flight = self._encode(records, size_bytes, sequence)
        return self._in_flight

    def delivered(self) -> OutgoingBatch:
        """The batch in flight is done with."""
        batch = self._in_flight
        assert batch is not None
        self._in_flight = None
        return batch

    def too_large(self) -> bool:
        """The broker takes no batch of that size: it comes again in two halves. False if it is a single record."""
        batch = self._in_flight
        assert batch is not None
        middle = len(batch.records) // 2
        if middle == 0:
            return False
        self._in_flight = None
        # What the halves weigh by themselves matters to nobody; together it is the whole.
        first_bytes = batch.size_bytes * middle // len(batch.records)
        second = (batch.base_sequence + middle) % _SEQUENCES
        self._split.appendleft((batch.records[middle:], batch.size_bytes - first_bytes, second))
        self._split.appendleft((batch.records[:middle], first_bytes, batch.base_sequence))
        # Later batches need not be refused first.
        self._batch_bytes = max(1, self._batch_bytes // 2)
        return True

    def _gather(self) -> tuple[Sequence[Outgoing], int]:
        records: list[Outgoing] = []
        total = 0
        while self._waiting:
            record, size_bytes = self._waiting[0]
            if records and total + size_bytes > self._batch_bytes:
                break
            self._waiting.popleft()
            records.append(record)
            total += size_bytes
        return records, total

    def _encode(self, records: Sequence[Outgoing], size_bytes: int, sequence: int) -> OutgoingBatch:
        identity = self._identity
        encoded = encode_batch(
            [(offset, *record) for offset, record in enumerate(records)],
            codec=self._codec,
            producer_id=identity.id if identity is not None else -1,
            producer_epoch=identity.epoch if identity is not None else -1,
            base_sequence=sequence if identity is not None else -1,
        )
        return OutgoingBatch(records, size_bytes, sequence, encoded)


def outgoing_size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """About the bytes of a record before compression."""
    size = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += len(name) + len(content or b"") + 2
    return size
