"""Transactions: listing and describing them, and aborting those that do not end.

There are two ways. `fence_producers` aborts a transaction that its coordinator knows, by taking over the transactional
id. `abort_in_partition` is for a hanging transaction, open in a partition but unknown to any coordinator (KIP-664,
`find_owners`): it writes a marker to that partition only.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cordwood.client.admin.coordinators import (
    CoordinatorKind,
    ask_coordinators,
)
from cordwood.client.admin.every_broker import ask_every_broker
from cordwood.client.admin.partition_leaders import ask_each_leader
from cordwood.client.admin.results import failure, values
from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.connection import BrokerConnection
from cordwood.client.errors import BadAnswer, BrokerError
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from cordwood.wire.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest
from cordwood.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from cordwood.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
"""State names, as brokers spell them."""


@dataclass(frozen=True, slots=True)
class TransactionListing:
    transactional_id: str
    state: str
    """As brokers spell it: Empty, Ongoing, PrepareCommit, CompleteAbort …"""
    producer_id: int
    coordinator: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    coordinator: int
    timeout_ms: int
    start_ms: int | None
    """The start of the last transaction."""
    partitions: tuple[TopicPartition, ...]
    """The partitions of the open transaction, sorted."""


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """A partition's state for one of its producers."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    """-1 if none of its transactions has ended in this partition yet."""
    last_sequence: int
    last_timestamp: int
    txn_start_offset: int | None
    """The first offset of its open transaction."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """An open transaction, as recorded in a partition."""

    partition: TopicPartition
    producer: ActiveProducer


@dataclass(frozen=True, slots=True)
class FencingProducer:
    """The producer that now owns a transactional id."""

    producer_id: int
    producer_epoch: int


async def list_transactions(
    client: Client,
    *,
    states: Collection[str] = (),
    producer_ids: Collection[int] = (),
    running_ms: int | None = None,
) -> list[TransactionListing]:
    """Returns the transactions of all coordinators by id; with `running_ms`, only those open for longer (Kafka
    3.8+)."""
    request = ListTransactionsRequest(
        state_filters=sorted(states),
        producer_id_filters=sorted(producer_ids),
        duration_filter=-1 if running_ms is None else running_ms,
    )

    def error(response: ListTransactionsResponse) -> int:
        return response.error_code

    responses = await ask_every_broker(client, lambda broker: request, error)
    listed = {
        told.transactional_id: TransactionListing(
            told.transactional_id, told.transaction_state, told.producer_id, broker
        )
        for broker, response in responses.items()
        for told in response.transaction_states
    }
    return [listed[transactional_id] for transactional_id in sorted(listed)]


async def describe_transactions(
    client: Client, transactional_ids: Collection[str]
) -> dict[str, TransactionDescription | BrokerError]:
    """TRANSACTIONAL_ID_NOT_FOUND for a missing id."""

    async def ask(
        broker_id: int, broker: BrokerConnection, asked: Mapping[str, None]
    ) -> Mapping[str, TransactionDescription | BrokerError]:
        response = await broker.ask(DescribeTransactionsRequest(transactional_ids=list(asked)))
        return {told.transactional_id: _description(told, broker_id) for told in response.transaction_states}

    return await ask_coordinators(client, CoordinatorKind.TRANSACTION, dict.fromkeys(transactional_ids), ask)


async def describe_producers(
    client: Client, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, list[ActiveProducer] | BrokerError]:
    """Returns the producers that each partition's leader remembers, by id."""

    async def ask(
        broker: BrokerConnection, asked: Mapping[TopicPartition, None]
    ) -> Mapping[TopicPartition, list[ActiveProducer] | BrokerError]:
        topics: dict[str, TopicRequest] = {}
        for partition in asked:
            topics.setdefault(partition.topic, TopicRequest(name=partition.topic)).partition_indexes.append(
                partition.partition
            )
        response = await broker.ask(DescribeProducersRequest(topics=list(topics.values())))
        answers: dict[TopicPartition, list[ActiveProducer] | BrokerError] = {}
        for topic in response.topics:
            for told in topic.partitions:
                partition = TopicPartition(topic.name, told.partition_index)
                if told.error_code != ErrorCode.NONE:
                    answers[partition] = BrokerError(told.error_code, told.error_message, str(partition))
                    continue
                producers = [
                    ActiveProducer(
                        state.producer_id,
                        state.producer_epoch,
                        state.coordinator_epoch,
                        state.last_sequence,
                        state.last_timestamp,
                        state.current_txn_start_offset if state.current_txn_start_offset >= 0 else None,
                    )
                    for state in told.active_producers
                ]
                answers[partition] = sorted(producers, key=lambda producer: producer.producer_id)
        return answers

    return await ask_each_leader(client, dict.fromkeys(partitions), ask)


