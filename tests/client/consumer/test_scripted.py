"""A consumer and brokers that do what healthy ones rarely do: leaders that change, logs that are cut, sessions lost."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.consumer import Consumer
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import AuthorizationFailed, BadAnswer, LogTruncation
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.runtime.sockets import SocketNetwork
from cordwood.sim.world import World
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from cordwood.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from cordwood.wire.messages.metadata import MetadataRequest
from cordwood.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from cordwood.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from tests.client.fetched_data import batch, partition_data
from tests.client.scripted_broker import TOPIC_ID, ScriptedBroker, scripted_brokers
from tests.client.scripted_coordinators import Coordinators

P0 = TopicPartition("t", 0)
SETTINGS = ConsumerSettings(
    auto_offset_reset="earliest",
    retry_backoff_ms=1,
    retry_backoff_max_ms=2,
    reconnect_backoff_ms=1,
    reconnect_backoff_max_ms=2,
    default_api_timeout_ms=10_000,
)


class Log:
    """A broker's log of partition 0, one record per batch; at its end it responds at once with nothing."""

    def __init__(self, broker: ScriptedBroker, end: int, epoch: int = 0) -> None:
        self.broker = broker
        self.end = end
        self.epoch = epoch
        self.errors: list[PartitionData] = []
        self.endpoints: list[NodeEndpoint] = []
        self.next_session_error = 0
        self.session = 0
        self.offset = 0
        broker.answers[FetchRequest.api_key] = self.fetch
        broker.answers[ListOffsetsRequest.api_key] = self.list_offsets

    def fetch(self, request: FetchRequest, version: int) -> FetchResponse:
        if self.next_session_error:
            error, self.next_session_error = self.next_session_error, 0
            return FetchResponse(error_code=error)
        for topic in request.topics:
            for partition in topic.partitions:
                self.offset = partition.fetch_offset
        if self.errors:
            told = self.errors.pop(0)
        elif self.offset < self.end:
            told = partition_data(batch(self.offset, epoch=self.epoch), end=self.end)
        else:
            told = partition_data(None, end=self.end)
        topics = [FetchableTopicResponse(topic="t", topic_id=TOPIC_ID, partitions=[told])]
        return FetchResponse(session_id=self.session, responses=topics, node_endpoints=self.endpoints)

    def list_offsets(self, request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
        asked = request.topics[0].partitions[0]
        offset = 0 if asked.timestamp == -2 else self.end
        told = ListOffsetsPartitionResponse(partition_index=0, offset=offset, leader_epoch=self.epoch)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[told])])

    def ends_epochs_at(self, end_offset: int, epoch: int) -> None:
        """Sets the response to OffsetForLeaderEpoch."""

        def answer(request: OffsetForLeaderEpochRequest, version: int) -> OffsetForLeaderEpochResponse:
            told = EpochEndOffset(partition=0, leader_epoch=epoch, end_offset=end_offset)
            topic = OffsetForLeaderTopicResult(topic="t", partitions=[told])
            return OffsetForLeaderEpochResponse(topics=[topic])

        self.broker.answers[OffsetForLeaderEpochRequest.api_key] = answer


def consumer(brokers: list[ScriptedBroker], settings: ConsumerSettings = SETTINGS) -> Consumer:
    return Consumer(settings=settings, network=SocketNetwork(), bootstrap=[broker.address for broker in brokers])


async def read(source: Consumer, count: int) -> list[int]:
    return [(await source.getone()).offset for _ in range(count)]


def run(main: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(30):
            await main

    asyncio.run(limited())


def test_reading_continues_from_a_new_leader_with_the_same_records() -> None:
    async def main() -> None:
        async with scripted_brokers(2) as brokers, consumer(brokers) as source:
            Log(brokers[0], end=3)
            second = Log(brokers[1], end=6, epoch=1)
            second.ends_epochs_at(3, 0)
            source.assign([P0])
            assert await read(source, 3) == [0, 1, 2]
            brokers[0].answers[FetchRequest.api_key] = moved
            for broker in brokers:
                broker.leaders, broker.leader_epoch = [2], 1
            assert await read(source, 3) == [3, 4, 5]
            [asked] = brokers[1].seen_of(OffsetForLeaderEpochRequest)
            assert asked.topics[0].partitions[0].leader_epoch == 0
            assert asked.topics[0].partitions[0].current_leader_epoch == 1

    run(main())


def moved(request: FetchRequest, version: int) -> FetchResponse:
    told = partition_data(None, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[told])])


