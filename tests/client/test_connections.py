"""Reconnecting and metadata refresh: on virtual time, with scripted brokers."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from cordwood.client.client import Client
from cordwood.client.errors import BrokerError, CannotReachCluster, NetworkFailed
from cordwood.client.settings import Settings
from cordwood.runtime.network import Address
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.world import World
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from tests.client.scripted_broker import ScriptedBroker, scripted_brokers


def run(main: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    world = World(1)
    world.run(main(world))


async def client_in(world: World, *bootstrap: Address, **settings: Any) -> Client:
    return await Client.connect(
        bootstrap, Settings(**settings), network=world.network.host("client"), random=SeededRandom(1)
    )


def answers_nothing(request: Any, version: int) -> None:
    return None


def only(broker: ScriptedBroker) -> Callable[[MetadataRequest, int], MetadataResponse]:
    """A cluster of this one."""
    listed = MetadataResponseBroker(node_id=broker.id, host=broker.address.host, port=broker.address.port)
    return lambda request, version: MetadataResponse(brokers=[listed], controller_id=broker.id)


# ---- beginning again


def test_a_cluster_that_has_moved_is_found_again_by_the_bootstrap_addresses() -> None:
    """KIP-899."""

    async def main(world: World) -> None:
        async with scripted_brokers(2, world) as [door, moved]:
            door.answers[MetadataRequest.api_key] = only(moved)
            async with await client_in(world, door.address) as client:
                await client.refresh()
                assert list(client.cluster.brokers) == [moved.id]
                world.network.cut(moved.address.host)
                door.answers[MetadataRequest.api_key] = only(door)
                await client.retrying(lambda: found(client, door.id))

    async def found(client: Client, broker_id: int) -> None:
        await client.refresh()
        if broker_id not in client.cluster.brokers:
            raise NetworkFailed("not found yet")

    run(main)


def test_without_recovery_only_known_brokers_are_asked() -> None:
    async def main(world: World) -> None:
        async with scripted_brokers(2, world) as [door, moved]:
            door.answers[MetadataRequest.api_key] = only(moved)
            async with await client_in(world, door.address, metadata_recovery_strategy="none") as client:
                # Closes the connection to the door.
                client._connections.drop()
                world.network.cut(moved.address.host)
                with pytest.raises(CannotReachCluster) as caught:
                    await client.any_broker()
                assert list(caught.value.failures) == [moved.address]

    run(main)


def test_a_broker_may_ask_to_begin_again() -> None:
    """KIP-1102."""

    async def main(world: World) -> None:
        async with scripted_brokers(2, world) as [door, moved]:
            door.answers[MetadataRequest.api_key] = only(moved)
            moved.answers[MetadataRequest.api_key] = lambda request, version: MetadataResponse(
                error_code=ErrorCode.REBOOTSTRAP_REQUIRED
            )
            async with await client_in(world, door.address) as client:
                client._connections.drop()
                with pytest.raises(BrokerError, match="REBOOTSTRAP_REQUIRED"):
                    await client.refresh()
                assert client.cluster.brokers == {}
                door.answers[MetadataRequest.api_key] = only(door)
                assert await client.refresh()
                assert list(client.cluster.brokers) == [door.id]

    run(main)


def test_without_metadata_for_long_a_client_begins_again_though_brokers_can_be_connected_to() -> None:
    """KIP-1102: brokers that take requests and answer nothing."""

    async def main(world: World) -> None:
        async with scripted_brokers(2, world) as [door, hangs]:
            door.answers[MetadataRequest.api_key] = only(hangs)
            hangs.answers[MetadataRequest.api_key] = answers_nothing
            trigger_ms = 100_000
            async with await client_in(
                world, door.address, metadata_recovery_rebootstrap_trigger_ms=trigger_ms
            ) as client:
                client._connections.drop()
                loop = asyncio.get_running_loop()
                began = loop.time()
                door.answers[MetadataRequest.api_key] = only(door)
                while not await client.refresh():
                    await client.pause_after(1)
                assert list(client.cluster.brokers) == [door.id]
                assert loop.time() - began >= trigger_ms / 1000

    run(main)


# ---- metadata


def test_metadata_is_requested_again_once_it_is_too_old() -> None:
    async def main(world: World) -> None:
        async with scripted_brokers(1, world) as [broker]:
            async with await client_in(world, broker.address, metadata_max_age_ms=60_000) as client:
                client.keep_fresh()
                await asyncio.sleep(200)
            # At the start, and after each of three minutes.
            assert len(broker.seen_of(MetadataRequest)) == 4

    run(main)


def test_metadata_that_came_in_the_meantime_is_not_requested_again() -> None:
    async def main(world: World) -> None:
        async with scripted_brokers(1, world) as [broker]:
            async with await client_in(world, broker.address, metadata_max_age_ms=60_000) as client:
                client.keep_fresh()
                await asyncio.sleep(50)
                await client.refresh()
                await asyncio.sleep(50)
            assert len(broker.seen_of(MetadataRequest)) == 2

    run(main)


def test_metadata_is_kept_fresh_after_brokers_were_away() -> None:
    async def main(world: World) -> None:
        async with (
            scripted_brokers(1, world) as [broker],
            await client_in(world, broker.address, metadata_max_age_ms=60_000) as client,
        ):
            client.keep_fresh()
            world.network.cut(broker.address.host)
            await asyncio.sleep(500)
            world.network.heal(broker.address.host)
            seen = len(broker.seen_of(MetadataRequest))
            await asyncio.sleep(120)
            assert len(broker.seen_of(MetadataRequest)) > seen

    run(main)


def test_concurrent_metadata_refreshes_share_one_request() -> None:
    async def main(world: World) -> None:
        async with scripted_brokers(1, world) as [broker], await client_in(world, broker.address) as client:
            seen = len(broker.seen_of(MetadataRequest))
            assert await asyncio.gather(*(client.refresh() for _ in range(20))) == [True] * 20
            assert len(broker.seen_of(MetadataRequest)) == seen + 1

    run(main)


def test_a_cancelled_metadata_waiter_does_not_affect_the_others() -> None:
    async def main(world: World) -> None:
        async with scripted_brokers(1, world) as [broker], await client_in(world, broker.address) as client:
            impatient = asyncio.ensure_future(client.refresh())
            patient = asyncio.ensure_future(client.refresh())
            await asyncio.sleep(0)
            impatient.cancel()
            assert await patient

    run(main)
