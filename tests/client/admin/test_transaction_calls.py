"""Transactions, as reported by coordinators and partitions, and their ends."""

import pytest

from cordwood.client.admin.transactions import (
    ActiveProducer,
    FencingProducer,
    OpenTransaction,
    abort_in_partition,
    fence_producers,
    find_owners,
    list_transactions,
)
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import UnsupportedByBroker
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from cordwood.wire.messages.find_coordinator import FindCoordinatorRequest
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from cordwood.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from cordwood.wire.messages.list_transactions import TransactionState as ListedTransaction
from cordwood.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.client.scripted_broker import client_of, scripted_brokers
from tests.client.scripted_coordinators import Coordinators, run

P0 = TopicPartition("t", 0)


def test_a_producer_is_fenced_once_its_transaction_is_aborted() -> None:
    async def main() -> None:
        codes = [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE]
        async with scripted_brokers() as brokers:
            Coordinators(brokers)
            brokers[0].answers[InitProducerIdRequest.api_key] = lambda request, version: InitProducerIdResponse(
                error_code=codes.pop(0), producer_id=5, producer_epoch=2
            )
            async with await client_of(brokers[0].address) as client:
                assert await fence_producers(client, {"id": 60_000}) == {"id": FencingProducer(5, 2)}
            assert [request.key_type for request in brokers[0].seen_of(FindCoordinatorRequest)] == [1, 1, 1]

    run(main())


def open_transaction(partition: TopicPartition, producer_id: int = 5) -> OpenTransaction:
    return OpenTransaction(partition, ActiveProducer(producer_id, 3, -1, 0, 0, 0))


def test_an_abort_marker_goes_to_the_partitions_leader_alone() -> None:
    async def main() -> None:
        codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]

        def write(request: WriteTxnMarkersRequest, version: int) -> WriteTxnMarkersResponse:
            told = WritableTxnMarkerPartitionResult(partition_index=1, error_code=codes.pop(0))
            topic = WritableTxnMarkerTopicResult(name="t", partitions=[told])
            return WriteTxnMarkersResponse(markers=[WritableTxnMarkerResult(producer_id=5, topics=[topic])])

        async with scripted_brokers(2) as brokers:
            for broker in brokers:
                broker.leaders = [1, 2]
            brokers[1].answers[WriteTxnMarkersRequest.api_key] = write
            async with await client_of(brokers[0].address) as client:
                await client.topics(["t"])
                await abort_in_partition(client, open_transaction(TopicPartition("t", 1)))
            _, request = brokers[1].seen_of(WriteTxnMarkersRequest)
            (marker,) = request.markers
            assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (5, 3, False)
            assert marker.coordinator_epoch == 0, "none is known, and the lowest is taken"
            assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [("t", [1])]

    run(main())


def test_a_transaction_belongs_to_an_id_that_has_its_producer_and_its_partition() -> None:
    async def main() -> None:
        states = {
            "right": TransactionState(
                transactional_id="right",
                transaction_state="Ongoing",
                producer_id=5,
                topics=[TopicData(topic="t", partitions=[0])],
            ),
            "wrong": TransactionState(
                transactional_id="wrong", producer_id=6, topics=[TopicData(topic="t", partitions=[1])]
            ),
        }
        async with scripted_brokers() as brokers:
            Coordinators(brokers)
            brokers[0].answers[ListTransactionsRequest.api_key] = lambda request, version: ListTransactionsResponse(
                transaction_states=[
                    ListedTransaction(transactional_id=name, producer_id=state.producer_id)
                    for name, state in states.items()
                ]
            )
            brokers[0].answers[DescribeTransactionsRequest.api_key] = lambda request, version: (
                DescribeTransactionsResponse(transaction_states=[states[name] for name in request.transactional_ids])
            )
            transactions = [
                open_transaction(P0),
                open_transaction(P0, producer_id=6),
                open_transaction(TopicPartition("t", 1)),
            ]
            async with await client_of(brokers[0].address) as client:
                owners = await find_owners(client, transactions)
            assert [owner and owner.transactional_id for owner in owners.values()] == ["right", None, None]
            (request,) = brokers[0].seen_of(ListTransactionsRequest)
            assert request.producer_id_filters == [5, 6]

    run(main())


def test_a_broker_without_the_duration_filter_is_reported_as_too_old() -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker]:
            broker.max_versions[ListTransactionsRequest.api_key] = 0
            async with await client_of(broker.address) as client:
                with pytest.raises(UnsupportedByBroker):
                    await list_transactions(client, running_ms=1)

    run(main())
