"""Apache Kafka under test: everything is done to it over the wire, as a client does it."""

from __future__ import annotations

import asyncio

from cordwood.net.peers.channel import Channel
from cordwood.runtime.network import Network
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from cordwood.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from cordwood.wire.messages.delete_topics import DeleteTopicsRequest
from cordwood.wire.messages.end_txn import EndTxnRequest
from cordwood.wire.messages.find_coordinator import FindCoordinatorRequest
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest
from cordwood.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from cordwood.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from cordwood.wire.primitives import Uuid

from .batches import batch

_TRANSACTION = 1
_AGAIN = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
_PAUSE_S = 0.1


class Kafka:
    def __init__(self, network: Network, host: str, port: int) -> None:
        self._network = network
        self._host = host
        self._port = port
        self._channel: Channel | None = None
        self._created: set[str] = set()

    @property
    def port(self) -> int:
        return self._port

    async def connect(self) -> Channel:
        return await Channel.open(self._network, self._host, self._port, client_id="questions")

    async def channel(self) -> Channel:
        if self._channel is None:
            self._channel = await self.connect()
        return self._channel

    async def clean_up(self) -> None:
        for topic in list(self._created):
            await self.delete(topic)
        if self._channel is not None:
            self._channel.close()

    async def create(self, topic: str, partitions: int, configs: dict[str, str]) -> Uuid:
        channel = await self.channel()
        settings = [CreatableTopicConfig(name=key, value=value) for key, value in configs.items()]
        response = await channel.request(
            CreateTopicsRequest(
                topics=[CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, configs=settings)],
                timeout_ms=30_000,
            ),
            7,
        )
        [created] = response.topics
        assert not created.error_code, created
        self._created.add(topic)
        # Kafka answers before its leaders take requests.
        while not await self._is_led(topic, partitions):
            await asyncio.sleep(_PAUSE_S)
        return created.topic_id

    async def _is_led(self, topic: str, partitions: int) -> bool:
        channel = await self.channel()
        wanted = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)]
        response = await channel.request(
            ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=wanted)]), 5
        )
        return not any(answer.error_code for answer in response.topics[0].partitions)

    async def delete(self, topic: str) -> None:
        channel = await self.channel()
        response = await channel.request(DeleteTopicsRequest(topic_names=[topic], timeout_ms=30_000), 5)
        assert not response.responses[0].error_code, response
        self._created.discard(topic)
        while (await channel.request(_latest(topic), 5)).topics[0].partitions[0].error_code != (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        ):
            await asyncio.sleep(_PAUSE_S)

    async def transaction(self, topic: str, partition: int, name: str) -> KafkaTransaction:
        channel = await self.channel()
        await channel.request(FindCoordinatorRequest(key=name, key_type=_TRANSACTION), 3)
        while True:
            response = await channel.request(
                InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 4
            )
            if response.error_code not in _AGAIN:
                break
            await asyncio.sleep(_PAUSE_S)
        assert not response.error_code, response
        return KafkaTransaction(channel, topic, partition, name, response.producer_id, response.producer_epoch)


def _latest(topic: str) -> ListOffsetsRequest:
    wanted = [ListOffsetsPartition(partition_index=0, timestamp=-1)]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=wanted)])


class KafkaTransaction:
    def __init__(
        self, channel: Channel, topic: str, partition: int, name: str, producer_id: int, producer_epoch: int
    ) -> None:
        self.producer_id = producer_id
        self._channel = channel
        self._topic = topic
        self._partition = partition
        self._name = name
        self._epoch = producer_epoch
        self._sequence = 0

    async def write(self, *values: str) -> None:
        await self._add_partition()
        records = batch(
            *values,
            producer_id=self.producer_id,
            epoch=self._epoch,
            sequence=self._sequence,
            transactional=True,
        )
        self._sequence += len(values)
        response = await self._channel.request(
            ProduceRequest(
                transactional_id=self._name,
                acks=-1,
                timeout_ms=30_000,
                topic_data=[
                    TopicProduceData(
                        name=self._topic, partition_data=[PartitionProduceData(index=self._partition, records=records)]
                    )
                ],
            ),
            10,
        )
        assert not response.responses[0].partition_responses[0].error_code, response

    async def _add_partition(self) -> None:
        topics = [AddPartitionsToTxnTopic(name=self._topic, partitions=[self._partition])]
        while True:
            response = await self._channel.request(
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=self._name,
                    v3_and_below_producer_id=self.producer_id,
                    v3_and_below_producer_epoch=self._epoch,
                    v3_and_below_topics=topics,
                ),
                3,
            )
            error = response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            if error not in _AGAIN:
                assert not error, response
                return
            await asyncio.sleep(_PAUSE_S)

    async def end(self, *, commit: bool) -> None:
        response = await self._channel.request(
            EndTxnRequest(
                transactional_id=self._name,
                producer_id=self.producer_id,
                producer_epoch=self._epoch,
                committed=commit,
            ),
            3,
        )
        assert not response.error_code, response
        # The marker is written when the next transaction may begin; asking for a producer id waits for that.
        while True:
            again = await self._channel.request(
                InitProducerIdRequest(transactional_id=self._name, transaction_timeout_ms=60_000), 4
            )
            if again.error_code not in _AGAIN:
                return
            await asyncio.sleep(_PAUSE_S)
