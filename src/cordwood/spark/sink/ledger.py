"""The ledger: a compacted topic with the last decision of each query, keyed by the query's id. Written in transactions
under the query's own transactional id, so that a new owner of the id fences the previous one; read with read_committed.
"""

from collections.abc import Mapping
from zlib import crc32

from cordwood.client.admin.topics import NewTopic, create_topics, until_led
from cordwood.client.arguments import ConfigValue
from cordwood.client.client import Client
from cordwood.client.cluster import Topic, TopicPartition
from cordwood.client.errors import BrokerError
from cordwood.client.offsets import EARLIEST, LATEST, list_offsets
from cordwood.client.producer.producer import Producer
from cordwood.spark.sink.ledger_entry import LedgerEntry
from cordwood.spark.sink.ledger_reading import read_committed
from cordwood.wire.errors import ErrorCode

PARTITIONS = 16
"""A hanging decision blocks only those of its own partition."""
_CONFIGS: Mapping[str, ConfigValue] = {
    "cleanup.policy": "compact",
    # A query without a decision reads a whole partition, so it is kept short.
    "segment.bytes": 1024 * 1024,
    "min.cleanable.dirty.ratio": "0.1",
}
# A query's last entry is near the end, so that is looked at first.
_FIRST_LOOK_BACK = 32
_LOOK_BACK_GROWTH = 16
# Longer than a decision that hangs can hold others up.
_DECIDED_WITHIN_S = 60.0


class Ledger:
    """Over a client that others use, too."""

    def __init__(self, client: Client, topic: str) -> None:
        self._client = client
        self._topic = topic
        # The last entry of each query, and the offset read so far.
        self._known: dict[str, tuple[LedgerEntry | None, int]] = {}

    async def partition_of(self, query: str) -> TopicPartition:
        """Creates the topic if it is not there."""
        known = self._client.cluster.topics.get(self._topic)
        if known is None:
            known = await self._find_or_create()
        return TopicPartition(self._topic, crc32(query.encode()) % len(known.partitions))

    async def read(self, query: str, *, latest: bool) -> LedgerEntry | None:
        """`latest`: includes everything written before this call, and waits for open transactions to be decided.
        Otherwise includes at least what is committed now."""
        partition = await self.partition_of(query)
        end = (await list_offsets(self._client, {partition: LATEST}, read_committed=not latest))[partition].offset
        entry, start = self._known.get(query, (None, 0))
        if query not in self._known or start > end:
            entry, start = await self._look_back(query, partition, end), 0
        elif start < end:
            entry = await self._last_in(query, partition, start, end) or entry
        self._known[query] = entry, max(start, end)
        return entry

    async def write(self, producer: Producer, query: str, entry: LedgerEntry) -> None:
        """In a transaction of the ledger's owner."""
        partition = await self.partition_of(query)
        await producer.begin_transaction()
        try:
            await producer.send_and_wait(partition.topic, entry.encode(), query.encode(), partition=partition.partition)
            await producer.commit_transaction()
        finally:
            # The cached entry is invalid, whether this write succeeds or not.
            self._known.pop(query, None)

    async def _look_back(self, query: str, partition: TopicPartition, end: int) -> LedgerEntry | None:
        first = (await list_offsets(self._client, {partition: EARLIEST}))[partition].offset
        span, upto = _FIRST_LOOK_BACK, end
        while upto > first:
            start = max(first, upto - span)
            entry = await self._last_in(query, partition, start, upto)
            if entry is not None:
                return entry
            span, upto = span * _LOOK_BACK_GROWTH, start
        return None

    async def _last_in(self, query: str, partition: TopicPartition, start: int, end: int) -> LedgerEntry | None:
        found: bytes | None = None
        async for record in read_committed(self._client, partition, start, end, _DECIDED_WITHIN_S):
            if record.key == query.encode():
                found = record.value
        return None if found is None else LedgerEntry.decode(found)

    async def _find_or_create(self) -> Topic:
        try:
            return (await self._client.topics([self._topic]))[self._topic]
        except BrokerError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
        created = await create_topics(self._client, [NewTopic(self._topic, PARTITIONS, configs=_CONFIGS)])
        outcome = created[self._topic]
        if isinstance(outcome, BrokerError) and outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise outcome
        await until_led(self._client, [self._topic])
        return self._client.cluster.topics[self._topic]
