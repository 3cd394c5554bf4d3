"""Sequence numbers of an idempotent producer, with which brokers detect duplicates; sans-IO.

Brokers accept a producer's batches of a partition in sequence order, without gaps (KIP-98). So an assigned number must
be written, or else the producer continues under a new epoch, with numbers from 0 (KIP-360). Before that, nothing of the
partition may be in flight: a batch that gets a new number while a broker may still write it under its old one could be
written twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from cordwood.client.cluster import TopicPartition
from cordwood.client.producer.batch import ProducerBatch
from cordwood.client.producer.identity import ProducerIdentity
from cordwood.wire.errors import ErrorCode

# Brokers remember the last five batches of a producer and partition; a sixth might push out one that is retried.
MAX_IN_FLIGHT = 5

_SEQUENCES = 1 << 31
_LAST_EPOCH = (1 << 15) - 1


def sequence_after(sequence: int, record_count: int) -> int:
    """Sequences wrap at 2^31."""
    return (sequence + record_count) % _SEQUENCES


@dataclass(slots=True)
class _Partition:
    identity: ProducerIdentity | None = None
    next_sequence: int = 0
    acknowledged: int | None = None
    """The sequence after the last record acknowledged under this identity; None if none was."""
    acknowledged_offset: int = -1
    numbered: dict[ProducerBatch, int] = field(default_factory=dict)
    """Unfinished batches with a sequence, in order: in flight, or waiting for a retry. Each with the number of batches
    of the partition numbered before it."""
    numbered_total: int = 0
    on_wire: list[ProducerBatch] = field(default_factory=list)
    """Batches that a broker may be writing now, including abandoned ones."""
    unresolved: int | None = None
    """The sequence after abandoned batches that may or may not have been written."""
    has_gap: bool = False
    """An assigned sequence will never be written: a new epoch is needed."""
    is_forgotten: bool = False
    """Retention has deleted the producer's records and the broker's knowledge of it: numbers restart at 0 in the same
    epoch."""

    resent: ProducerBatch | None = None
    """The batch that was retried last."""
    refused: list[ProducerBatch] = field(default_factory=list)
    """Batches refused as out of order since the last accepted one."""

    def is_next(self, sequence: int) -> bool:
        return sequence == (0 if self.acknowledged is None else self.acknowledged)


class Sequences:
    """`identity` is None until InitProducerId was answered, and again once its epochs are used up."""

    def __init__(self, *, transactional: bool = False) -> None:
        self.identity: ProducerIdentity | None = None
        self._transactional = transactional
        self._partitions: dict[TopicPartition, _Partition] = {}
        # Partitions that are unresolved, have a gap or are forgotten.
        self._troubled: dict[TopicPartition, _Partition] = {}

    def identified(self, identity: ProducerIdentity) -> None:
        """Sets the identity, from InitProducerId or the end of a transaction (KIP-890)."""
        self.identity = identity
        for partition, state in self._quiet_gaps():
            self._renumber(partition, state)

    # ---- batches

    def may_send(self, partition: TopicPartition) -> bool:
        """Returns whether the partition's next batch may be sent now."""
        if self.identity is None:
            return False
        state = self._partitions.get(partition)
        if state is None:
            return True
        if partition in self._troubled or len(state.numbered) != len(state.on_wire):
            if state.has_gap or state.is_forgotten:
                return False
            # Retries come before new batches.
            if any(batch not in state.on_wire for batch in state.numbered):
                return next(iter(state.numbered)) not in state.on_wire and not (state.refused and state.on_wire)
            if state.unresolved is not None:
                return False
        if not state.on_wire:
            return True
        return state.identity == self.identity and not state.refused and _may_follow(state)

    def sent(self, batch: ProducerBatch) -> None:
        """Assigns a sequence, if the batch has none yet; a retried one keeps it."""
        state = self._partitions.setdefault(batch.partition, _Partition())
        if batch.identity is None:
            if state.identity != self.identity:
                assert not state.numbered
                _restart(state, self.identity)
            batch.identity = state.identity
            batch.base_sequence = state.next_sequence
            state.next_sequence = sequence_after(state.next_sequence, batch.record_count)
            state.numbered[batch] = state.numbered_total
            state.numbered_total += 1
        else:
            state.resent = batch
        state.on_wire.append(batch)

    def completed(self, batch: ProducerBatch, base_offset: int) -> None:
        """The batch is written; possibly one that was abandoned before its response came."""
        state = self._partitions[batch.partition]
        _remove(state.on_wire, batch)
        state.numbered.pop(batch, None)
        state.refused.clear()
        if batch.identity == state.identity:
            end = sequence_after(batch.base_sequence, batch.record_count)
            if state.acknowledged is None or _is_before(state.acknowledged, end):
                state.acknowledged = end
        if base_offset >= 0:
            state.acknowledged_offset = max(state.acknowledged_offset, base_offset + batch.record_count - 1)

    def returned(self, batch: ProducerBatch) -> None:
        """The batch is no longer in flight, and will be retried."""
        _remove(self._partitions[batch.partition].on_wire, batch)

    def may_retry(self, batch: ProducerBatch, code: ErrorCode, log_start_offset: int) -> bool:
        """Returns whether to retry after this error; records a gap that it reveals."""
        state = self._partitions[batch.partition]
        if code == ErrorCode.UNKNOWN_PRODUCER_ID:
            # The broker has forgotten the producer. It reports its log start unless the partition is just moving away.
            if log_start_offset == -1:
                return True
            if self._transactional and state.acknowledged_offset >= log_start_offset:
                return False
            state.is_forgotten = self._transactional
            state.has_gap = not self._transactional
            self._troubled[batch.partition] = state
            return True
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            if state.unresolved is None and not state.is_next(batch.base_sequence):
                # An earlier batch was refused, too, and comes first.
                if not self._transactional:
                    self._note_refused(batch, state)
                return True
            if self._transactional:
                return False
            self._note_refused(batch, state)
            return True
        return code.retriable

    def _note_refused(self, batch: ProducerBatch, state: _Partition) -> None:
        """A restarted broker remembers only the last batch of each producer, and refuses duplicates of earlier ones
        like batches after a gap. Once all batches that may have been written are refused, it has none of them:
        abandoned batches before them were not written, or acknowledged ones are lost."""
        if batch in state.numbered and batch not in state.refused:
            state.refused.append(batch)
        self._troubled[batch.partition] = state
        state.has_gap = state.has_gap or len(state.refused) == len(state.numbered)

    def to_be_tried(self) -> list[ProducerBatch]:
        """Returns batches to retry before refused ones ahead of them: if one is the last that the broker wrote, or the
        next that it accepts, those ahead of it are written, too."""
        return [
            next(batch for batch in state.numbered if batch not in state.refused)
            for state in self._troubled.values()
            if state.refused
            and not state.has_gap
            and not state.on_wire
            and next(iter(state.numbered), None) in state.refused
        ]

    def is_surely_written(self, batch: ProducerBatch) -> bool:
        """True if a later batch was acknowledged: brokers accept no sequence before its predecessor."""
        state = self._partitions[batch.partition]
        if batch.identity != state.identity or state.acknowledged is None:
            return False
        return not _is_before(state.acknowledged, sequence_after(batch.base_sequence, batch.record_count))

    def split(self, batch: ProducerBatch, parts: Sequence[ProducerBatch]) -> None:
        """The parts take its place and share its sequences."""
        state = self._partitions[batch.partition]
        _remove(state.on_wire, batch)
        sequence = batch.base_sequence
        for part in parts:
            part.identity = batch.identity
            part.base_sequence = sequence
            sequence = sequence_after(sequence, part.record_count)
        numbered, state.numbered = state.numbered, {}
        _remove(state.refused, batch)
        for other, before in numbered.items():
            state.numbered |= dict.fromkeys(parts if other is batch else [other], before)

    def failed(self, batch: ProducerBatch, *, surely_not_written: bool, still_on_wire: bool = False) -> None:
        """The batch was abandoned. One without a sequence has no effect here."""
        if batch.identity is None:
            return
        state = self._partitions[batch.partition]
        state.numbered.pop(batch, None)
        _remove(state.refused, batch)
        if not still_on_wire:
            _remove(state.on_wire, batch)
        if batch.identity != state.identity:
            return
        self._troubled[batch.partition] = state
        # A transaction does not continue after a gap under another epoch: later batches are retried and refused, too.
        if surely_not_written and not self._transactional:
            state.has_gap = True
            return
        end = sequence_after(batch.base_sequence, batch.record_count)
        if state.unresolved is None or _is_before(state.unresolved, end):
            state.unresolved = end

    # ---- gaps

    def settle(self) -> None:
        """Called before each drain. Closes the gaps of partitions with nothing in flight, under a new epoch.

        A transactional producer gets its epochs from its coordinator. Every gap comes from a failed batch, so its
        transaction is aborted, and the next one has another identity.
        """
        for partition, state in list(self._troubled.items()):
            if state.unresolved is not None and not state.numbered and not state.on_wire:
                # If later ones were acknowledged, it was written.
                state.has_gap = state.has_gap or not state.is_next(state.next_sequence)
                state.unresolved = None
                if not state.has_gap and not state.is_forgotten:
                    del self._troubled[partition]
                    continue
            if not (state.has_gap or state.is_forgotten or state.refused or state.unresolved is not None):
                del self._troubled[partition]
                continue
            # The next candidate may have been abandoned.
            state.has_gap = state.has_gap or (bool(state.refused) and len(state.refused) == len(state.numbered))
            if state.is_forgotten and not state.has_gap and not state.on_wire:
                self._renumber(partition, state)
        quiet = self._quiet_gaps()
        if not quiet or self.identity is None:
            return
        if self._transactional:
            for partition, state in quiet:
                if state.identity != self.identity:
                    self._renumber(partition, state)
            return
        if self.identity.epoch >= _LAST_EPOCH:
            self.identity = None
            return
        self.identity = ProducerIdentity(self.identity.id, self.identity.epoch + 1)
        for partition, state in quiet:
            self._renumber(partition, state)

    def _quiet_gaps(self) -> list[tuple[TopicPartition, _Partition]]:
        return [(name, state) for name, state in self._troubled.items() if state.has_gap and not state.on_wire]

    def _renumber(self, partition: TopicPartition, state: _Partition) -> None:
        _restart(state, self.identity)
        self._troubled.pop(partition, None)
        for batch in state.numbered:
            batch.identity = self.identity
            batch.base_sequence = state.next_sequence
            state.next_sequence = sequence_after(state.next_sequence, batch.record_count)


def _may_follow(state: _Partition) -> bool:
    """Returns whether a new batch may be sent while others are in flight. It must not push the oldest out of the
    broker's memory: if that one's response were lost, the broker could not report that it was written."""
    if state.acknowledged is None:
        # A broker that does not know the producer accepts any first sequence. If the first batch failed temporarily and
        # the second did not, the first could never be written: so the first goes alone.
        return False
    if not state.numbered:
        return True
    oldest, before = next(iter(state.numbered.items()))
    # Retries go alone: if one fails again, batches after it would only be refused as out of order.
    return oldest is not state.resent and state.numbered_total - before < MAX_IN_FLIGHT


def _restart(state: _Partition, identity: ProducerIdentity | None) -> None:
    state.identity = identity
    state.next_sequence = 0
    state.acknowledged = None
    state.unresolved = None
    state.has_gap = False
    state.is_forgotten = False
    state.refused.clear()


def _is_before(sequence: int, other: int) -> bool:
    """Compares two nearby sequences modulo 2^31."""
    return 0 < (other - sequence) % _SEQUENCES < _SEQUENCES // 2


def _remove(batches: list[ProducerBatch], batch: ProducerBatch) -> None:
    if batch in batches:
        batches.remove(batch)
