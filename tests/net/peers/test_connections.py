"""Connections by their addresses: closed when they stand idle, opened again when they are needed."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from cordwood.net.peers.connection import PeerConnection
from cordwood.net.peers.connections import Connections
from cordwood.net.peers.exceptions import Disconnected, Unreachable
from cordwood.net.peers.settings import ConnectionSettings
from cordwood.runtime.network import Address
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.world import World
from cordwood.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tests.common.scripted_node import scripted_node


def run(main: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    world = World(1)
    world.run(main(world))


def connections_in(world: World, **settings: Any) -> Connections[PeerConnection]:
    return Connections(PeerConnection, world.network.host("here"), ConnectionSettings(**settings), SeededRandom(1))


def test_an_idle_connection_is_closed_and_opened_again_when_it_is_needed() -> None:
    async def main(world: World) -> None:
        async with scripted_node(world, "there") as node:
            connections = connections_in(world, connections_max_idle_ms=60_000)
            await connections.to(node.address)
            await asyncio.sleep(59)
            assert connections.opened(node.address) is not None
            await asyncio.sleep(2)
            assert connections.opened(node.address) is None
            await connections.to(node.address)
            assert node.connections == 2

    run(main)


def test_a_connection_in_use_is_not_idle() -> None:
    async def main(world: World) -> None:
        async with scripted_node(world, "there") as node:
            node.answers[DescribeClusterRequest.api_key] = lambda request, version: DescribeClusterResponse()
            connections = connections_in(world, connections_max_idle_ms=60_000)
            for _ in range(10):
                await (await connections.to(node.address)).ask(DescribeClusterRequest())
                await asyncio.sleep(50)
            assert node.connections == 1

    run(main)


def test_a_connection_with_a_request_in_flight_is_not_idle() -> None:
    async def main(world: World) -> None:
        async with scripted_node(world, "there") as node:
            node.answers[DescribeClusterRequest.api_key] = lambda request, version: None
            connections = connections_in(world, connections_max_idle_ms=10_000)
            connection = await connections.to(node.address)
            with pytest.raises(Disconnected, match="no response"):
                await connection.ask(DescribeClusterRequest(), timeout_ms=50_000)

    run(main)


def test_a_negative_idle_time_closes_nothing() -> None:
    async def main(world: World) -> None:
        async with scripted_node(world, "there") as node:
            connections = connections_in(world, connections_max_idle_ms=-1)
            await connections.to(node.address)
            # Longer than by default; the node itself closes idle connections after ten minutes.
            await asyncio.sleep(580)
            assert connections.opened(node.address) is not None

    run(main)


def test_a_node_that_times_out_is_reconnected() -> None:
    async def main(world: World) -> None:
        async with scripted_node(world, "there") as node:
            node.answers[DescribeClusterRequest.api_key] = lambda request, version: None
            connections = connections_in(world)
            hangs = await connections.to(node.address)
            with pytest.raises(Disconnected, match="no response"):
                await hangs.ask(DescribeClusterRequest())
            assert hangs.is_lost
            assert await connections.to(node.address) is not hangs
            assert node.connections == 2

    run(main)


def test_a_connection_may_take_longer_to_be_made_after_each_failure() -> None:
    """KIP-601: twice as long, up to the greatest, each scattered by a fifth."""

    async def main(world: World) -> None:
        connections = connections_in(
            world, socket_connection_setup_timeout_ms=10_000, socket_connection_setup_timeout_max_ms=30_000
        )
        world.network.host("there")
        world.network.cut("there")
        loop = asyncio.get_running_loop()
        took_s = []
        for _ in range(4):
            began = loop.time()
            with pytest.raises(Unreachable, match="no connection within"):
                await connections.to(Address("there", 9092))
            took_s.append(loop.time() - began)
        # The pauses between the tries, a second at most, are in it.
        for took, expected in zip(took_s, [10, 20, 30, 30], strict=True):
            assert expected * 0.8 <= took <= expected * 1.2 + 1

    run(main)
