"""Routing of a producer's transaction requests to coordinators: on virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import pytest

from cordwood.client.client import Client
from cordwood.client.errors import BrokerError
from cordwood.client.producer.settings import ProducerSettings
from cordwood.client.producer.transactions.driver import TransactionDriver
from cordwood.client.producer.transactions.machine import Transactions
from cordwood.client.producer.transactions.operation import Operation
from cordwood.net.peers.backoff import Backoff
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.world import World
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from cordwood.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from cordwood.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey
from cordwood.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from cordwood.wire.messages.find_coordinator import FindCoordinatorRequest
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from cordwood.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.client.scripted_broker import Cut, ScriptedBroker, scripted_brokers
from tests.client.scripted_coordinators import Coordinators
from tests.client.scripted_transactions import GROUP, OFFSETS, P0, added, committed


class Driven:
    """A machine and its driver, without batches: `incomplete` stands for those."""

    def __init__(self, client: Client, settings: ProducerSettings) -> None:
        random = SeededRandom(1)
        self.machine = Transactions(settings, Backoff(100, 1000, random))
        self.incomplete = False
        self.changes = 0
        self.driver = TransactionDriver(
            client,
            self.machine,
            lock=nullcontext(),
            has_incomplete=lambda: self.incomplete,
            on_change=self._changed,
        )

    async def done(self, operation: Operation) -> None:
        self.driver.wake()
        done = asyncio.get_running_loop().create_future()
        operation.on_done(lambda: done.set_result(None))
        await done
        operation.take()

    def _changed(self) -> None:
        self.changes += 1


@asynccontextmanager
async def driven(world: World, brokers: list[ScriptedBroker]) -> AsyncIterator[Driven]:
    settings = ProducerSettings(transactional_id="id")
    address = brokers[0].address
    client = await Client.connect(
        [address], settings, network=world.network.host("client"), random=SeededRandom(world.seed)
    )
    async with client:
        driven = Driven(client, settings)
        task = asyncio.get_running_loop().create_task(driven.driver.run())
        try:
            yield driven
        finally:
            task.cancel()


def has_version_2(broker: ScriptedBroker) -> None:
    """The broker says that the cluster's transactions are of version 2."""
    ranges = broker.answers[ApiVersionsRequest.api_key]

    def api_versions(request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        response: ApiVersionsResponse = ranges(request, version)
        response.finalized_features_epoch = 1
        response.finalized_features = [FinalizedFeatureKey(name="transaction.version", max_version_level=2)]
        return response

    broker.answers[ApiVersionsRequest.api_key] = api_versions


def coordinates(broker: ScriptedBroker, coordinators: Coordinators) -> None:
    """Answers for the transactional id `id` and the group `g`, where it is their coordinator."""

    def error_of(key: str) -> ErrorCode:
        return ErrorCode.NONE if coordinators.of[key] == broker.id else ErrorCode.NOT_COORDINATOR

    broker.answers |= {
        InitProducerIdRequest.api_key: lambda request, version: InitProducerIdResponse(
            error_code=error_of("id"), producer_id=1, producer_epoch=0
        ),
        TxnOffsetCommitRequest.api_key: lambda request, version: committed({P0: error_of("g")}),
        EndTxnRequest.api_key: lambda request, version: EndTxnResponse(
            error_code=error_of("id"), producer_id=1, producer_epoch=1
        ),
    }


# The newest version of each that it has; it knows nothing of `transaction.version`.
KAFKA_2_8: dict[type[Any], int] = {
    FindCoordinatorRequest: 3,
    InitProducerIdRequest: 4,
    AddPartitionsToTxnRequest: 3,
    AddOffsetsToTxnRequest: 3,
    TxnOffsetCommitRequest: 3,
    EndTxnRequest: 3,
}


def is_of_kafka_2_8(broker: ScriptedBroker) -> None:
    broker.max_versions |= {kind.api_key: version for kind, version in KAFKA_2_8.items()}
    broker.answers |= {
        AddPartitionsToTxnRequest.api_key: lambda request, version: added({P0: ErrorCode.NONE}),
        AddOffsetsToTxnRequest.api_key: lambda request, version: AddOffsetsToTxnResponse(),
    }


@asynccontextmanager
async def cluster(world: World, *, version_2: bool = True) -> AsyncIterator[tuple[list[ScriptedBroker], Coordinators]]:
    """Broker 1 is where clients begin, broker 2 coordinates the transactional id, broker 3 the group."""
    async with scripted_brokers(3, world) as brokers:
        coordinators = Coordinators(brokers)
        coordinators.of = {"id": 2, "g": 3}
        for broker in brokers:
            if version_2:
                has_version_2(broker)
            coordinates(broker, coordinators)
        yield brokers, coordinators


Scene = Callable[[World, list[ScriptedBroker], Coordinators], Coroutine[Any, Any, None]]


def play(scene: Scene, *, version_2: bool = True) -> None:
    world = World(1, limit_s=600)

    async def main() -> None:
        async with cluster(world, version_2=version_2) as (brokers, coordinators):
            await scene(world, brokers, coordinators)

    world.run(main())


def test_each_request_goes_to_its_coordinator() -> None:
    async def scene(world: World, brokers: list[ScriptedBroker], coordinators: Coordinators) -> None:
        async with driven(world, brokers) as producer:
            await producer.done(producer.machine.initialize())
            producer.machine.begin()
            await producer.done(producer.machine.send_offsets(OFFSETS, GROUP))
            await producer.done(producer.machine.commit())
        kinds = (InitProducerIdRequest, TxnOffsetCommitRequest, EndTxnRequest)
        assert [[len(broker.seen_of(kind)) for kind in kinds] for broker in brokers] == [
            [0, 0, 0],
            [1, 0, 1],
            [0, 1, 0],
        ]

    play(scene)


def test_a_coordinator_is_looked_up_once() -> None:
    async def scene(world: World, brokers: list[ScriptedBroker], coordinators: Coordinators) -> None:
        async with driven(world, brokers) as producer:
            await producer.done(producer.machine.initialize())
            for _ in range(2):
                producer.machine.begin()
                await producer.done(producer.machine.send_offsets(OFFSETS, GROUP))
                await producer.done(producer.machine.commit())
        assert sum(len(broker.seen_of(FindCoordinatorRequest)) for broker in brokers) == 2

    play(scene)


def test_the_brokers_feature_decides_the_version_of_transactions() -> None:
    async def scene(world: World, brokers: list[ScriptedBroker], coordinators: Coordinators) -> None:
        async with driven(world, brokers) as producer:
            await producer.done(producer.machine.initialize())
            assert producer.machine.is_version_2

    play(scene)


def test_a_coordinator_that_moves_is_followed() -> None:
    async def scene(world: World, brokers: list[ScriptedBroker], coordinators: Coordinators) -> None:
        async with driven(world, brokers) as producer:
            await producer.done(producer.machine.initialize())
            producer.machine.begin()
            coordinators.of = {"id": 3, "g": 2}
            await producer.done(producer.machine.send_offsets(OFFSETS, GROUP))
            await producer.done(producer.machine.commit())
        assert len(brokers[2].seen_of(EndTxnRequest)) == 1

    play(scene)


def test_a_coordinator_that_cuts_the_connection_is_asked_again() -> None:
    async def scene(world: World, brokers: list[ScriptedBroker], coordinators: Coordinators) -> None:
        healthy = brokers[1].answers[EndTxnRequest.api_key]
        cuts = 2

        def end_txn(request: EndTxnRequest, version: int) -> EndTxnResponse:
            nonlocal cuts
            if cuts:
                cuts -= 1
                raise Cut
            response: EndTxnResponse = healthy(request, version)
            return response

        brokers[1].answers[EndTxnRequest.api_key] = end_txn
        async with driven(world, brokers) as producer:
            await producer.done(producer.machine.initialize())
            producer.machine.begin()
            await producer.done(producer.machine.send_offsets(OFFSETS, GROUP))
            await producer.done(producer.machine.commit())
        assert len(brokers[1].seen_of(EndTxnRequest)) == 3

    play(scene)


def test_the_end_is_requested_when_the_last_batch_is_done() -> None:
    async def scene(world: World, brokers: list[ScriptedBroker], coordinators: Coordinators) -> None:
        async with driven(world, brokers) as producer:
            await producer.done(producer.machine.initialize())
            producer.machine.begin()
            producer.machine.add_partition(P0)
            producer.incomplete = True
            operation = producer.machine.commit()
            producer.driver.wake()
            await asyncio.sleep(10)
            assert brokers[1].seen_of(EndTxnRequest) == []
            producer.incomplete = False
            await producer.done(operation)

    play(scene)


def test_brokers_of_kafka_2_8_are_spoken_to_in_their_versions() -> None:
    async def scene(world: World, brokers: list[ScriptedBroker], coordinators: Coordinators) -> None:
        for broker in brokers:
            is_of_kafka_2_8(broker)
        async with driven(world, brokers) as producer:
            await producer.done(producer.machine.initialize())
            producer.machine.begin()
            producer.machine.add_partition(P0)
            await producer.done(producer.machine.send_offsets(OFFSETS, GROUP))
            await producer.done(producer.machine.commit())
        seen = [(type(request), version) for broker in brokers for request, version in broker.seen]
        assert {(kind, version) for kind, version in seen if kind in KAFKA_2_8} == set(KAFKA_2_8.items())

    play(scene, version_2=False)


def test_a_refused_look_up_fails_its_waiters() -> None:
    async def scene(world: World, brokers: list[ScriptedBroker], coordinators: Coordinators) -> None:
        coordinators.errors = [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
        async with driven(world, brokers) as producer:
            with pytest.raises(BrokerError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
                await producer.done(producer.machine.initialize())
            await producer.done(producer.machine.initialize())

    play(scene)


def test_the_sender_is_notified_of_each_response() -> None:
    async def scene(world: World, brokers: list[ScriptedBroker], coordinators: Coordinators) -> None:
        async with driven(world, brokers) as producer:
            await producer.done(producer.machine.initialize())
            assert producer.changes == 1

    play(scene)
