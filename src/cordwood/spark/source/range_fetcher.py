"""Fetches one range of a partition: large responses, the next one in flight while one is being used."""

import asyncio
from dataclasses import dataclass

from cordwood.client.client import Client
from cordwood.client.errors import BrokerError
from cordwood.client.offsets import EARLIEST, LATEST, list_offsets
from cordwood.spark.errors import CannotRead
from cordwood.spark.source.fetch_sizes import FetchSizes
from cordwood.spark.source.loss import LossReport
from cordwood.spark.source.range_position import Fetched, RangePosition
from cordwood.spark.source.ranges import OffsetRange
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from cordwood.wire.primitives import ZERO_UUID

_BY_NAME_AT_MOST = 12
"""The last version of Fetch that names topics."""
_MAX_WAIT_MS = 500


@dataclass(frozen=True, slots=True)
class FetchLimits:
    max_bytes: int
    read_committed: bool
    poll_timeout_ms: int
    """Time for which nothing may arrive where records should be."""
    rack: str = ""


class RangeFetcher:
    """Belongs to the loop of its client."""

    def __init__(
        self,
        client: Client,
        wanted: OffsetRange,
        limits: FetchLimits,
        losses: LossReport,
        sizes: FetchSizes | None = None,
    ) -> None:
        self._client = client
        self._partition = wanted.partition
        self._limits = limits
        self._losses = losses
        self._position = RangePosition(
            wanted.partition, wanted.start, wanted.end, read_committed=limits.read_committed, sizes=sizes
        )
        self._next: asyncio.Task[Fetched | None] | None = None
        self._arrived: Fetched | None = None
        # A follower nearby, if the leader has named one (KIP-392).
        self._replica: int | None = None

    async def advance(self) -> bool:
        """Returns whether there is something to `take`; False at the end. Raises a `ClientError`, or a `SparkError`.

        The data is not returned: a task awaited by another thread is freed late, and megabytes with it.
        """
        task = self._next if self._next is not None else self._start()
        self._next = None
        self._arrived = await task
        if self._arrived is not None and not self._position.is_done:
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
        """The next answer with records in it; None at the end of the range."""
        loop = asyncio.get_running_loop()
        patient_until = loop.time() + self._limits.poll_timeout_ms / 1000
        while not self._position.is_done:
            try:
                data = await self._client.retrying(self._ask)
            except BrokerError as error:
                if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                await self._find_place()
                continue
            if data is not None and (fetched := self._position.take(data)) is not None:
                return fetched
            if not self._position.is_done and loop.time() >= patient_until:
                raise CannotRead(
                    f"{self._partition}: nothing came from offset {self._position.offset} on within "
                    f"{self._limits.poll_timeout_ms} ms, although records up to {self._position.end} exist"
                )
        return None

    async def _ask(self) -> PartitionData | None:
        """One try. None: ask again, elsewhere or later."""
        topic_name = self._partition.topic
        if topic_name not in self._client.cluster.topics:
            await self._client.topics([topic_name])
        cluster = self._client.cluster
        topic = cluster.topics[topic_name]
        source = self._replica if self._replica in cluster.brokers else None
        broker = await self._client.broker(cluster.leader(self._partition) if source is None else source)
        max_bytes = self._position.wanted_bytes(self._limits.max_bytes)
        wanted = FetchPartition(
            partition=self._partition.partition,
            current_leader_epoch=cluster.partition(self._partition).leader_epoch,
            fetch_offset=self._position.offset,
            partition_max_bytes=max_bytes,
        )
        request = FetchRequest(
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=1 if self._limits.read_committed else 0,
            rack_id=self._limits.rack,
            topics=[FetchTopic(topic=topic.name, topic_id=topic.id, partitions=[wanted])],
        )
        response = await broker.ask(request, at_most=_BY_NAME_AT_MOST if topic.id == ZERO_UUID else None)
        if response.error_code != ErrorCode.NONE:
            raise BrokerError(response.error_code, subject=str(self._partition))
        answers = [data for answered in response.responses for data in answered.partitions]
        if not answers:
            # Over its quota, a broker says nothing but for how long to hold back, which the connection does.
            return None
        if answers[0].error_code != ErrorCode.NONE:
            self._replica = None if answers[0].error_code != ErrorCode.OFFSET_OUT_OF_RANGE else self._replica
            raise BrokerError(answers[0].error_code, subject=str(self._partition))
        if answers[0].preferred_read_replica >= 0:
            self._replica = answers[0].preferred_read_replica
            return None
        return answers[0]

    async def _find_place(self) -> None:
        if self._replica is not None:
            # A follower may lag behind; its leader knows for sure.
            self._replica = None
            return
        partition = self._partition
        log_start = (await list_offsets(self._client, {partition: EARLIEST}))[partition].offset
        log_end = (await list_offsets(self._client, {partition: LATEST}))[partition].offset
        self._position.out_of_range(log_start, log_end, self._losses)
