"""The fetcher's timer on uvloop, whose handles differ from asyncio's where a time has passed already."""

from __future__ import annotations

import asyncio

import uvloop

from cordwood.broker.lost_leaders import LostLeaders
from cordwood.net.peers.peer import Peer
from cordwood.net.peers.settings import ConnectionSettings
from cordwood.replica.fetcher import Fetcher, FetcherSettings
from cordwood.replica.throttle import ReplicationThrottle
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.randomness import SeededRandom
from cordwood.runtime.sockets import SocketNetwork

LEADER = 2


def test_a_timer_that_is_over_as_soon_as_it_is_set_can_be_set_again() -> None:
    """As when the process has not run for some milliseconds in between."""

    async def test() -> None:
        clock = SystemClock()
        random = SeededRandom(1)
        network = SocketNetwork()
        fetcher = Fetcher(
            LEADER,
            FetcherSettings(1, 500, 1, 1 << 20, 10 << 20, 30_000),
            lambda: 0,
            lambda: Peer(network, ConnectionSettings(client_id="fetcher"), random),
            clock,
            ReplicationThrottle(clock, 1 << 40),
            lambda error: None,
            LostLeaders(),
        )
        fetcher._wake(-1.0)
        fetcher._wake(-1.0)
        fetcher._wake()
        await fetcher.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test())
