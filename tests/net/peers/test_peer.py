"""A peer: connected to when something is sent, versions negotiated, back-off after failures, no request that hangs."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from cordwood.net.peers.exceptions import Disconnected, PeerRefused, Unreachable, UnsupportedByPeer
from cordwood.net.peers.peer import Peer
from cordwood.net.peers.settings import ConnectionSettings
from cordwood.runtime.network import Address
from cordwood.runtime.randomness import SeededRandom
from cordwood.runtime.sockets import SocketNetwork
from cordwood.runtime.tls import ClientTls, ServerTls
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.sim.world import World
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from cordwood.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from cordwood.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.common.scripted_node import Cut, ScriptedNode, scripted_node
from tests.net.certificates import authority

# Nothing is slow or split: what happens is what a test does.
STEADY = NetworkOdds(delay_s=0.001, slow=0.0, split=0.0, late_notice=0.0)


def run(main: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    world = World(1, odds=STEADY, limit_s=3600)
    world.run(main(world))


def peer_in(world: World, address: Address | None, **settings: Any) -> Peer:
    return Peer(world.network.host("here"), ConnectionSettings(**settings), SeededRandom(1), address)


def answered(node: ScriptedNode) -> None:
    node.answers[DescribeClusterRequest.api_key] = lambda request, version: DescribeClusterResponse(cluster_id="c")


def unanswered(node: ScriptedNode) -> None:
    node.answers[DescribeClusterRequest.api_key] = lambda request, version: None


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def test_the_first_request_connects_and_later_ones_use_the_same_connection() -> None:
    async def main(world: World) -> None:
        async with scripted_node(world, "there") as node:
            answered(node)
            peer = peer_in(world, node.address)
            assert node.connections == 0
            responses = await asyncio.gather(*(peer.send(DescribeClusterRequest()) for _ in range(3)))
            assert [response.cluster_id for response in responses] == ["c"] * 3
            assert (await peer.send(DescribeClusterRequest())).cluster_id == "c"
            assert peer.is_connected
            assert node.connections == 1

    run(main)


def test_requests_take_the_newest_version_of_both_sides() -> None:
    async def main(world: World) -> None:
        async with scripted_node(world, "there") as node:
            node.max_versions[FindCoordinatorRequest.api_key] = 4
            node.answers[FindCoordinatorRequest.api_key] = lambda request, version: FindCoordinatorResponse()
            peer = peer_in(world, node.address)
            await peer.send(FindCoordinatorRequest(coordinator_keys=["g"]))
            await peer.send(FindCoordinatorRequest(key="g"), at_most=3)
            assert [version for request, version in node.seen if isinstance(request, FindCoordinatorRequest)] == [4, 3]
            with pytest.raises(UnsupportedByPeer, match="FindCoordinator in versions 0-4, and 5"):
                await peer.send(FindCoordinatorRequest(), at_least=5)

    run(main)


def test_requests_are_in_flight_together_and_leave_in_the_order_of_the_calls() -> None:
    async def main(world: World) -> None:
        async with scripted_node(world, "there") as node:
            node.answers[FindCoordinatorRequest.api_key] = lambda request, version: None
            peer = peer_in(world, node.address)
            tasks = [asyncio.create_task(peer.send(FindCoordinatorRequest(key=str(n)), at_most=3)) for n in range(50)]
            await until(lambda: len(node.seen_of(FindCoordinatorRequest)) == 50)
            assert [request.key for request in node.seen_of(FindCoordinatorRequest)] == [str(n) for n in range(50)]
            await peer.close()
            assert {type(failure) for failure in await asyncio.gather(*tasks, return_exceptions=True)} == {Disconnected}

    run(main)


def test_all_requests_in_flight_fail_at_once_when_the_connection_breaks() -> None:
    async def main(world: World) -> None:
        async with scripted_node(world, "there") as node:
            unanswered(node)
            peer = peer_in(world, node.address)
            tasks = [asyncio.create_task(peer.send(DescribeClusterRequest(), timeout_ms=60_000)) for _ in range(3)]
            await until(lambda: len(node.seen_of(DescribeClusterRequest)) == 3)
            broken_at = world.loop.time()
            world.network.lose_connections("there")
            for failure in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(failure, Disconnected)
            assert world.loop.time() - broken_at <= STEADY.notice_s + 0.01
            answered(node)
            assert (await peer.send(DescribeClusterRequest())).cluster_id == "c"
            assert node.connections == 2

    run(main)


def test_requests_fail_fast_until_the_back_off_is_over_and_the_back_off_doubles() -> None:
    async def main(world: World) -> None:
        world.network.host("there")
        peer = peer_in(world, Address("there", 9092), reconnect_backoff_ms=100, reconnect_backoff_max_ms=1_000)
        for expected_s in (0.1, 0.2, 0.4, 0.8, 1.0, 1.0):
            with pytest.raises(Unreachable, match=r"refused$"):
                await peer.send(DescribeClusterRequest())
            assert expected_s * 0.8 <= peer.backoff_s <= min(1.0, expected_s * 1.2)
            failed_at = world.loop.time()
            with pytest.raises(Unreachable, match="refused; next attempt in "):
                await peer.send(DescribeClusterRequest())
            # Not even a turn of the loop.
            assert world.loop.time() == failed_at
            await asyncio.sleep(peer.backoff_s)
        async with scripted_node(world, "there", 9092) as node:
            answered(node)
            assert (await peer.send(DescribeClusterRequest())).cluster_id == "c"
            assert peer.backoff_s == 0

    run(main)


def test_a_node_that_does_not_answer_in_time_is_disconnected_from() -> None:
    async def main(world: World) -> None:
        async with scripted_node(world, "there") as node:
            unanswered(node)
            peer = peer_in(world, node.address)
            began = world.loop.time()
            with pytest.raises(Disconnected, match="no response"):
                await peer.send(DescribeClusterRequest(), timeout_ms=5_000)
            assert world.loop.time() - began == pytest.approx(5, abs=0.01)
            assert not peer.is_connected

    run(main)


def test_the_time_to_connect_counts_towards_the_timeout() -> None:
    async def main(world: World) -> None:
        world.network.host("there")
        world.network.cut("there")
        peer = peer_in(world, Address("there", 9092))
        began = world.loop.time()
        with pytest.raises(Unreachable, match="within 2 s"):
            await peer.send(DescribeClusterRequest(), timeout_ms=2_000)
        assert world.loop.time() - began == pytest.approx(2, abs=0.01)
        await peer.close()

    run(main)


def test_a_node_that_moves_is_reached_at_its_new_address() -> None:
    async def main(world: World) -> None:
        async with scripted_node(world, "there") as old, scripted_node(world, "elsewhere") as new:
            unanswered(old)
            answered(new)
            peer = peer_in(world, old.address)
            waiting = asyncio.create_task(peer.send(DescribeClusterRequest()))
            await until(lambda: len(old.seen_of(DescribeClusterRequest)) == 1)
            peer.move(new.address)
            with pytest.raises(Disconnected):
                await waiting
            assert (await peer.send(DescribeClusterRequest())).cluster_id == "c"
            # The same address again changes nothing.
            peer.move(new.address)
            assert peer.is_connected
            peer.move(None)
            with pytest.raises(Unreachable, match="not known"):
                await peer.send(DescribeClusterRequest())

    run(main)


@pytest.mark.parametrize("end", ["move", "close"])
def test_a_request_that_waits_for_a_connection_fails_when_the_attempt_is_given_up(end: str) -> None:
    async def main(world: World) -> None:
        world.network.host("there")
        world.network.cut("there")
        peer = peer_in(world, Address("there", 9092))
        waiting = asyncio.create_task(peer.send(DescribeClusterRequest()))
        await asyncio.sleep(0.1)
        if end == "move":
            peer.move(Address("elsewhere", 9092))
        else:
            await peer.close()
        with pytest.raises(Unreachable, match="given up"):
            await waiting
        if end == "close":
            with pytest.raises(Unreachable, match="was closed"):
                await peer.send(DescribeClusterRequest())

    run(main)


def test_a_caller_that_is_cancelled_stays_cancelled_and_disturbs_no_other() -> None:
    async def main(world: World) -> None:
        async with scripted_node(world, "there") as node:
            answered(node)
            peer = peer_in(world, node.address)
            cancelled = asyncio.create_task(peer.send(DescribeClusterRequest()))
            other = asyncio.create_task(peer.send(DescribeClusterRequest()))
            await asyncio.sleep(0)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            assert (await other).cluster_id == "c"

    run(main)


def test_a_throttled_request_holds_the_next_ones_back() -> None:
    """KIP-219."""

    async def main(world: World) -> None:
        async with scripted_node(world, "there") as node:
            node.answers[DescribeClusterRequest.api_key] = lambda request, version: DescribeClusterResponse(
                throttle_time_ms=5_000
            )
            peer = peer_in(world, node.address)
            await peer.send(DescribeClusterRequest())
            throttled_at = world.loop.time()
            with pytest.raises(Unreachable, match="within 1 s"):
                await peer.send(DescribeClusterRequest(), timeout_ms=1_000)
            await peer.send(DescribeClusterRequest())
            assert world.loop.time() - throttled_at >= 5

    run(main)


def test_a_request_that_is_held_back_fails_at_once_when_the_connection_breaks() -> None:
    async def main(world: World) -> None:
        async with scripted_node(world, "there") as node:
            node.answers[DescribeClusterRequest.api_key] = lambda request, version: DescribeClusterResponse(
                throttle_time_ms=20_000
            )
            peer = peer_in(world, node.address)
            await peer.send(DescribeClusterRequest())
            held_back = asyncio.create_task(peer.send(DescribeClusterRequest()))
            await asyncio.sleep(1)
            broken_at = world.loop.time()
            world.network.lose_connections("there")
            with pytest.raises(Disconnected):
                await held_back
            assert world.loop.time() - broken_at <= STEADY.notice_s + 0.01

    run(main)


def test_a_node_that_hangs_up_or_refuses_instead_of_telling_its_versions_is_backed_off_from() -> None:
    async def main(world: World) -> None:
        async with scripted_node(world, "there") as node:

            def hangs_up(request: ApiVersionsRequest, version: int) -> None:
                raise Cut

            node.answers[ApiVersionsRequest.api_key] = hangs_up
            peer = peer_in(world, node.address)
            with pytest.raises(Unreachable, match="does not answer as a Kafka broker"):
                await peer.send(DescribeClusterRequest())
            assert peer.backoff_s > 0
            await asyncio.sleep(peer.backoff_s)
            node.answers[ApiVersionsRequest.api_key] = lambda request, version: ApiVersionsResponse(
                error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            )
            with pytest.raises(PeerRefused, match="CLUSTER_AUTHORIZATION_FAILED"):
                await peer.send(DescribeClusterRequest())
            assert peer.backoff_s > 0

    run(main)


def test_a_peer_speaks_tls_where_its_settings_request_it(tmp_path: Path) -> None:
    ours = authority(tmp_path, "our-authority")

    async def main() -> None:
        async with scripted_node(None, tls=ServerTls(ours.issue("node"))) as node:
            answered(node)
            tls = ClientTls(ours.ca_file)
            peer = Peer(SocketNetwork(), ConnectionSettings(tls=tls), SeededRandom(1), node.address)
            assert (await peer.send(DescribeClusterRequest())).cluster_id == "c"
            await peer.close()
            plain = Peer(SocketNetwork(), ConnectionSettings(), SeededRandom(1), node.address)
            with pytest.raises(Unreachable, match="TLS listener"):
                await plain.send(DescribeClusterRequest())
            await plain.close()

    asyncio.run(main())
