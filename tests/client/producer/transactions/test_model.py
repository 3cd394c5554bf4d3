"""A transactional producer and a model of its coordinator, with requests and answers that get lost: many seeds.

In all cases the committed records are the written ones, and when the producer is ready no transaction is open.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import BrokerError, ClientError, NetworkFailed, TimedOut
from cordwood.client.producer.identity import ProducerIdentity
from cordwood.client.producer.settings import ProducerSettings
from cordwood.client.producer.transactions.machine import Transactions
from cordwood.client.producer.transactions.operation import Operation
from cordwood.client.producer.transactions.requests import Ask
from cordwood.client.producer.transactions.states import State
from cordwood.net.peers.backoff import Backoff
from cordwood.runtime.randomness import SeededRandom
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from cordwood.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from cordwood.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from cordwood.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.client.scripted_transactions import GROUP, OFFSETS, added, committed

PARTITIONS = [TopicPartition("t", index) for index in range(3)]
OFFSETS_OF_GROUP = TopicPartition("__consumer_offsets", 0)
RETRIABLE = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS]
STEPS = 300
NOBODY = ProducerIdentity(7, -1)


@dataclass
class ModelCoordinator:
    """One transactional id, and the partitions of its transaction. `outcomes` are those that have ended."""

    producer: ProducerIdentity = NOBODY
    partitions: set[TopicPartition] = field(default_factory=set)
    is_open: bool = False
    outcomes: list[tuple[bool, frozenset[TopicPartition]]] = field(default_factory=list)
    last_end: tuple[ProducerIdentity, bool] | None = None

    def add(self, producer: ProducerIdentity, partitions: set[TopicPartition]) -> ErrorCode:
        if producer != self.producer:
            return ErrorCode.PRODUCER_FENCED
        self.is_open = True
        self.partitions |= partitions
        return ErrorCode.NONE

    def end(self, producer: ProducerIdentity, *, commit: bool, version_2: bool) -> ErrorCode:
        if not self.is_open and self.last_end == (producer, commit):
            return ErrorCode.NONE
        if producer != self.producer:
            return ErrorCode.PRODUCER_FENCED
        if not self.is_open and (commit or not version_2):
            return ErrorCode.INVALID_TXN_STATE
        self._finish(commit)
        self.last_end = producer, commit
        if version_2:
            self._next_epoch()
        return ErrorCode.NONE

    def init(self) -> None:
        if self.is_open:
            self._finish(False)
        self.last_end = None
        self._next_epoch()

    def _finish(self, commit: bool) -> None:
        self.outcomes.append((commit, frozenset(self.partitions)))
        self.partitions = set()
        self.is_open = False

    def _next_epoch(self) -> None:
        self.producer = ProducerIdentity(self.producer.id, self.producer.epoch + 1)

    def handle(self, ask: Ask) -> Any:
        match ask.request:
            case InitProducerIdRequest():
                self.init()
                return InitProducerIdResponse(producer_id=self.producer.id, producer_epoch=self.producer.epoch)
            case AddPartitionsToTxnRequest() as request:
                asked = {
                    TopicPartition(topic.name, index)
                    for topic in request.v3_and_below_topics
                    for index in topic.partitions
                }
                producer = ProducerIdentity(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
                return added(dict.fromkeys(asked, self.add(producer, asked)))
            case AddOffsetsToTxnRequest() as request:
                producer = ProducerIdentity(request.producer_id, request.producer_epoch)
                return AddOffsetsToTxnResponse(error_code=self.add(producer, {OFFSETS_OF_GROUP}))
            case TxnOffsetCommitRequest() as request:
                producer = ProducerIdentity(request.producer_id, request.producer_epoch)
                if ask.at_least == 0:
                    assert OFFSETS_OF_GROUP in self.partitions, "offsets outside of a transaction"
                return committed(dict.fromkeys(OFFSETS, self.add(producer, {OFFSETS_OF_GROUP})))
            case EndTxnRequest() as request:
                producer = ProducerIdentity(request.producer_id, request.producer_epoch)
                version_2 = ask.at_least == 5
                error = self.end(producer, commit=request.committed, version_2=version_2)
                return EndTxnResponse(
                    error_code=error, producer_id=self.producer.id, producer_epoch=self.producer.epoch
                )
        raise AssertionError(ask)


class Run:
    """An application that does this and that, and a network that loses a fifth of what is sent."""

    def __init__(self, seed: int, version: int) -> None:
        self.source = Random(seed)
        self.coordinator = ModelCoordinator()
        settings = ProducerSettings(transactional_id="id")
        self.machine = Transactions(settings, Backoff(100, 1000, SeededRandom(seed)))
        self.machine.learn_version(version, 1)
        self.version = version
        self.now_s = 0.0
        self.in_flight: Ask | None = None
        # Unacknowledged records by partition; and what the transaction has to have when it is committed.
        self.batches: list[TopicPartition] = []
        self.written: set[TopicPartition] = set()
        self.offsets: Operation | None = None
        self.ending: tuple[Operation, bool] | None = None
        self.committed: list[frozenset[TopicPartition]] = []

    def step(self) -> None:
        self.source.choice([self.act, self.send_batch, self.exchange, self.exchange])()
        self.now_s += self.source.random() * 0.2
        self.check()

    def act(self) -> None:
        machine = self.machine
        if self.ending is not None:
            self.see_the_end(*self.ending)
        elif machine.state is State.UNINITIALIZED:
            self.ending = machine.initialize(), False
        elif machine.state is State.READY:
            machine.begin()
            self.written, self.offsets = set(), None
        elif machine.state is State.ABORTABLE_ERROR:
            self.end(commit=False)
        elif machine.state is State.IN_TRANSACTION:
            what = self.source.random()
            if what < 0.6:
                partition = self.source.choice(PARTITIONS)
                machine.add_partition(partition)
                self.batches.append(partition)
            elif what < 0.8 and self.offsets is None:
                self.offsets = machine.send_offsets(OFFSETS, GROUP)
            else:
                self.end(commit=self.source.random() < 0.7)

    def end(self, *, commit: bool) -> None:
        self.ending = (self.machine.commit() if commit else self.machine.abort()), commit

    def see_the_end(self, operation: Operation, commit: bool) -> None:
        if not operation.is_done:
            return
        self.ending = None
        try:
            operation.take()
        except ClientError:
            return
        if commit and self.written:
            self.committed.append(frozenset(self.written))

    def send_batch(self) -> None:
        if self.machine.drop_unsent is not None:
            self.batches.clear()
        sendable = [partition for partition in self.batches if self.machine.may_send(partition)]
        if not sendable or self.machine.identity is None:
            return
        partition = self.source.choice(sendable)
        if self.source.random() < 0.1:
            self.batches.remove(partition)
            self.machine.batch_failed(TimedOut("the batch expired"))
            return
        if self.machine.is_version_2:
            assert self.coordinator.add(self.machine.identity, {partition}) == ErrorCode.NONE
        assert partition in self.coordinator.partitions, "a record outside of the transaction"
        if self.source.random() < 0.8:
            self.batches.remove(partition)
            self.written.add(partition)

    def exchange(self) -> None:
        if self.in_flight is None:
            self.in_flight = self.machine.next_ask(self.now_s, has_incomplete=bool(self.batches))
            return
        ask, self.in_flight = self.in_flight, None
        luck = self.source.random()
        if luck < 0.1:
            self.machine.failed(ask, NetworkFailed("lost"), self.now_s)
            return
        if luck < 0.2:
            self.refuse(ask)
            return
        response = self.coordinator.handle(ask)
        if luck < 0.3:
            self.machine.failed(ask, NetworkFailed("lost"), self.now_s)
        else:
            if isinstance(ask.request, TxnOffsetCommitRequest):
                self.written.add(OFFSETS_OF_GROUP)
            self.machine.answered(ask, response, self.now_s)

    def refuse(self, ask: Ask) -> None:
        self.machine.failed(ask, BrokerError(self.source.choice(RETRIABLE)), self.now_s)

    def check(self) -> None:
        assert self.machine.state is not State.FATAL_ERROR, self.machine.fatal_error
        if self.machine.state is State.READY:
            assert not self.coordinator.is_open
        assert (
            self.committed
            == [partitions for commit, partitions in self.coordinator.outcomes if commit][: len(self.committed)]
        )


@pytest.mark.parametrize("version", [1, 2])
def test_the_committed_files_are_up_to_date(version: int) -> None:
    commits = aborts = 0
    for seed in range(150):
        run = Run(seed, version)
        for _ in range(STEPS):
            run.step()
        commits += len(run.committed)
        aborts += sum(not commit for commit, _ in run.coordinator.outcomes)
    assert commits > 300
    assert aborts > 300
