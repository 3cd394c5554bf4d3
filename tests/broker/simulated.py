"""A node in virtual time: waiting costs nothing, and how long something took can be told exactly."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from in_process import InProcessNode

from cordwood.sim.connection import NetworkOdds
from cordwood.sim.machine import Machine
from cordwood.sim.world import World

# A network on which nothing is slow or lost.
_ODDS = NetworkOdds(delay_s=0.001, slow=0.0, split=0.0)
# In virtual time: more than anything may take that is not to wait.
AT_ONCE_S = 0.1
# Virtual time that no test takes unless it waits for what never comes.
_LIMIT_S = 10_000.0


class SimulatedNode(InProcessNode):
    def __init__(self, world: World, machine: Machine) -> None:
        assert machine.node is not None
        super().__init__(machine.node, world.network.host("client"))
        self.world = world
        self.machine = machine

    def time(self) -> float:
        return self.world.loop.time()


def simulate(test: Callable[[SimulatedNode], Awaitable[None]], **settings: str) -> None:
    """Settings by their names, with underscores for dots."""
    world = World(1, odds=_ODDS, limit_s=_LIMIT_S)
    said = {name.replace("_", "."): value for name, value in settings.items()}
    machine = Machine(world, "broker", said)

    async def main() -> None:
        assert await machine.start()
        await test(SimulatedNode(world, machine))

    world.run(main())
