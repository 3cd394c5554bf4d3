"""`cordwood consume` reading partitions of scripted brokers."""

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any

import pytest

from cordwood.cli.records.partition_reading import PartitionReading, read_later_partitions
from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.consumer import Consumer
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import OffsetOutOfRange
from cordwood.runtime.sockets import SocketNetwork
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from cordwood.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from cordwood.wire.record_text import RecordText, TextField
from tests.client.fetched_data import P0, P1, batch, marker, partition_data
from tests.client.scripted_broker import TOPIC_ID, ScriptedBroker, scripted_brokers

SETTINGS = ConsumerSettings(
    auto_offset_reset="none",
    isolation_level="read_committed",
    retry_backoff_ms=1,
    retry_backoff_max_ms=2,
    default_api_timeout_ms=10_000,
)


class Reading:
    """Fetches of partitions that each have some batches, by their start offset."""

    def __init__(self, broker: ScriptedBroker, end: int, *batches: bytes) -> None:
        self.moves: list[tuple[TopicPartition, int, int]] = []
        self.settings = replace(SETTINGS, bootstrap_servers=(broker.address,))
        self._end = end
        self._left = list(batches)
        self.starts_at = 0
        broker.answers[FetchRequest.api_key] = self._fetch
        broker.answers[ListOffsetsRequest.api_key] = self._list

    async def offsets(self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> list[int]:
        async with Consumer(settings=self.settings, network=SocketNetwork()) as consumer:
            reading = PartitionReading(consumer, starts, ends, lambda *move: self.moves.append(move))
            text = RecordText([TextField.OFFSET, b" "])
            counts = [count async for count in reading.written(text)]
            found = [int(offset) for offset in text.take().split()]
            assert sum(counts) == len(found)
            assert reading.passed_offsets == sum(ends[partition] - starts[partition] for partition in starts)
            return found

    def _fetch(self, request: FetchRequest, version: int) -> FetchResponse:
        told = [self._of(each.partition, each.fetch_offset) for topic in request.topics for each in topic.partitions]
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=told)])

    def _of(self, partition: int, offset: int) -> PartitionData:
        if not self.starts_at <= offset <= self._end:
            return partition_data(None, partition=partition, error=ErrorCode.OFFSET_OUT_OF_RANGE)
        return partition_data(self._left.pop(0) if self._left else None, partition=partition, end=self._end)

    def _list(self, request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
        told = ListOffsetsPartitionResponse(partition_index=0, offset=self.starts_at)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[told])])


def run(main: Coroutine[Any, Any, None]) -> None:
    async def patiently() -> None:
        async with asyncio.timeout(60):
            await main

    asyncio.run(patiently())


def test_reading_ends_at_the_end_offset() -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker]:
            reading = Reading(broker, 6, batch(0, 1, 2), batch(3, 4, 5))
            assert await reading.offsets({P0: 1}, {P0: 5}) == [1, 2, 3, 4]

    run(main())


def test_empty_ranges_are_not_fetched() -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker]:
            assert await Reading(broker, 3).offsets({P0: 3}, {P0: 3}) == []
            assert not broker.seen_of(FetchRequest)

    run(main())


def test_reading_ends_behind_the_marker_of_a_transaction() -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker]:
            reading = Reading(broker, 3, batch(0, 1, producer=7) + marker(2, 7, commit=True))
            assert await reading.offsets({P0: 0}, {P0: 3}) == [0, 1]

    run(main())


def test_reading_ends_in_a_gap_that_compaction_left_at_the_end() -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker]:
            reading = Reading(broker, 9, batch(0, 1))
            assert await reading.offsets({P0: 0}, {P0: 9}) == [0, 1]

    run(main())


def test_records_deleted_before_they_were_read_are_reported() -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker]:
            reading = Reading(broker, 9, batch(8))
            reading.starts_at = 8
            assert await reading.offsets({P0: 3}, {P0: 9}) == [8]
            assert reading.moves == [(P0, 3, 8)]

    run(main())


def test_an_offset_past_the_end_is_an_error() -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker]:
            with pytest.raises(OffsetOutOfRange, match="t-0 does not hold offset 30"):
                await Reading(broker, 9).offsets({P0: 30}, {P0: 40})

    run(main())


@pytest.mark.parametrize("topics", [["t"], ["[st]"], ["none", "t*"]], ids=str)
def test_a_partition_that_a_topic_gets_later_is_read_from_its_start(topics: list[str]) -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker]:
            settings = replace(Reading(broker, 9).settings, metadata_max_age_ms=5)
            async with Consumer(settings=settings, network=SocketNetwork()) as consumer:
                consumer.assign([P0])
                consumer.seek(P0, 7)
                watcher = asyncio.create_task(read_later_partitions(consumer, topics))
                broker.leaders = [1, 1]
                while P1 not in consumer.assignment():
                    await asyncio.sleep(0.001)
                watcher.cancel()
                assert (await consumer.position(P0), await consumer.position(P1)) == (7, 0)

    run(main())
