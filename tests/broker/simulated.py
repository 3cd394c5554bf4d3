"""A node in virtual time: waiting costs nothing, and durations are exact."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from cordwood.console.request_metrics import RequestMetrics
from cordwood.sim.machine import Machine
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.sim.world import World
from tests.broker.in_process import InProcessNode

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
    _simulate(test, World(1, odds=_ODDS, limit_s=_LIMIT_S), None, settings)


def simulate_measured(test: Callable[[SimulatedNode, RequestMetrics], Awaitable[None]], **settings: str) -> None:
    """As `simulate`, with a node that measures its requests."""
    world = World(1, odds=_ODDS, limit_s=_LIMIT_S)
    requests = RequestMetrics(world.clock.monotonic)
    _simulate(lambda node: test(node, requests), world, requests, settings)


def _simulate(
    test: Callable[[SimulatedNode], Awaitable[None]],
    world: World,
    measures: RequestMetrics | None,
    settings: Mapping[str, str],
) -> None:
    said = {name.replace("_", "."): value for name, value in settings.items()}
    machine = Machine(world, "broker", said, measures=measures)

    async def main() -> None:
        assert await machine.start()
        await test(SimulatedNode(world, machine))

    world.run(main())
