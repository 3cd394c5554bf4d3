"""Guards of first batches of transactions, while their coordinator verifies them.

A batch is written only while its guard is held: the transaction's marker removes it, so that nothing is written after
the transaction has ended, which would leave it hanging. A guard also remembers the lowest sequence tried, so that a
batch cannot overtake an earlier one that must be retried.
"""

from __future__ import annotations

from cordwood.broker.transactions.marker import Marker
from cordwood.coordinator.transactions.transaction import EPOCH_BUMPS_SINCE, TopicPartition
from cordwood.shard.decision import ProducerIdAndEpoch

# More than there are batches in flight: when a guard is dropped, only the lowest tried sequence is forgotten.
_MOST_GUARDS = 10_000


class Guard:
    __slots__ = ("epoch", "lowest_sequence")

    def __init__(self, epoch: int, sequence: int) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence


class TransactionGuards:
    def __init__(self) -> None:
        # By topic, partition and producer id.
        self._guards: dict[tuple[str, int, int], Guard] = {}

    def __len__(self) -> int:
        return len(self._guards)

    def get(self, partition: TopicPartition, producer_id: int) -> Guard | None:
        return self._guards.get((*partition, producer_id))

    def hold(self, partition: TopicPartition, producer: ProducerIdAndEpoch, base_sequence: int) -> Guard:
        """Returns the guard of this epoch of the producer, which covers the sequence from now on."""
        key = (*partition, producer.producer_id)
        guard = self._guards.get(key)
        if guard is None or guard.epoch != producer.producer_epoch:
            guard = self._guards[key] = Guard(producer.producer_epoch, base_sequence)
            if len(self._guards) > _MOST_GUARDS:
                del self._guards[next(iter(self._guards))]
        elif base_sequence < guard.lowest_sequence:
            guard.lowest_sequence = base_sequence
        return guard

    def release(self, partition: TopicPartition, producer_id: int) -> None:
        """The batch may be written: from then on its transaction is open in the partition."""
        del self._guards[*partition, producer_id]

    def ended(self, topic: str, index: int, marker: Marker) -> None:
        """A marker is written: removes the guard of the transaction that it ends, so that its holder must ask the
        coordinator again. If each end has its own epoch (KIP-890), the producer continues with the marker's epoch,
        possibly before the marker arrives: a guard of that epoch belongs to the next transaction."""
        key = (topic, index, marker.producer_id)
        guard = self._guards.get(key) if self._guards else None
        if guard is None:
            return
        if marker.transaction_version < EPOCH_BUMPS_SINCE or guard.epoch < marker.producer_epoch:
            del self._guards[key]
