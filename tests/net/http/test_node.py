"""The pages of a whole node, in the simulator: its listener for monitors is one like any other."""

import asyncio
import json

from cordwood.console.metrics_server import MetricsServer
from cordwood.runtime.network import Address
from cordwood.sim.machine import Machine
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.sim.world import World
from tests.net.http_peer import Answer, Peer


def test_a_simulated_node_is_monitored_over_a_network_that_cuts_and_delays() -> None:
    world = World(3, odds=NetworkOdds(split=0.5, slow=0.3), limit_s=3600)

    async def main() -> None:
        server = await MetricsServer.listen(world.network.host("broker"), world.clock, "broker", 9644)
        machine = Machine(world, "broker", {}, measures=server.measures)
        peer = await Peer.connect(world.network.host("monitor"), Address("broker", 9644))

        async def ask(path: str) -> Answer:
            peer.send(f"GET {path} HTTP/1.1\r\nHost: broker\r\n\r\n".encode())
            return await peer.answer()

        assert (await ask("/ready")).status == 503
        assert await machine.start()
        assert machine.node is not None
        server.show(machine.node)
        assert json.loads((await ask("/ready")).body) == {"ready": True, "problems": []}
        await asyncio.sleep(100)
        # The monitor's host is cut off for a while; what it asked for arrives when the network is whole again.
        world.network.cut("monitor")
        asking = asyncio.create_task(ask("/metrics"))
        await asyncio.sleep(5)
        assert not asking.done()
        world.network.heal("monitor")
        page = await asking
        assert page.status == 200
        assert b"\ncordwood_partitions_led 0\n" in page.body
        await server.stop()

    world.run(main())
