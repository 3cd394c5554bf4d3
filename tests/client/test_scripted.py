"""The client's reaction to failing brokers."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

from cordwood.client.admin.topics import NewTopic, create_topics
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import BrokerError, CannotReachCluster, GaveUp
from cordwood.client.offsets import EARLIEST, LATEST, list_offsets
from cordwood.net.connection_info import ConnectionInfo
from cordwood.net.server import Server
from cordwood.net.serving import Answer
from cordwood.runtime.network import Address
from cordwood.runtime.sockets import SocketNetwork
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.api_versions import ApiVersionsRequest
from cordwood.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from cordwood.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from cordwood.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.client.scripted_broker import IMPATIENT, Cut, client_of, scripted_brokers

P0 = TopicPartition("t", 0)
NOBODY = Address("127.0.0.1", 1)


def run(main: Coroutine[Any, Any, None]) -> None:
    async def patiently() -> None:
        async with asyncio.timeout(60):
            await main

    asyncio.run(patiently())


def offsets_answer(error: int = ErrorCode.NONE, offset: int = 42) -> ListOffsetsResponse:
    partition = ListOffsetsPartitionResponse(partition_index=0, error_code=error, offset=offset)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[partition])])


# ---- connecting


def test_a_broker_without_our_apiversions_is_asked_again_in_its_own() -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker]:
            broker.max_versions[ApiVersionsRequest.api_key] = 2
            async with await client_of(broker.address) as client:
                assert client.cluster.id == "scripted"
            versions = [version for request, version in broker.seen if isinstance(request, ApiVersionsRequest)]
            assert versions == [ApiVersionsRequest.versions.high, 2]

    run(main())


def test_an_older_broker_is_spoken_to_in_its_version() -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker]:
            broker.max_versions[MetadataRequest.api_key] = 9
            async with await client_of(broker.address):
                pass
            assert [version for request, version in broker.seen if isinstance(request, MetadataRequest)] == [9]

    run(main())


def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker], await client_of(NOBODY, broker.address) as client:
            assert client.cluster.brokers[1].address == broker.address

    run(main())


def test_each_address_that_fails_is_named_with_the_reason() -> None:
    async def main() -> None:
        with pytest.raises(CannotReachCluster) as caught:
            await client_of(NOBODY, Address("127.0.0.1", 2))
        assert str(caught.value) == (
            "cannot connect to 127.0.0.1:1: Connection refused; cannot connect to 127.0.0.1:2: Connection refused"
        )

    run(main())


def test_a_broker_that_hangs_up_until_the_timeout_cannot_be_reached() -> None:
    def hang_up(request: MetadataRequest, version: int) -> MetadataResponse:
        raise Cut

    async def main() -> None:
        async with scripted_brokers() as [broker]:
            broker.answers[MetadataRequest.api_key] = hang_up
            with pytest.raises(CannotReachCluster, match=str(broker.address.port)):
                await client_of(broker.address)

    run(main())


def test_a_peer_that_is_not_a_broker_is_reported() -> None:
    def shout(frame: bytearray, connection: ConnectionInfo) -> Answer:
        return [b"HTTP/1.1 400 Bad Request\r\n\r\n"]

    async def main() -> None:
        server = Server(SocketNetwork(), shout)
        address = await server.listen("TEST", "127.0.0.1", 0)
        try:
            settings = replace(IMPATIENT, socket_connection_setup_timeout_ms=200)
            with pytest.raises(CannotReachCluster, match=r"does not answer as a Kafka.*says 'HTTP/1.1 400") as told:
                await client_of(address, settings=settings)
            assert "TLS" not in str(told.value)
        finally:
            await server.stop(grace_seconds=0)

    run(main())


def test_a_broker_that_was_lost_is_connected_to_again() -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker]:
            cuts = [True]

            def answer(request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
                if cuts:
                    cuts.pop()
                    raise Cut
                return offsets_answer()

            broker.answers[ListOffsetsRequest.api_key] = answer
            async with await client_of(broker.address) as client:
                await client.topics(["t"])
                assert (await list_offsets(client, {P0: LATEST}))[P0].offset == 42
            assert len(broker.seen_of(ListOffsetsRequest)) == 2

    run(main())


# ---- finding the right broker


def test_a_leader_that_moved_is_followed() -> None:
    async def main() -> None:
        async with scripted_brokers(2) as [first, second]:

            def refuse(request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
                first.leaders = second.leaders = [2]
                return offsets_answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)

            first.answers[ListOffsetsRequest.api_key] = refuse
            second.answers[ListOffsetsRequest.api_key] = lambda request, version: offsets_answer()
            async with await client_of(first.address) as client:
                await client.topics(["t"])
                assert (await list_offsets(client, {P0: LATEST}))[P0].offset == 42

    run(main())


def test_only_failed_partitions_are_retried() -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker]:
            broker.leaders = [1, 1]
            asked: list[list[int]] = []

            def answer(request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
                numbers = [partition.partition_index for partition in request.topics[0].partitions]
                asked.append(numbers)
                failing = 1 if len(asked) == 1 else None
                partitions = [
                    ListOffsetsPartitionResponse(
                        partition_index=number,
                        error_code=ErrorCode.LEADER_NOT_AVAILABLE if number == failing else ErrorCode.NONE,
                        offset=number,
                    )
                    for number in numbers
                ]
                return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=partitions)])

            broker.answers[ListOffsetsRequest.api_key] = answer
            async with await client_of(broker.address) as client:
                await client.topics(["t"])
                wanted = {TopicPartition("t", number): LATEST for number in (0, 1)}
                listed = await list_offsets(client, wanted, read_committed=True)
                assert [found.offset for found in listed.values()] == [0, 1]
            assert asked == [[0, 1], [1]]
            assert {request.isolation_level for request in broker.seen_of(ListOffsetsRequest)} == {1}

    run(main())


def test_a_controller_that_moved_is_followed() -> None:
    async def main() -> None:
        async with scripted_brokers(2) as [first, second]:

            def refuse(request: CreateTopicsRequest, version: int) -> CreateTopicsResponse:
                first.controller = second.controller = 2
                return CreateTopicsResponse(
                    topics=[CreatableTopicResult(name="new", error_code=ErrorCode.NOT_CONTROLLER)]
                )

            first.answers[CreateTopicsRequest.api_key] = refuse
            second.answers[CreateTopicsRequest.api_key] = lambda request, version: CreateTopicsResponse(
                topics=[CreatableTopicResult(name="new", num_partitions=1)]
            )
            async with await client_of(first.address) as client:
                created = await create_topics(client, [NewTopic("new")])
                assert not isinstance(created["new"], BrokerError)

    run(main())


def test_an_error_that_will_not_pass_is_raised_at_once() -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker]:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            broker.answers[ListOffsetsRequest.api_key] = lambda request, version: offsets_answer(code)
            async with await client_of(broker.address) as client:
                await client.topics(["t"])
                with pytest.raises(BrokerError, match="t-0: not allowed on this topic"):
                    await list_offsets(client, {P0: EARLIEST})
            assert len(broker.seen_of(ListOffsetsRequest)) == 1

    run(main())


def test_a_permanent_error_is_raised_with_its_reason() -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker]:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            broker.answers[ListOffsetsRequest.api_key] = lambda request, version: offsets_answer(code)
            settings = replace(IMPATIENT, default_api_timeout_ms=50)
            async with await client_of(broker.address, settings=settings) as client:
                await client.topics(["t"])
                with pytest.raises(GaveUp, match=r"NOT_LEADER_OR_FOLLOWER\); gave up after 0.05 s"):
                    await list_offsets(client, {P0: EARLIEST})

    run(main())


def test_a_missing_topic_is_an_error_that_names_it() -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker], await client_of(broker.address) as client:
            with pytest.raises(BrokerError, match="topic nope: there is no such topic"):
                await client.topics(["nope"])
            assert not any(request.allow_auto_topic_creation for request in broker.seen_of(MetadataRequest))

    run(main())


def test_a_broker_that_throttles_us_gets_no_requests_for_that_time() -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker]:
            times = []

            def answer(request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
                times.append(asyncio.get_running_loop().time())
                response = offsets_answer()
                response.throttle_time_ms = 100
                return response

            broker.answers[ListOffsetsRequest.api_key] = answer
            async with await client_of(broker.address) as client:
                await client.topics(["t"])
                for _ in range(2):
                    await list_offsets(client, {P0: LATEST})
            assert times[1] - times[0] >= 0.1

    run(main())
