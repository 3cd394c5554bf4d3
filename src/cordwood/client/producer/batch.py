"""A batch of records of one partition that are sent, acknowledged and completed together."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import ClientError
from cordwood.client.producer.deliveries import Delivery, NewEvent, Outcome, RecordMetadata
from cordwood.client.producer.identity import ProducerIdentity
from cordwood.client.producer.shortcut import Headers, OpenBatch
from cordwood.wire.batch_builder import BatchBuilder, SealedBatch
from cordwood.wire.compression import Codec

__all__ = ["GivenHeaders", "Headers", "Packing", "ProducerBatch", "RecordMetadata"]

GivenHeaders = Headers | Mapping[str, bytes | None]
"""Headers as given by applications; names may repeat only in a sequence."""

_NO_ERRORS: Mapping[int, ClientError] = MappingProxyType({})
_NO_LIMIT_BYTES = 2**31 - 1
# Maximum bytes of a record's numbers before its key.
_BEFORE_KEY_BYTES = 21


class Packing:
    """Encoding parameters of a batch."""

    __slots__ = ("codec", "level", "limit_bytes", "new_event")

    def __init__(
        self,
        limit_bytes: int,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        new_event: NewEvent | None = None,
    ) -> None:
        self.limit_bytes = limit_bytes
        """Limit of a batch before compression, unless it is a single record."""
        self.codec = codec
        self.level = level
        self.new_event = new_event
        """Lets a thread wait for a delivery; None if blocking is not allowed."""


class ProducerBatch:
    """Grows until `close`, is encoded once for each identity and sequence, and is completed once.

    Owned by the accumulator until it is drained, then by the sender. `base_sequence` and `identity` are set when it is
    first drained, and kept through retries.
    """

    __slots__ = (
        "_builder",
        "_count",
        "_packing",
        "_sealed",
        "_size_bytes",
        "attempts",
        "base_sequence",
        "created_s",
        "held_bytes",
        "identity",
        "is_closed",
        "is_flushed",
        "is_released",
        "not_before_s",
        "open",
        "outcome",
        "partition",
        "place",
    )

    def __init__(
        self,
        partition: TopicPartition,
        packing: Packing,
        created_s: float,
        place: tuple[int, ...],
        held_bytes: int,
        sealed: SealedBatch | None = None,
    ) -> None:
        """`sealed` is a complete, closed batch."""
        self.partition = partition
        self.created_s = created_s
        self.identity: ProducerIdentity | None = None
        self.base_sequence = -1
        self.attempts = 0
        """Number of retries."""
        self.place = place
        """Position among all batches of the producer, in creation order; parts keep their whole's."""
        self.held_bytes = held_bytes
        """Bytes held of the buffer pool."""
        self.not_before_s = created_s
        """Earliest time to send it; later than its creation if it will be retried."""
        self.is_flushed = False
        self.is_released = False
        self.is_closed = sealed is not None
        self._packing = packing
        self.outcome = Outcome(partition, packing.new_event)
        self._builder = BatchBuilder(packing.limit_bytes) if sealed is None else None
        self.open = OpenBatch(self.outcome, self._builder)
        self._sealed = sealed
        self._count = 0 if sealed is None else sealed.count
        self._size_bytes = 0 if sealed is None else sealed.size

    def append(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers) -> Delivery | None:
        """None if the record does not fit, or the batch is closed."""
        return self.open.append(timestamp_ms, key, value, headers)

    @property
    def record_count(self) -> int:
        return self._count if self._builder is None else self._builder.count

    @property
    def size_bytes(self) -> int:
        """Upper bound of its size in a request: uncompressed until it is encoded."""
        return self._size_bytes if self._builder is None else self._builder.size

    @property
    def is_full(self) -> bool:
        """True if no further record fits."""
        return self.is_closed or self._builder is None or self._builder.size >= self._packing.limit_bytes

    @property
    def room_bytes(self) -> int:
        """Approximate bytes of records that still fit."""
        if self.is_closed or self._builder is None:
            return 0
        return max(0, self._packing.limit_bytes - self._builder.size - _BEFORE_KEY_BYTES)

    @property
    def is_done(self) -> bool:
        return self.outcome.is_done

    def close(self) -> None:
        """Rejects further records."""
        self.is_closed = True
        self.open.close()

    def encode(self, *, transactional: bool) -> bytearray:
        """Returns the batch encoded with its identity and sequence. Closes it."""
        sealed = self._seal()
        if self.identity is None:
            return sealed.stamped(transactional=transactional)
        return sealed.stamped(self.identity.id, self.identity.epoch, self.base_sequence, transactional)

    def complete(self, base_offset: int, log_append_time_ms: int) -> None:
        """Completes every record with its metadata; -1 if the broker did not report it. Either this or `fail` is
        called, once."""
        self._let_go()
        self.outcome.complete(base_offset, log_append_time_ms)

    def fail(self, error: ClientError, errors: Mapping[int, ClientError] = _NO_ERRORS) -> None:
        """`errors` has those of single records by index, if the broker names the culprits."""
        self._let_go()
        self.outcome.fail(error, errors)

    def on_done(self, callback: "Callable[[ProducerBatch], object]") -> None:
        """Registers a callback for completion or failure, called at once if it is done; for a split batch when all
        parts are done."""
        self.outcome.on_done(partial(callback, self))

    def split(self) -> "list[ProducerBatch]":
        """Splits into two batches that hold its records in order and complete them in its place. A single record cannot
        be split.

        The parts also take over its share of the buffer pool: they are released in its place.
        """
        records = self._seal().records()
        sizes = [len(record.key or b"") + len(record.value or b"") + 1 for record in records]
        middle = _middle(sizes)
        first_share = self.held_bytes * sum(sizes[:middle]) // sum(sizes)
        shares = (first_share, self.held_bytes - first_share)
        packing = Packing(_NO_LIMIT_BYTES, self._packing.codec, self._packing.level, self._packing.new_event)
        parts = []
        for number, (first, end) in enumerate(((0, middle), (middle, len(records)))):
            part = ProducerBatch(self.partition, packing, self.created_s, (*self.place, number), shares[number])
            for record in records[first:end]:
                part.append(record.timestamp, record.key, record.value, record.headers)
            part.close()
            part.attempts = self.attempts
            part.is_flushed = self.is_flushed
            part.identity = self.identity
            if self.base_sequence >= 0:
                part.base_sequence = (self.base_sequence + first) % 2**31
            parts.append(part)
        self._let_go()
        self.held_bytes = 0
        self.is_released = True
        self.outcome.divide(((0, parts[0].outcome), (middle, parts[1].outcome)))
        return parts

    def _seal(self) -> SealedBatch:
        if self._sealed is None:
            self.close()
            assert self._builder is not None, f"a batch of {self.partition} is complete and cannot be sent again"
            self._sealed = self._builder.seal(self._packing.codec, self._packing.level)
            self._builder = None
            self._count = self._sealed.count
            self._size_bytes = self._sealed.size
        return self._sealed

    def _let_go(self) -> None:
        """Frees the records, even if the batch is still referenced."""
        self.close()
        self._count, self._size_bytes = self.record_count, self.size_bytes
        self._builder = None
        self._sealed = None

    def __repr__(self) -> str:
        return f"<ProducerBatch {self.place} of {self.partition}>"


def _middle(sizes: Sequence[int]) -> int:
    """Returns the index of the second half, by bytes; both halves have a record."""
    assert len(sizes) > 1, "a single record cannot be split"
    half = sum(sizes) / 2
    total = 0
    for index, size in enumerate(sizes):
        total += size
        if total >= half:
            return min(max(index, 1), len(sizes) - 1)
    return len(sizes) - 1