async def list_open(client: Client, partitions: Collection[TopicPartition]) -> list[OpenTransaction]:
    """The open transactions of these partitions. Raises a `BrokerError` for a partition that cannot be queried."""
    return [
        OpenTransaction(partition, producer)
        for partition, producers in values(await describe_producers(client, partitions)).items()
        for producer in producers
        if producer.txn_start_offset is not None
    ]


async def find_owners(
    client: Client, transactions: Collection[OpenTransaction]
) -> dict[OpenTransaction, TransactionDescription | None]:
    """Returns the transactional id and state that a coordinator knows for each. None: the transaction hangs, because no
    coordinator will end it.

    A transaction that ends between the two queries appears to hang; filter by age to avoid that.
    """
    producer_ids = {transaction.producer.producer_id for transaction in transactions}
    listed = await list_transactions(client, producer_ids=producer_ids) if producer_ids else []
    described = await describe_transactions(client, [listing.transactional_id for listing in listed])
    owners = {
        (description.producer_id, partition): description
        for description in described.values()
        if isinstance(description, TransactionDescription)
        for partition in description.partitions
    }
    return {
        transaction: owners.get((transaction.producer.producer_id, transaction.partition))
        for transaction in transactions
    }


async def fence_producers(client: Client, timeouts_ms: Mapping[str, int]) -> dict[str, FencingProducer | BrokerError]:
    """Takes over transactional ids, which aborts their open transactions and fences their producers.

    `timeouts_ms` sets the transaction timeout of each id. An unknown id is created.
    """

    async def ask(
        broker_id: int, broker: BrokerConnection, asked: Mapping[str, int]
    ) -> Mapping[str, FencingProducer | BrokerError]:
        fenced: dict[str, FencingProducer | BrokerError] = {}
        for transactional_id, timeout_ms in asked.items():
            response = await broker.ask(
                InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
            )
            # CONCURRENT_TRANSACTIONS is retriable: the abort is in progress.
            refused = failure(response.error_code, None, f"transactional id {transactional_id}")
            fenced[transactional_id] = refused or FencingProducer(response.producer_id, response.producer_epoch)
        return fenced

    return await ask_coordinators(client, CoordinatorKind.TRANSACTION, timeouts_ms, ask)


async def abort_in_partition(client: Client, transaction: OpenTransaction) -> None:
    """Writes an abort marker to this one partition, without the coordinator; only for hanging transactions."""
    partition, producer = transaction.partition, transaction.producer

    async def ask(
        broker: BrokerConnection, asked: Mapping[TopicPartition, None]
    ) -> Mapping[TopicPartition, bool | BrokerError]:
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            # Unknown if the producer never ended a transaction here; 0 is below any coordinator's epoch.
            coordinator_epoch=max(0, producer.coordinator_epoch),
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
        )
        response = await broker.ask(WriteTxnMarkersRequest(markers=[marker]))
        codes = [told.error_code for one in response.markers for topic in one.topics for told in topic.partitions]
        if len(codes) != 1:
            raise BadAnswer(f"the broker answered for {len(codes)} partitions, expected one")
        return {partition: BrokerError(codes[0], subject=str(partition)) if codes[0] != ErrorCode.NONE else True}

    values(await ask_each_leader(client, {partition: None}, ask))


def _description(told: TransactionState, coordinator: int) -> TransactionDescription | BrokerError:
    if told.error_code != ErrorCode.NONE:
        return BrokerError(told.error_code, subject=f"transactional id {told.transactional_id}")
    return TransactionDescription(
        told.transactional_id,
        told.transaction_state,
        told.producer_id,
        told.producer_epoch,
        coordinator,
        told.transaction_timeout_ms,
        told.transaction_start_time_ms if told.transaction_start_time_ms >= 0 else None,
        tuple(
            sorted(TopicPartition(topic.topic, partition) for topic in told.topics for partition in topic.partitions)
        ),
    )
