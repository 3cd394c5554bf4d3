"""Fetches one range of a partition: large answers, the next of them on its way while one is being used.

It runs on the loop of its client. What was asked for is done when the position has reached the range's end, whether or
not there was a record just before it: compaction and transaction markers leave gaps, which are no loss.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import BrokerError
from cordwood.client.offsets import EARLIEST, LATEST, list_offsets
from cordwood.spark.errors import CannotRead
from cordwood.spark.source.loss import LossReport
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from cordwood.wire.primitives import ZERO_UUID
from cordwood.wire.record import Buffer, CorruptBatch
from cordwood.wire.records import batch_headers

_log = logging.getLogger(__name__)

_BY_NAME_AT_MOST = 12
"""The last version of Fetch that names topics."""
_MAX_WAIT_MS = 500


@dataclass(frozen=True, slots=True)
class FetchLimits:
    max_bytes: int
    read_committed: bool
    poll_timeout_ms: int
    """How long there may be nothing where records should be."""
    rack: str = ""


@dataclass(frozen=True, slots=True)
class Fetched:
    content: Buffer
    """Whole batches, and perhaps the beginning of another."""
    position: int
    """What comes before has been read, though the first batch may hold some of it."""
    aborted: Sequence[AbortedTransaction]


class RangeFetcher:
    def __init__(
        self,
        client: Client,
        partition: TopicPartition,
        start: int,
        end: int,
        limits: FetchLimits,
        losses: LossReport,
    ) -> None:
        self._client = client
        self._partition = partition
        self._position = start
        self._end = end
        self._limits = limits
        self._losses = losses
        self._next: asyncio.Task[Fetched | None] | None = None
        self._arrived: Fetched | None = None
        # A follower nearby, if the leader has named one (KIP-392).
        self._replica: int | None = None

    async def advance(self) -> bool:
        """Whether there is something to `take`; False at the end. Raises a `ClientError`, or a `SparkError`.

        What came is not returned: a task that another thread waits for is freed late, and megabytes with it.
        """
        task = self._next if self._next is not None else self._start()
        self._next = None
        self._arrived = await task
        if self._arrived is not None and self._position < self._end:
            self._next = self._start()
        return self._arrived is not None

    def take(self) -> Fetched:
        """Once after each `advance`."""
        fetched, self._arrived = self._arrived, None
        assert fetched is not None
        return fetched

    async def close(self) -> None:
        if self._next is not None:
            self._next.cancel()
            await asyncio.gather(self._next, return_exceptions=True)

    def _start(self) -> "asyncio.Task[Fetched | None]":
        return asyncio.get_running_loop().create_task(self._fetch())

    async def _fetch(self) -> Fetched | None:
        """The next answer with records in it."""
        loop = asyncio.get_running_loop()
        patient_until = loop.time() + self._limits.poll_timeout_ms / 1000
        while self._position < self._end:
            try:
                data = await self._client.retrying(self._ask)
            except BrokerError as error:
                if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                await self._find_place()
                continue
            fetched = self._take(data)
            if fetched is not None:
                return fetched
            if self._position < self._end and loop.time() >= patient_until:
                raise CannotRead(
                    f"{self._partition}: nothing came from offset {self._position} on within "
                    f"{self._limits.poll_timeout_ms} ms, though there should be records up to {self._end}"
                )
        return None

    async def _ask(self) -> PartitionData:
        cluster = self._client.cluster
        if self._partition.topic not in cluster.topics:
            await self._client.topics([self._partition.topic])
            cluster = self._client.cluster
        topic = cluster.topics[self._partition.topic]
        source = self._replica if self._replica in cluster.brokers else cluster.leader(self._partition)
        assert source is not None
        broker = await self._client.broker(source)
        wanted = FetchPartition(
            partition=self._partition.partition,
            current_leader_epoch=cluster.partition(self._partition).leader_epoch,
            fetch_offset=self._position,
            partition_max_bytes=self._limits.max_bytes,
        )
        request = FetchRequest(
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=self._limits.max_bytes,
            isolation_level=1 if self._limits.read_committed else 0,
            rack_id=self._limits.rack,
            topics=[FetchTopic(topic=topic.name, topic_id=topic.id, partitions=[wanted])],
        )
        response = await broker.ask(request, at_most=_BY_NAME_AT_MOST if topic.id == ZERO_UUID else None)
        if response.error_code != ErrorCode.NONE:
            raise BrokerError(response.error_code, subject=str(self._partition))
        for answered in response.responses:
            for data in answered.partitions:
                if data.error_code == ErrorCode.NONE:
                    return data
                self._replica = None
                raise BrokerError(data.error_code, subject=str(self._partition))
        raise CannotRead(f"{self._partition}: the broker's answer says nothing of it")

    def _take(self, data: PartitionData) -> Fetched | None:
        """Moves on past whole batches."""
        if data.preferred_read_replica >= 0:
            self._replica = data.preferred_read_replica
            return None
        content = data.records
        if not content:
            readable_end = data.last_stable_offset if self._limits.read_committed else data.high_watermark
            if self._end <= readable_end:
                # Compaction has taken what stood here.
                self._position = self._end
            return None
        assert isinstance(content, bytes | bytearray | memoryview)
        position = self._position
        try:
            # The last batch may be cut where the limit was; it is not among these.
            for _, header in batch_headers(content):
                self._position = max(self._position, header.next_offset)
        except CorruptBatch as error:
            raise CannotRead(f"{self._partition} at offset {self._position}: {error}") from None
        if self._position == position:
            raise CannotRead(f"{self._partition} at offset {position}: no whole batch in what the broker sent")
        return Fetched(content, position, data.aborted_transactions or ())

    async def _find_place(self) -> None:
        """Retention has deleted what was to be read, or the log is not the one that it was."""
        if self._replica is not None:
            # A follower may lag behind; its leader knows for sure.
            self._replica = None
            return
        partition = self._partition
        begin = (await list_offsets(self._client, {partition: EARLIEST}))[partition].offset
        latest = (await list_offsets(self._client, {partition: LATEST}))[partition].offset
        if self._position < begin:
            self._losses.begins_later(partition, self._position, begin)
            self._position = min(begin, self._end)
        elif self._position > latest:
            self._losses.ends_earlier(partition, self._position, latest)
            self._position = self._end
        # Otherwise it is there by now.
