"""A small producer for bulk input: whole batches per partition, one in flight for each.

It is what the command line needs, in order and without loss; the producer of the library, with its accumulator,
several requests in flight and one request for many partitions, is another thing.

producer = await BatchProducer.start(client, "orders", ProduceOptions(acks=ALL_REPLICAS), clock)
producer.add(b"key", b"value")
await producer.room()
await producer.flush()
await producer.close()
"""

import asyncio
from dataclasses import dataclass
from functools import partial

from cordwood import __version__
from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.connection import BrokerConnection
from cordwood.client.errors import BadSetting, BrokerError, ClientError
from cordwood.client.partitioning import StickyPartitioner
from cordwood.client.produce_queue import Headers, OutgoingBatch, ProduceQueue, ProducerIdentity, outgoing_size
from cordwood.runtime.clock import Clock
from cordwood.runtime.randomness import Random, SeededRandom
from cordwood.wire.compression import Codec
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.api_versions import ApiVersionsRequest
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest
from cordwood.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from cordwood.wire.primitives import ZERO_UUID

ALL_REPLICAS = -1

# From this version on topics are named by their id, which those of clusters older than 2.8 do not have.
_TOPIC_IDS_FROM = 13


@dataclass(frozen=True, slots=True)
class ProduceOptions:
    acks: int = ALL_REPLICAS
    """0: not answered, so what was lost is not known; 1: the leader has it; -1: all in-sync replicas have it."""
    codec: Codec = Codec.NONE
    idempotent: bool = True
    """Only with acks=-1. Without it a retry after a lost answer may append a batch twice."""
    batch_bytes: int = 256 * 1024
    held_bytes: int = 32 * 1024 * 1024
    """When more than this is on its way, `room` waits."""
    delivery_timeout_ms: int = 120_000


class BatchProducer:
    """To one topic. After an error every call raises it, and nothing more is sent."""

    def __init__(
        self,
        client: Client,
        topic: str,
        options: ProduceOptions,
        clock: Clock,
        identity: ProducerIdentity | None,
        random: Random,
    ) -> None:
        self.partition_count = len(client.cluster.topics[topic].partitions)
        self.delivered = 0
        """Records that were acknowledged (with acks=0: sent)."""
        self._client = client
        self._topic = topic
        self._options = options
        self._clock = clock
        self._partitioner = StickyPartitioner(self.partition_count, options.batch_bytes, random)
        self._identity = identity
        self._queues: dict[int, ProduceQueue] = {}
        self._senders: dict[int, asyncio.Task[None]] = {}
        # With acks=0: the connections on which something was sent, also those that were lost since.
        self._told: set[BrokerConnection] = set()
        self._held_bytes = 0
        self._progress = asyncio.Event()
        self._failure: BaseException | None = None

    @classmethod
    async def start(
        cls,
        client: Client,
        topic: str,
        options: ProduceOptions,
        clock: Clock,
        *,
        random: Random | None = None,
    ) -> "BatchProducer":
        """Raises a `BrokerError` for a topic that is not there."""
        await client.topics([topic])
        identity = None
        if options.idempotent and options.acks == ALL_REPLICAS:
            identity = await _identify(client)
        return cls(client, topic, options, clock, identity, random if random is not None else SeededRandom())

    def add(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
        *,
        timestamp: int | None = None,
        partition: int | None = None,
    ) -> None:
        """Takes the record; it is sent as soon as its partition has nothing in flight."""
        self._raise_failure()
        size = outgoing_size(key, value, headers)
        if partition is None:
            partition = self._partitioner.partition(key, size)
        elif not 0 <= partition < self.partition_count:
            raise BadSetting(
                f"topic {self._topic} has no partition {partition}; it has 0 to {self.partition_count - 1}"
            )
        queue = self._queues.get(partition)
        if queue is None:
            queue = ProduceQueue(self._options.batch_bytes, self._options.codec, self._identity)
            self._queues[partition] = queue
        queue.add((self._clock.now_ms() if timestamp is None else timestamp, key, value, headers), size)
        self._held_bytes += size
        if partition not in self._senders:
            self._senders[partition] = asyncio.get_running_loop().create_task(self._send_all(partition, queue))

    async def room(self) -> None:
        """Waits until not too much is on its way, and lets what was added go."""
        await asyncio.sleep(0)
        while self._held_bytes > self._options.held_bytes and self._failure is None:
            await self._next_progress()
        self._raise_failure()

    async def flush(self) -> None:
        """Returns when all that was added is delivered."""
        while self._held_bytes and self._failure is None:
            await self._next_progress()
        self._raise_failure()
        if self._options.acks == 0:
            await self._until_read()

    async def close(self) -> None:
        """What is not delivered is given up."""
        for sender in self._senders.values():
            sender.cancel()
        await asyncio.gather(*self._senders.values(), return_exceptions=True)

    async def _send_all(self, partition: int, queue: ProduceQueue) -> None:
        """One partition's batches, one after the other, until there is none."""
        timeout_s = self._options.delivery_timeout_ms / 1000
        try:
            while not queue.is_empty:
                batch = queue.take()
                try:
                    await self._client.retrying(partial(self._send, partition, batch), timeout_s)
                except BrokerError as error:
                    if error.code == ErrorCode.MESSAGE_TOO_LARGE and queue.too_large():
                        continue
                    raise
                queue.delivered()
                self.delivered += len(batch.records)
                self._held_bytes -= batch.size_bytes
                self._progress.set()
        except ClientError as error:
            self._failure = self._failure or error
            self._progress.set()
        finally:
            del self._senders[partition]

    async def _send(self, partition: int, batch: OutgoingBatch) -> None:
        """One try. Raises what the broker says, unless that is that it has the batch already."""
        cluster = self._client.cluster
        subject = TopicPartition(self._topic, partition)
        broker = await self._client.broker(cluster.leader(subject))
        topic_id = cluster.topics[self._topic].id
        request = ProduceRequest(
            acks=self._options.acks,
            timeout_ms=self._client.settings.request_timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=self._topic,
                    topic_id=topic_id,
                    partition_data=[PartitionProduceData(index=partition, records=batch.encoded)],
                )
            ],
        )
        if self._options.acks == 0:
            self._told.add(broker)
            await broker.tell(request)
            return
        at_most = _TOPIC_IDS_FROM - 1 if topic_id == ZERO_UUID else None
        response = await broker.ask(request, at_most=at_most)
        told = response.responses[0].partition_responses[0]
        if told.error_code not in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            raise BrokerError(told.error_code, _message(told), str(subject))

    async def _until_read(self) -> None:
        """With acks=0 brokers answer only by closing the connection. They read requests in order: when they answer
        one that stands behind all of ours, they have taken ours."""
        for broker in self._told:
            await broker.ask(ApiVersionsRequest(client_software_name="cordwood", client_software_version=__version__))

    async def _next_progress(self) -> None:
        self._progress.clear()
        await self._progress.wait()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


async def _identify(client: Client) -> ProducerIdentity:
    async def attempt() -> ProducerIdentity:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0x7FFF_FFFF)
        response = await (await client.any_broker()).ask(request)
        if response.error_code != ErrorCode.NONE:
            raise BrokerError(response.error_code)
        return ProducerIdentity(response.producer_id, response.producer_epoch)

    return await client.retrying(attempt)


def _message(told: PartitionProduceResponse) -> str | None:
    """What the broker says of the batch, or else of the first record that it refuses."""
    if told.record_errors and told.record_errors[0].batch_index_error_message:
        return told.record_errors[0].batch_index_error_message
    return told.error_message
