"""Reads a stretch of the ledger: its committed records, one answer of a broker after the other.

A stretch has a few records of a few kilobytes, so there is nothing to prefetch.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator

from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.fetches.aborted import Aborted
from cordwood.client.errors import BadAnswer, BrokerError, TimedOut
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from cordwood.wire.primitives import ZERO_UUID
from cordwood.wire.records import CorruptBatch, InvalidRecord, Record, batch_headers, check_crc, decode_batch

_MAX_BYTES = 1024 * 1024
_MAX_WAIT_MS = 500
# The last version of Fetch that names topics.
_BY_NAME_AT_MOST = 12


async def read_committed(
    client: Client, partition: TopicPartition, start: int, end: int, timeout_s: float
) -> AsyncIterator[Record]:
    """Reads from `start` up to, not including, `end`. Waits for open transactions there, for at most `timeout_s`: then
    raises `TimedOut`."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_s
    position = start
    while position < end:

        async def attempt(position: int = position) -> PartitionData:
            return await _fetch(client, partition, position)

        data = await client.retrying(attempt)
        before = position
        try:
            for record, next_offset in _committed(data):
                position = max(position, next_offset)
                if record is not None and start <= record.offset < end:
                    yield record
        except (CorruptBatch, InvalidRecord) as error:
            raise BadAnswer(f"{partition} at offset {position}: {error}") from error
        if position == before and not data.records and end <= data.last_stable_offset:
            # Compaction has removed the records here.
            return
        if position == before and loop.time() >= deadline_s:
            raise TimedOut(
                f"{partition}: records from offset {position} on are still in an open transaction after {timeout_s:g} s"
            )


async def _fetch(client: Client, partition: TopicPartition, position: int) -> PartitionData:
    cluster = client.cluster
    if partition.topic not in cluster.topics:
        await client.topics([partition.topic])
        cluster = client.cluster
    topic = cluster.topics[partition.topic]
    broker = await client.broker(cluster.leader(partition))
    wanted = FetchPartition(
        partition=partition.partition,
        current_leader_epoch=cluster.partition(partition).leader_epoch,
        fetch_offset=position,
        partition_max_bytes=_MAX_BYTES,
    )
    request = FetchRequest(
        max_wait_ms=_MAX_WAIT_MS,
        min_bytes=1,
        max_bytes=_MAX_BYTES,
        isolation_level=1,
        topics=[FetchTopic(topic=topic.name, topic_id=topic.id, partitions=[wanted])],
    )
    response = await broker.ask(request, at_most=_BY_NAME_AT_MOST if topic.id == ZERO_UUID else None)
    answered = [data for each in response.responses for data in each.partitions]
    code = response.error_code or (answered[0].error_code if answered else ErrorCode.UNKNOWN_SERVER_ERROR)
    if code != ErrorCode.NONE:
        raise BrokerError(code, subject=str(partition))
    return answered[0]


def _committed(data: PartitionData) -> Iterator[tuple[Record | None, int]]:
    """Records of whole batches, and where each batch ends; None for one without such records."""
    content = data.records
    if not content:
        return
    assert isinstance(content, bytes | bytearray | memoryview)
    aborted = Aborted(data.aborted_transactions or ())
    for place, header in batch_headers(content):
        check_crc(content, header, place)
        is_aborted = aborted.covers(header, content, place)
        if not is_aborted and not header.is_control:
            for record in decode_batch(content, place):
                yield record, header.next_offset
        yield None, header.next_offset
