"""Markers for partitions that another broker leads. That broker is scripted: it is registered like any other, and
answers WriteTxnMarkers as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from cordwood.coordinator.partition_log import PartitionLog
from cordwood.coordinator.transactions.statuses import TransactionStatus
from cordwood.coordinator.transactions.transaction import Transaction
from cordwood.metadata.features import registered_features
from cordwood.metadata.image import NO_LEADER
from cordwood.wire.batch_header import batch_headers
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from cordwood.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from cordwood.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from cordwood.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from cordwood.wire.messages.end_txn import EndTxnRequest
from cordwood.wire.messages.find_coordinator import FindCoordinatorRequest
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest
from cordwood.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.broker.simulated import AT_ONCE_S, SimulatedNode, simulate
from tests.common.scripted_node import Cut, ScriptedNode, scripted_node

TOPIC, ID = "t", "tx"
OTHER_ID = 2
PATIENCE_S = 120


class OtherBroker:
    """Broker 2: unfenced while it is wanted, and fenced when a test says so."""

    def __init__(self, node: SimulatedNode, script: ScriptedNode) -> None:
        self.script = script
        self._node = node
        self._epoch = -1

    async def register(self) -> None:
        broker = self._node.broker
        features = registered_features(broker.image.features)
        response = await broker.controller.ask(
            BrokerRegistrationRequest(
                broker_id=OTHER_ID,
                cluster_id=broker.cluster_id,
                incarnation_id=b"incarnation of 2",
                listeners=[
                    Listener(
                        name="PLAINTEXT",
                        host=self.script.address.host,
                        port=self.script.address.port,
                        security_protocol=0,
                    )
                ],
                features=[
                    Feature(name=name, min_supported_version=levels.low, max_supported_version=levels.high)
                    for name, levels in features.items()
                ],
                log_dirs=[b"directory of br2"],
            )
        )
        assert response.error_code == ErrorCode.NONE
        self._epoch = response.broker_epoch
        await self._heartbeat(want_fence=False)

    async def fence(self) -> None:
        await self._heartbeat(want_fence=True)

    async def unfence(self) -> None:
        await self._heartbeat(want_fence=False)

    async def _heartbeat(self, *, want_fence: bool) -> None:
        response = await self._node.broker.controller.ask(
            BrokerHeartbeatRequest(
                broker_id=OTHER_ID,
                broker_epoch=self._epoch,
                current_metadata_offset=self._epoch,
                want_fence=want_fence,
            )
        )
        assert (response.error_code, response.is_fenced) == (ErrorCode.NONE, want_fence)

    @property
    def asked(self) -> list[WriteTxnMarkersRequest]:
        return self.script.seen_of(WriteTxnMarkersRequest)

    def answers(self, *errors: ErrorCode | type[Cut] | None) -> None:
        """To one request after the other: with an error of every partition, by hanging up, or not at all (None)."""
        left = list(errors)

        def answer(request: WriteTxnMarkersRequest, version: int) -> WriteTxnMarkersResponse | None:
            error = left.pop(0) if left else ErrorCode.NONE
            if error is None:
                return None
            if isinstance(error, type):
                raise error
            return answered(request, error)

        self.script.answers[WriteTxnMarkersRequest.api_key] = answer


def answered(request: WriteTxnMarkersRequest, error: ErrorCode = ErrorCode.NONE) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


class Producer:
    """Has added all partitions of the topic to a transaction."""

    def __init__(self, node: SimulatedNode, producer_id: int) -> None:
        self._node = node
        self.producer_id = producer_id

    @classmethod
    async def begin(cls, node: SimulatedNode, name: str = ID) -> Producer:
        channel = await node.connect()
        await channel.request(FindCoordinatorRequest(key=name, key_type=1), 3)
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        while (response := await channel.request(request, 4)).error_code:
            await asyncio.sleep(0.1)
        channel.close()
        return cls(node, response.producer_id)

    async def commit(self, partitions: Sequence[int], name: str = ID) -> None:
        channel = await self._node.connect()
        added = await channel.request(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=0,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=list(partitions))],
            ),
            3,
        )
        results = added.results_by_topic_v3_and_below[0].results_by_partition
        assert not any(result.partition_error_code for result in results)
        request = EndTxnRequest(transactional_id=name, producer_id=self.producer_id, producer_epoch=0, committed=True)
        assert (await channel.request(request, 3)).error_code == ErrorCode.NONE
        channel.close()


async def create(node: SimulatedNode, *replicas: list[int]) -> None:
    """The topic, with the replicas of each partition, the leader first."""
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=brokers) for index, brokers in enumerate(replicas)
    ]
    topic = CreatableTopic(name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=assignments)
    response = await node.broker.controller.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
    assert response.topics[0].error_code == ErrorCode.NONE, response
    assert [leader(node, index) for index in range(len(replicas))] == [brokers[0] for brokers in replicas]


def leader(node: SimulatedNode, index: int = 0) -> int:
    partition = node.broker.image.topics.partition(TOPIC, index)
    assert partition is not None
    return partition.leader


def transaction(node: SimulatedNode, name: str = ID) -> Transaction:
    return node.broker.transactions.shard(name).state.transactions[name]


def is_complete(node: SimulatedNode, name: str = ID) -> bool:
    return transaction(node, name).status is TransactionStatus.COMPLETE_COMMIT


def markers_in(node: SimulatedNode, index: int) -> int:
    log = node.partition(TOPIC, index).log
    assert log is not None
    found = log.read(0, 1 << 20, log.end_offset)
    return sum(header.is_control for _, header in batch_headers(found.read())) if found is not None else 0


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.001)


@asynccontextmanager
async def other_broker(node: SimulatedNode) -> AsyncIterator[OtherBroker]:
    async with scripted_node(node.world, "other") as script:
        other = OtherBroker(node, script)
        other.answers()
        await other.register()
        yield other


def run(test: Callable[[SimulatedNode, Producer, OtherBroker], Awaitable[None]]) -> None:
    async def main(node: SimulatedNode) -> None:
        # Before the other broker is there, so that this one coordinates.
        producer = await Producer.begin(node)
        async with other_broker(node) as other:
            await test(node, producer, other)

    simulate(main)


def test_each_leader_is_asked_once_for_all_of_its_partitions() -> None:
    async def test(node: SimulatedNode, producer: Producer, other: OtherBroker) -> None:
        await create(node, [1], [OTHER_ID], [OTHER_ID])
        await producer.commit([0, 1, 2])
        await until(lambda: is_complete(node))
        [request] = other.asked
        [marker] = request.markers
        assert (marker.producer_id, marker.producer_epoch) == (producer.producer_id, 0)
        assert marker.transaction_result
        assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [(TOPIC, [1, 2])]
        assert markers_in(node, 0) == 1

    run(test)


def test_a_transaction_is_not_complete_before_the_other_broker_has_written() -> None:
    async def test(node: SimulatedNode, producer: Producer, other: OtherBroker) -> None:
        await create(node, [1], [OTHER_ID])
        other.answers(None)
        await producer.commit([0, 1])
        await until(lambda: len(other.asked) == 1)
        await asyncio.sleep(5)
        assert transaction(node).status is TransactionStatus.PREPARE_COMMIT

    run(test)


def test_markers_of_several_transactions_for_one_broker_share_a_request() -> None:
    async def main(node: SimulatedNode) -> None:
        names = [f"tx-{number}" for number in range(5)]
        producers = {name: await Producer.begin(node, name) for name in names}
        async with other_broker(node) as other:
            await create(node, [OTHER_ID])
            # Nobody leads the partition while the transactions end, so that all markers wait for the same.
            await other.fence()
            for name, producer in producers.items():
                await producer.commit([0], name)
            await other.unfence()
            await until(lambda: all(is_complete(node, name) for name in names))
            assert [len(request.markers) for request in other.asked] == [5]

    simulate(main)


def test_retriable_errors_and_lost_connections_are_retried() -> None:
    async def test(node: SimulatedNode, producer: Producer, other: OtherBroker) -> None:
        await create(node, [OTHER_ID])
        other.answers(ErrorCode.NOT_ENOUGH_REPLICAS, Cut, ErrorCode.NOT_LEADER_OR_FOLLOWER, Cut)
        began = node.time()
        await producer.commit([0])
        await until(lambda: is_complete(node))
        assert len(other.asked) == 5
        # 100, 200, 400 and 800 ms, each less a fifth.
        assert node.time() - began >= 1.2

    run(test)


def test_a_broker_that_cannot_be_reached_gets_its_markers_when_it_is_back() -> None:
    async def test(node: SimulatedNode, producer: Producer, other: OtherBroker) -> None:
        await create(node, [OTHER_ID])
        node.world.network.cut("other")
        await producer.commit([0])
        await asyncio.sleep(60)
        assert not is_complete(node)
        node.world.network.heal("other")
        # It has been silent for longer than a session.
        await other.unfence()
        await until(lambda: is_complete(node))

    run(test)


def test_markers_follow_the_leader_that_changes_while_the_old_one_does_not_answer() -> None:
    async def test(node: SimulatedNode, producer: Producer, other: OtherBroker) -> None:
        await create(node, [OTHER_ID, 1])
        other.answers(None)
        await producer.commit([0])
        await until(lambda: len(other.asked) == 1)
        began = node.time()
        await other.fence()
        assert leader(node) == 1
        await until(lambda: is_complete(node))
        # Not when the request times out.
        assert node.time() - began <= AT_ONCE_S
        assert markers_in(node, 0) == 1

    run(test)


def test_markers_wait_for_a_leader_and_go_out_as_soon_as_there_is_one() -> None:
    async def test(node: SimulatedNode, producer: Producer, other: OtherBroker) -> None:
        await create(node, [OTHER_ID])
        await other.fence()
        assert leader(node) == NO_LEADER
        await producer.commit([0])
        await asyncio.sleep(30)
        assert not other.asked
        began = node.time()
        await other.unfence()
        await until(lambda: is_complete(node))
        assert node.time() - began <= AT_ONCE_S

    run(test)


def test_a_deleted_topic_needs_no_markers() -> None:
    async def test(node: SimulatedNode, producer: Producer, other: OtherBroker) -> None:
        await create(node, [OTHER_ID])
        other.answers(*[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 1000)
        await producer.commit([0])
        await until(lambda: len(other.asked) >= 2)
        await node.delete(TOPIC)
        await until(lambda: is_complete(node))

    run(test)


def test_a_coordinator_that_is_fenced_tries_again_with_its_present_epoch() -> None:
    async def test(node: SimulatedNode, producer: Producer, other: OtherBroker) -> None:
        await create(node, [OTHER_ID])
        other.answers(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
        await producer.commit([0])
        await until(lambda: len(other.asked) == 1)
        # As after an election that it has won again.
        log = node.broker.transactions.shard(ID).log
        assert isinstance(log, PartitionLog)
        log.partition.state = replace(log.partition.state, leader_epoch=7)
        other.answers(ErrorCode.NONE)
        await until(lambda: is_complete(node))
        assert [asked.markers[0].coordinator_epoch for asked in other.asked] == [0, 7]

    run(test)


def test_a_coordinator_that_is_fenced_gives_up_when_another_has_taken_over() -> None:
    async def test(node: SimulatedNode, producer: Producer, other: OtherBroker) -> None:
        await create(node, [OTHER_ID])
        other.answers(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
        await producer.commit([0])
        await until(lambda: len(other.asked) == 1)
        node.broker.transactions.stop()
        await asyncio.sleep(60)
        assert len(other.asked) == 1

    run(test)


def test_a_partition_that_has_seen_a_later_epoch_needs_no_marker() -> None:
    async def test(node: SimulatedNode, producer: Producer, other: OtherBroker) -> None:
        await create(node, [OTHER_ID])
        other.answers(ErrorCode.INVALID_PRODUCER_EPOCH)
        await producer.commit([0])
        await until(lambda: is_complete(node))
        assert len(other.asked) == 1

    run(test)


def test_markers_that_were_in_flight_at_a_crash_of_the_coordinator_are_sent_again() -> None:
    async def test(node: SimulatedNode, producer: Producer, other: OtherBroker) -> None:
        await create(node, [OTHER_ID])
        other.answers(None)
        await producer.commit([0])
        await until(lambda: len(other.asked) == 1)
        node.machine.kill()
        assert await node.machine.start()
        again = SimulatedNode(node.world, node.machine)
        await Producer.begin(again)
        [[before], [after]] = [request.markers for request in other.asked]
        assert after.coordinator_epoch > before.coordinator_epoch
        after.coordinator_epoch = before.coordinator_epoch
        assert after == before

    run(test)


def test_a_node_stops_while_markers_are_in_flight() -> None:
    async def test(node: SimulatedNode, producer: Producer, other: OtherBroker) -> None:
        await create(node, [OTHER_ID])
        other.answers(None)
        await producer.commit([0])
        await until(lambda: len(other.asked) == 1)
        began = node.time()
        await node.machine.stop()
        # Not when the request times out.
        assert node.time() - began <= 15

    run(test)