def test_a_log_that_was_cut_is_read_again_from_where_it_diverges() -> None:
    async def main() -> None:
        async with scripted_brokers(2) as brokers, consumer(brokers) as source:
            Log(brokers[0], end=5)
            Log(brokers[1], end=4, epoch=1).ends_epochs_at(2, 0)
            source.assign([P0])
            assert await read(source, 5) == [0, 1, 2, 3, 4]
            brokers[0].answers[FetchRequest.api_key] = moved
            for broker in brokers:
                broker.leaders, broker.leader_epoch = [2], 1
            assert await read(source, 2) == [2, 3]

    run(main())


def test_without_a_reset_a_truncated_log_is_reported_with_its_diverging_offset() -> None:
    async def main() -> None:
        async with scripted_brokers(1) as brokers:
            Log(brokers[0], end=4, epoch=1).ends_epochs_at(2, 0)
            async with consumer(brokers, replace(SETTINGS, auto_offset_reset="none")) as source:
                source.assign([P0])
                source.seek(P0, OffsetAndMetadata(4, "", 0))
                with pytest.raises(LogTruncation) as cut:
                    await source.poll(10_000)
                assert cut.value.offsets == {P0: 4}
                assert cut.value.divergent_offsets == {P0: 2}
                source.seek(P0, 2)
                assert await read(source, 2) == [2, 3]

    run(main())


def test_reading_continues_at_brokers_without_epoch_ends() -> None:
    async def main() -> None:
        async with scripted_brokers(1) as brokers:
            Log(brokers[0], end=4)
            brokers[0].max_versions[OffsetForLeaderEpochRequest.api_key] = 2
            async with consumer(brokers) as source:
                source.assign([P0])
                source.seek(P0, OffsetAndMetadata(2, "", 0))
                assert await read(source, 2) == [2, 3]

    run(main())


def test_a_leader_named_by_the_old_one_is_asked_without_metadata() -> None:
    async def main() -> None:
        async with scripted_brokers(2) as brokers, consumer(brokers) as source:
            first = Log(brokers[0], end=2)
            Log(brokers[1], end=4, epoch=1).ends_epochs_at(2, 0)
            source.assign([P0])
            assert await read(source, 2) == [0, 1]
            told = partition_data(None, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
            told.current_leader = LeaderIdAndEpoch(leader_id=2, leader_epoch=1)
            first.endpoints = [NodeEndpoint(node_id=2, host=brokers[1].address.host, port=brokers[1].address.port)]
            # Nobody else knows of it, so that fresh metadata would lead back.
            first.errors = [told] * 100
            assert await read(source, 2) == [2, 3]

    run(main())


@pytest.mark.parametrize(
    "error",
    [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR],
)
def test_a_session_that_ends_costs_nothing(error: ErrorCode) -> None:
    async def main() -> None:
        async with scripted_brokers(1) as brokers, consumer(brokers) as source:
            log = Log(brokers[0], end=3)
            log.session = 7
            source.assign([P0])
            assert await read(source, 3) == [0, 1, 2]
            log.end, log.next_session_error = 6, error
            assert await read(source, 3) == [3, 4, 5]
            assert any(request.session_epoch > 0 for request in brokers[0].seen_of(FetchRequest))

    run(main())


def test_the_nearest_replica_is_read() -> None:
    async def main() -> None:
        settings = replace(SETTINGS, client_rack="r2")
        async with scripted_brokers(2) as brokers, consumer(brokers, settings) as source:
            Log(brokers[0], end=3).errors = [partition_data(None, preferred=2)] * 1000
            Log(brokers[1], end=3)
            source.assign([P0])
            assert await read(source, 3) == [0, 1, 2]
            assert brokers[0].seen_of(FetchRequest)[0].rack_id == "r2"
            assert brokers[1].seen_of(FetchRequest)

    run(main())


def test_a_broker_without_topic_ids_is_asked_by_names() -> None:
    async def main() -> None:
        async with scripted_brokers(1) as brokers:
            Log(brokers[0], end=3)
            brokers[0].max_versions |= {FetchRequest.api_key: 11, MetadataRequest.api_key: 9}
            async with consumer(brokers) as source:
                source.assign([P0])
                assert await read(source, 3) == [0, 1, 2]

    run(main())


def test_a_consumer_without_permission_gets_an_error_and_continues_once_allowed() -> None:
    async def main() -> None:
        async with scripted_brokers(1) as brokers, consumer(brokers) as source:
            Log(brokers[0], end=1).errors = [partition_data(None, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
            source.assign([P0])
            with pytest.raises(AuthorizationFailed):
                await source.poll(10_000)
            assert await read(source, 1) == [0]

    run(main())


def test_a_damaged_batch_is_reported_with_its_offset_and_may_be_skipped() -> None:
    async def main() -> None:
        async with scripted_brokers(1) as brokers, consumer(brokers) as source:
            damaged = bytearray(batch(1))
            damaged[-1] ^= 0xFF
            log = Log(brokers[0], end=3)
            log.errors = [partition_data(batch(0) + bytes(damaged))]
            source.assign([P0])
            assert await read(source, 1) == [0]
            for _ in range(2):
                with pytest.raises(BadAnswer, match="t-0 at offset 1"):
                    await source.poll(10_000)
            source.seek(P0, 2)
            assert await read(source, 1) == [2]

    run(main())


def test_a_missing_topic_is_not_requested_with_each_record_of_another() -> None:
    async def main() -> None:
        patient = replace(SETTINGS, retry_backoff_ms=100, retry_backoff_max_ms=1000)
        async with scripted_brokers(1) as brokers, consumer(brokers, patient) as source:
            Log(brokers[0], end=400)
            source.assign([P0, TopicPartition("nowhere", 0)])
            assert await read(source, 400) == list(range(400))
            assert len(brokers[0].seen_of(MetadataRequest)) < 100

    run(main())


def test_partitions_missing_in_a_leaders_response_are_retried() -> None:
    async def main() -> None:
        async with scripted_brokers(1) as brokers, consumer(brokers) as source:
            log = Log(brokers[0], end=3)
            answers = [ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[])])]
            brokers[0].answers[ListOffsetsRequest.api_key] = lambda request, version: (
                answers.pop() if answers else log.list_offsets(request, version)
            )
            assert await source.end_offsets([P0]) == {P0: 3}

    run(main())


