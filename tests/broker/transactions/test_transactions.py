"""Transactions on a node in virtual time: what is prepared is completed, in all cases in between."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from cordwood.broker.handlers.end_txn import end_txn
from cordwood.broker.produce.transactional import Refusals
from cordwood.broker.transactions.marker import Marker
from cordwood.coordinator.transactions.adding import add_partitions
from cordwood.coordinator.transactions.records import record
from cordwood.coordinator.transactions.statuses import TransactionStatus
from cordwood.coordinator.transactions.transaction import Transaction
from cordwood.log.log import Log
from cordwood.metadata.image import NO_LEADER
from cordwood.net.api import OwnRequest
from cordwood.net.peers.channel import Channel
from cordwood.shard.decision import ProducerIdAndEpoch
from cordwood.shard.promise import Promise, settled
from cordwood.wire.batch_header import batch_headers
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from cordwood.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from cordwood.wire.messages.find_coordinator import FindCoordinatorRequest
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest
from cordwood.wire.messages.produce import PartitionProduceResponse
from data_answers.batches import batch
from data_answers.requests import produce, produce_all
from tests.broker.simulated import SimulatedNode, simulate

TOPIC, ID = "t", "tx"
# Version 1 of transactions, and version 2.
_EARLY, _LATE = 10, 12


class Producer:
    def __init__(self, node: SimulatedNode, channel: Channel, producer_id: int) -> None:
        self.node = node
        self.channel = channel
        self.producer_id = producer_id
        self.epoch = 0

    @classmethod
    async def begin(cls, node: SimulatedNode) -> Producer:
        channel = await node.connect()
        await channel.request(FindCoordinatorRequest(key=ID, key_type=1), 3)
        while (response := await channel.request(_init(), 5)).error_code:
            assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            await asyncio.sleep(0.1)
        return cls(node, channel, response.producer_id)

    async def add(self, *partitions: int) -> int:
        response = await self.channel.request(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=ID,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=list(partitions))],
            ),
            3,
        )
        return response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code

    async def write(
        self, *values: str, sequence: int = 0, partition: int = 0, version: int = _LATE
    ) -> PartitionProduceResponse:
        records = self.batch(*values, sequence=sequence)
        request = produce(TOPIC, records, partition=partition, transactional_id=ID)
        response = await self.channel.request(request, version)
        return response.responses[0].partition_responses[0]

    def batch(self, *values: str, sequence: int = 0) -> bytearray:
        return batch(*values, producer_id=self.producer_id, epoch=self.epoch, sequence=sequence, transactional=True)

    async def end(self, *, commit: bool = True, version: int = 5) -> EndTxnResponse:
        request = EndTxnRequest(
            transactional_id=ID, producer_id=self.producer_id, producer_epoch=self.epoch, committed=commit
        )
        return await self.channel.request(request, version)


def _init() -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)


def state_of(node: SimulatedNode) -> Transaction:
    return node.broker.transactions.shard(ID).state.transactions[ID]


def markers_in(log: Log) -> int:
    found = log.read(0, 1 << 20, log.end_offset)
    return sum(header.is_control for _, header in batch_headers(found.read())) if found is not None else 0


def log_of(node: SimulatedNode, index: int = 0) -> Log:
    log = node.partition(TOPIC, index).log
    assert log is not None
    return log


async def until(node: SimulatedNode, status: TransactionStatus) -> None:
    async with asyncio.timeout(60):
        while state_of(node).status is not status:
            await asyncio.sleep(0.01)


def test_prepared_transactions_are_completed_after_a_crash() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create(TOPIC, 2)
        producer = await Producer.begin(node)
        await producer.write("a", partition=0)
        await producer.write("b", partition=1)
        # It falls between the outcome and the markers.
        shard = node.broker.transactions.shard(ID)
        prepared = state_of(node).moved(TransactionStatus.PREPARE_COMMIT, 1, producer_epoch=1, client_version=2)
        shard.log.append([record(prepared, 2)], None)
        node.machine.kill()
        assert await node.machine.start()
        again = SimulatedNode(node.world, node.machine)
        await Producer.begin(again)
        assert [markers_in(log_of(again, index)) for index in (0, 1)] == [1, 1]
        assert log_of(again).last_stable_offset == log_of(again).end_offset

    simulate(test)


def test_an_end_is_answered_before_its_markers_are_written_and_they_are_there_for_the_next_request() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create(TOPIC, 2)
        producer = await Producer.begin(node)
        await producer.write("a")
        request = EndTxnRequest(transactional_id=ID, producer_id=producer.producer_id, producer_epoch=0, committed=True)
        result = end_txn.handle(node.broker, request, OwnRequest(5))
        assert isinstance(result, EndTxnResponse)
        assert (result.error_code, markers_in(log_of(node))) == (ErrorCode.NONE, 0)
        await asyncio.sleep(0)
        assert markers_in(log_of(node)) == 1
        assert state_of(node).status is TransactionStatus.COMPLETE_COMMIT

    simulate(test)


def test_a_partition_without_a_leader_gets_its_marker_when_it_has_one() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create(TOPIC, 2)
        producer = await Producer.begin(node)
        await producer.write("a", partition=0)
        await producer.write("b", partition=1)
        partition = node.partition(TOPIC, 1)
        led = partition.state
        partition.update(replace(led, leader=NO_LEADER), partition.config)
        assert not (await producer.end()).error_code
        await asyncio.sleep(1)
        assert state_of(node).status is TransactionStatus.PREPARE_COMMIT
        assert [markers_in(log_of(node, index)) for index in (0, 1)] == [1, 0]
        # Meanwhile the next transaction waits.
        refused = await producer.channel.request(_init(), 5)
        assert refused.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        # Also one that has its partitions added by its first write; its broker has asked for a while.
        producer.epoch += 1
        before = node.time()
        assert (await producer.write("c")).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        assert node.time() - before >= 0.1
        partition.update(led, partition.config)
        await until(node, TransactionStatus.COMPLETE_COMMIT)
        assert [markers_in(log_of(node, index)) for index in (0, 1)] == [1, 1]

    simulate(test)


def test_a_first_write_that_comes_before_the_end_is_complete_waits_for_it() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create(TOPIC, 2)
        producer = await Producer.begin(node)
        await producer.write("a", partition=1)
        partition = node.partition(TOPIC, 1)
        led = partition.state
        partition.update(replace(led, leader=NO_LEADER), partition.config)
        ended = await producer.end()
        producer.epoch = ended.producer_epoch
        next_write = asyncio.create_task(producer.write("b"))
        await asyncio.sleep(0.02)
        assert not next_write.done()
        partition.update(led, partition.config)
        assert not (await next_write).error_code

    simulate(test, add_partitions_to_txn_retry_backoff_max_ms="1000")


def test_flushing_each_write_delays_answers_without_changing_them() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create(TOPIC, 2)
        producer = await Producer.begin(node)
        for number in range(5):
            first, second = await asyncio.gather(producer.write("a"), producer.write("b", sequence=1))
            assert not first.error_code
            assert not second.error_code
            assert not (await producer.write("c", partition=1)).error_code
            ended = await producer.end(commit=number % 2 == 0)
            assert not ended.error_code
            await until(node, TransactionStatus.COMPLETE_ABORT if number % 2 else TransactionStatus.COMPLETE_COMMIT)
            producer.epoch = ended.producer_epoch
        assert [markers_in(log_of(node, index)) for index in (0, 1)] == [5, 5]
        assert log_of(node).last_stable_offset == log_of(node).end_offset == 15

    simulate(test, log_flush_interval_messages="1")


def test_with_a_flush_per_write_no_client_must_retry() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create(TOPIC, 2)
        producer = await Producer.begin(node)
        for number in range(10):
            assert not await producer.add(0, 1)
            assert not (await producer.write("a", sequence=number, version=_EARLY)).error_code
            assert not (await producer.end(version=3)).error_code
        await until(node, TransactionStatus.COMPLETE_COMMIT)
        producer.epoch = (await producer.end(commit=False)).producer_epoch
        for _ in range(10):
            assert not (await producer.write("a")).error_code
            ended = await producer.end(commit=False)
            assert not ended.error_code
            producer.epoch = ended.producer_epoch

    # The disk takes its time for the end, the markers and the completion, one after the other.
    simulate(test, log_flush_interval_messages="1", add_partitions_to_txn_retry_backoff_max_ms="1000")


def test_a_batch_verified_while_its_transaction_ends_is_not_written() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create(TOPIC, 2)
        producer = await Producer.begin(node)
        assert not await producer.add(0)
        # The coordinator's word takes time: a record before it is in flight to the disk.
        owner = ProducerIdAndEpoch(producer.producer_id, 0)
        shard = node.broker.transactions.shard(ID)
        shard.decide(lambda state: add_partitions(state, ID, owner, [(TOPIC, 1)], 0, None))
        request = produce(TOPIC, producer.batch("late"), transactional_id=ID)
        checked = node.broker.transactional_produce.check(request, _EARLY)
        assert isinstance(checked, Promise)
        node.broker.coordinators.marker_writer.write(TOPIC, 0, Marker(*owner, 0, commit=False, transaction_version=0))
        refusals: Refusals = await settled(checked)
        assert refusals[TOPIC, 0].error is ErrorCode.INVALID_TXN_STATE

    simulate(test, log_flush_interval_messages="1")


def test_a_request_with_batches_of_two_producers_is_refused() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create(TOPIC, 2)
        producer = await Producer.begin(node)
        request = produce_all(
            {
                (TOPIC, 0): producer.batch("a"),
                (TOPIC, 1): batch("b", producer_id=99, epoch=0, sequence=0, transactional=True),
            },
            transactional_id=ID,
        )
        response = await producer.channel.request(request, _LATE)
        errors = [answer.error_code for answer in response.responses[0].partition_responses]
        assert errors == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2

    simulate(test)


def test_markers_of_a_coordinator_come_once_however_often_the_end_is_repeated() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create(TOPIC, 1)
        producer = await Producer.begin(node)
        await producer.write("a")
        answers = await asyncio.gather(*(producer.end() for _ in range(5)))
        assert {(answer.error_code, answer.producer_epoch) for answer in answers} == {(0, 1)}
        assert markers_in(log_of(node)) == 1

    simulate(test)


def test_every_partition_of_a_large_transaction_gets_one_marker() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create(TOPIC, 250)
        producer = await Producer.begin(node)
        assert not await producer.add(*range(250))
        assert not (await producer.end(version=3)).error_code
        await until(node, TransactionStatus.COMPLETE_COMMIT)
        assert [markers_in(log_of(node, index)) for index in range(250)] == [1] * 250

    simulate(test)
