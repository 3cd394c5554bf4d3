"""A shard's state without a log around it: what is decided is replayed at once, and what is prepared is noted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from cordwood.broker.start.standalone import standalone_config
from cordwood.config.layers import Layer
from cordwood.coordinator.record import CoordinatorRecord
from cordwood.coordinator.transactions.adding import add_partitions
from cordwood.coordinator.transactions.ending import complete, end_transaction
from cordwood.coordinator.transactions.initializing import init_producer_id
from cordwood.coordinator.transactions.records import record
from cordwood.coordinator.transactions.shard_state import TransactionShardState
from cordwood.coordinator.transactions.transaction import TopicPartition, Transaction, WriteMarkers
from cordwood.shard.decision import Decision, ProducerIdAndEpoch
from cordwood.shard.promise import Promise
from cordwood.wire.frames import decode_coordinator_value, encode_coordinator_value
from cordwood.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

T = TypeVar("T")

ID = "tx"
ORDERS = ("orders", 0)
_CONFIG = standalone_config(Layer("test", {"log.dirs": "/data"}), port=0)


class Time:
    def __init__(self) -> None:
        self.passed_ms = 0

    def monotonic(self) -> float:
        return self.passed_ms / 1000

    def now_ms(self) -> int:
        return 1_700_000_000_000 + self.passed_ms

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody sleeps here")


class Desk:
    def __init__(self, level: int = 2) -> None:
        self.time = Time()
        self.prepared: list[Transaction] = []
        self.level = level
        self._next_producer_id = 100
        self.state = TransactionShardState(self.time, _CONFIG, self.level)

    def take(self) -> int:
        """As the broker's producer ids, of which there are always more."""
        self._next_producer_id += 1
        return self._next_producer_id - 1

    @property
    def transaction(self) -> Transaction:
        return self.state.transactions[ID]

    def decide(self, decision: Callable[[TransactionShardState], Decision[T]]) -> T:
        decided = decision(self.state)
        self.state.replay(decided.records, 0, -1)
        for answer in decided.answers:
            answer.promise.resolve(answer.response)
        for effect in decided.effects:
            self._perform(effect)
        assert not isinstance(decided.response, Promise)
        return decided.response

    def _perform(self, effect: WriteMarkers) -> None:
        prepared = self.state.transactions[effect.transactional_id]
        assert prepared.partitions == frozenset(effect.partitions)
        self.prepared.append(prepared)

    def ring(self) -> None:
        """Decides what is due by now."""
        while (due := self.state.timers.take_due()) is not None:
            self.decide(due[1])

    # In few words

    def begin(
        self, expected: tuple[int, int] = (-1, -1), *, enable2_pc: bool = False, keep_prepared_txn: bool = False
    ) -> InitProducerIdResponse:
        request = InitProducerIdRequest(
            transactional_id=ID,
            transaction_timeout_ms=60_000,
            producer_id=expected[0],
            producer_epoch=expected[1],
            enable2_pc=enable2_pc,
            keep_prepared_txn=keep_prepared_txn,
        )
        return self.decide(lambda state: init_producer_id(state, request, self))

    def add(self, producer_id: int, epoch: int, *partitions: TopicPartition, client_version: int = 2) -> None:
        producer = ProducerIdAndEpoch(producer_id, epoch)
        self.decide(lambda state: add_partitions(state, ID, producer, partitions or (ORDERS,), client_version, None))

    def end(self, producer_id: int, epoch: int, *, commit: bool, bumps_epoch: bool = True) -> EndTxnResponse:
        request = EndTxnRequest(transactional_id=ID, producer_id=producer_id, producer_epoch=epoch, committed=commit)
        return self.decide(lambda state: end_transaction(state, request, self, bumps_epoch=bumps_epoch))

    def complete(self) -> None:
        """All markers are written."""
        prepared = self.prepared.pop()
        self.decide(lambda state: complete(state, prepared))

    def at_epoch(self, epoch: int, producer_id: int = 7) -> None:
        """As if it had come that far."""
        self.begin()
        aged = self.transaction._replace(
            producer_id=producer_id, producer_epoch=epoch, previous_producer_id=producer_id
        )
        self.state.replay([record(aged, self.level)], 0, -1)

    def load_anew(self) -> None:
        """Another broker reads what is in the log."""
        before = self.state
        self.state = TransactionShardState(self.time, _CONFIG, self.level)
        for transaction in before.transactions.values():
            written = record(transaction, self.level)
            assert written.value is not None
            data = encode_coordinator_value(written.value, written.version)
            read, version = decode_coordinator_value("transaction", 0, data)
            self.state.replay([CoordinatorRecord(written.key, read, version)], 0, -1)
        self.state.loaded()