def test_a_broker_that_does_not_answer_holds_up_no_partitions_of_others() -> None:
    """Neither those whose positions are looked for with its own, nor those that come later."""

    async def main() -> None:
        patient = replace(SETTINGS, request_timeout_ms=3_600_000)
        async with scripted_brokers(2) as brokers, consumer(brokers, patient) as source:
            for broker in brokers:
                broker.leaders = [1, 2]
            Log(brokers[0], end=3)
            brokers[1].answers[ListOffsetsRequest.api_key] = lambda request, version: None
            source.assign([P0, TopicPartition("t", 1)])
            assert await read(source, 3) == [0, 1, 2]
            source.seek_to_beginning(P0)
            assert await read(source, 3) == [0, 1, 2]

    run(main())


def test_a_poll_waits_for_a_coordinator_without_limit() -> None:
    world = World(1)
    settings = replace(SETTINGS, group_id="g", default_api_timeout_ms=1_000)

    async def main() -> None:
        async with scripted_brokers(1, world) as brokers:
            coordinators = Coordinators(brokers)
            coordinators.errors = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 10_000
            Log(brokers[0], end=3)
            brokers[0].answers[OffsetFetchRequest.api_key] = committed_is_two
            network = world.network.host("client")
            async with Consumer(settings=settings, network=network, bootstrap=[brokers[0].address]) as source:
                source.assign([P0])
                assert await source.getmany(timeout_ms=5_000) == {}
                coordinators.errors.clear()
                assert await read(source, 1) == [2]

    world.run(main())


def committed_is_two(request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
    told = OffsetFetchResponsePartitions(partition_index=0, committed_offset=2)
    topic = OffsetFetchResponseTopics(name="t", topic_id=TOPIC_ID, partitions=[told])
    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=[topic])])


def test_a_member_fenced_during_an_offset_fetch_repeats_it() -> None:
    world = World(1)
    answers = [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH]

    def fenced_first(request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
        if answers:
            return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", error_code=answers.pop())])
        return committed_is_two(request, version)

    async def main() -> None:
        async with scripted_brokers(1, world) as brokers:
            Coordinators(brokers)
            Log(brokers[0], end=3)
            brokers[0].answers[OffsetFetchRequest.api_key] = fenced_first
            settings = replace(SETTINGS, group_id="g")
            network = world.network.host("client")
            async with Consumer(settings=settings, network=network, bootstrap=[brokers[0].address]) as source:
                source.assign([P0])
                assert await read(source, 1) == [2]

    world.run(main())
