"""Producer state of a partition: last batches (to detect duplicates), epochs, and open transactions (which hold back
the last stable offset)."""

from collections import deque
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from cordwood.log.steps import Steps, do_all
from cordwood.shard.refusal import Refusal
from cordwood.wire.batch_header import BatchHeader
from cordwood.wire.control import EndTxnMarker
from cordwood.wire.errors import ErrorCode

BATCHES_TO_REMEMBER = 5
NO_EPOCH = -1
NO_SEQUENCE = -1
MAX_SEQUENCE = 2**31 - 1
_PRODUCERS_PER_STEP = 50


class AppendOrigin(Enum):
    """The origin of an append, which determines the checks, as in Kafka."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"
    RAFT_LEADER = "raft leader"


class ProducerBatch(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        """Sequence numbers wrap after 2^31 - 1."""
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE


class CompletedTxn(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class Producer:
    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "producer_id", "txn_first_offset")

    def __init__(
        self,
        producer_id: int,
        epoch: int = NO_EPOCH,
        coordinator_epoch: int = -1,
        last_timestamp: int = -1,
        txn_first_offset: int = -1,
        batches: Iterable[ProducerBatch] = (),
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        # -1: no transaction is open in this partition.
        self.txn_first_offset = txn_first_offset
        self.batches: deque[ProducerBatch] = deque(batches, maxlen=BATCHES_TO_REMEMBER)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def set_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.batches.clear()
            self.epoch = epoch

    def __repr__(self) -> str:
        return (
            f"Producer({self.producer_id}, epoch={self.epoch}, last_sequence={self.last_sequence}, "
            f"txn_first_offset={self.txn_first_offset})"
        )


class Producers:
    """`check` decides whether a batch may be written, `apply` records that it was. State is as of `end_offset`."""

    __slots__ = ("_open_txns", "_unreplicated_txns", "by_id", "end_offset", "expiration_ms")

    def __init__(self, expiration_ms: int, end_offset: int = 0, producers: Iterable[Producer] = ()) -> None:
        self.expiration_ms = expiration_ms
        self.end_offset = end_offset
        self.by_id = {producer.producer_id: producer for producer in producers}
        # First offset -> producer id, in offset order.
        self._open_txns = {
            producer.txn_first_offset: producer.producer_id
            for producer in sorted(self.by_id.values(), key=lambda producer: producer.txn_first_offset)
            if producer.txn_first_offset >= 0
        }
        # First offset -> last offset, of transactions whose marker is not yet below the high watermark.
        self._unreplicated_txns: dict[int, int] = {}

    def before(self, offset: int) -> list[Producer]:
        """Copies of the producers that wrote nothing from there on."""
        return [
            Producer(
                producer.producer_id,
                producer.epoch,
                producer.coordinator_epoch,
                producer.last_timestamp,
                producer.txn_first_offset,
                producer.batches,
            )
            for producer in self.by_id.values()
            if not producer.batches or producer.batches[-1].last_offset < offset
        ]

    @property
    def first_unstable_offset(self) -> int | None:
        """Records from here on are invisible to read_committed consumers."""
        first_open = self.first_open_txn_offset
        if not self._unreplicated_txns:
            return first_open
        first_unreplicated = min(self._unreplicated_txns)
        return first_unreplicated if first_open is None else min(first_open, first_unreplicated)

    @property
    def first_open_txn_offset(self) -> int | None:
        return next(iter(self._open_txns), None)

    def find_duplicate(self, header: BatchHeader) -> ProducerBatch | None:
        """The batch that this one duplicates, if it is among the last five of its producer and epoch."""
        producer = self.by_id.get(header.producer_id)
        if producer is None or producer.epoch != header.producer_epoch:
            return None
        for batch in producer.batches:
            if batch.last_sequence == header.last_sequence and batch.first_sequence == header.base_sequence:
                return batch
        return None

    def check(self, header: BatchHeader, origin: AppendOrigin, marker: EndTxnMarker | None) -> None:
        """Raises Refusal unless the batch may follow its producer's earlier ones."""
        producer = self.by_id.get(header.producer_id)
        if producer is None or origin is AppendOrigin.REPLICATION:
            return
        if header.producer_epoch < producer.epoch:
            raise Refusal(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"epoch {header.producer_epoch} of producer {header.producer_id} is older than {producer.epoch}",
            )
        if marker is not None:
            if marker.coordinator_epoch < producer.coordinator_epoch:
                raise Refusal(
                    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                    f"a marker for producer {header.producer_id} has coordinator epoch {marker.coordinator_epoch}, "
                    f"which is older than {producer.coordinator_epoch}",
                )
            return
        if origin is AppendOrigin.CLIENT:
            _check_sequence(producer, header)
        if producer.txn_first_offset >= 0 and not header.is_transactional:
            raise Refusal(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has an open transaction and must not write outside of it",
            )

    def apply(self, header: BatchHeader, marker: EndTxnMarker | None) -> CompletedTxn | None:
        """Records a written batch; returns the transaction that it ended, if any."""
        producer = self.by_id.get(header.producer_id)
        if producer is None:
            producer = self.by_id[header.producer_id] = Producer(header.producer_id)
        # A follower accepts everything its leader wrote, even an epoch that decreased.
        producer.set_epoch(header.producer_epoch)
        if header.is_control:
            return self._end_txn(producer, header, marker) if marker is not None else None
        producer.batches.append(
            ProducerBatch(header.last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp)
        )
        producer.last_timestamp = header.max_timestamp
        if header.is_transactional and producer.txn_first_offset < 0:
            producer.txn_first_offset = header.base_offset
            self._open_txns[header.base_offset] = header.producer_id
        return None

    def last_stable_offset_after(self, txn: CompletedTxn) -> int:
        """The last stable offset once `txn` is complete, for the transaction index."""
        others = (offset for offset, producer_id in self._open_txns.items() if producer_id != txn.producer_id)
        return next(others, txn.last_offset + 1)

    def on_high_watermark(self, high_watermark: int) -> None:
        if not self._unreplicated_txns:
            return
        for first_offset, last_offset in list(self._unreplicated_txns.items()):
            if last_offset < high_watermark:
                del self._unreplicated_txns[first_offset]

    def expire(self, now_ms: int) -> int:
        """Removes idle producers without an open transaction; returns their number."""
        return do_all(self.expiring(now_ms))

    def expiring(self, now_ms: int) -> Steps[int]:
        expired = 0
        for number, producer in enumerate(list(self.by_id.values()), start=1):
            # Between the steps it may have become active again, or have been removed.
            if self.is_expired(producer, now_ms) and self.by_id.get(producer.producer_id) is producer:
                del self.by_id[producer.producer_id]
                expired += 1
            if number % _PRODUCERS_PER_STEP == 0:
                yield 1
        return expired

    def is_expired(self, producer: Producer, now_ms: int) -> bool:
        return producer.txn_first_offset < 0 and now_ms - producer.last_timestamp >= self.expiration_ms

    def _end_txn(self, producer: Producer, header: BatchHeader, marker: EndTxnMarker) -> CompletedTxn | None:
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = header.max_timestamp
        first_offset = producer.txn_first_offset
        if first_offset < 0:
            return None
        producer.txn_first_offset = -1
        del self._open_txns[first_offset]
        self._unreplicated_txns[first_offset] = header.base_offset
        return CompletedTxn(header.producer_id, first_offset, header.base_offset, not marker.commit)


def _check_sequence(producer: Producer, header: BatchHeader) -> None:
    if header.producer_epoch != producer.epoch:
        if header.base_sequence != 0 and producer.epoch != NO_EPOCH:
            raise Refusal(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} begins epoch {header.producer_epoch} with sequence "
                f"{header.base_sequence}, not 0",
            )
        return
    expected = (producer.last_sequence + 1) & MAX_SEQUENCE
    if header.base_sequence != expected:
        raise Refusal(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"sequence {header.base_sequence} of producer {header.producer_id} does not follow "
            f"{producer.last_sequence}: expected {expected}",
        )
