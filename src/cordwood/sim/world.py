"""Everything that one seed decides: time, the network, the threads, the disks, and a workload's choices.

world = World(seed)
result = world.run(main(world))
world.trace.digest
"""

import random
from collections.abc import Coroutine
from typing import Any, TypeVar

from cordwood.sim.virtual.clock import SimClock
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.sim.virtual.loop import SimLoop
from cordwood.sim.virtual.network import SimNetwork
from cordwood.sim.virtual.process import Process

from .trace import Trace

T = TypeVar("T")


class UnhandledErrors(Exception):
    """Callbacks or tasks failed without being handled."""


class World:
    def __init__(
        self, seed: int, *, odds: NetworkOdds | None = None, limit_s: float = float("inf"), pauses: bool = False
    ) -> None:
        """See `SimLoop`."""
        self.seed = seed
        self.trace = Trace()
        self.loop = SimLoop(
            self.random("threads"), self.trace, limit_s=limit_s, pauses=self.random("pauses") if pauses else None
        )
        self.clock = SimClock(self.loop)
        self.network = SimNetwork(self.loop, self.random("network"), self.trace, odds)
        self._processes: list[Process] = []

    def random(self, name: str) -> random.Random:
        """A separate source for each purpose, so that an extra draw for one doesn't change the others."""
        return random.Random(f"{self.seed}/{name}")

    def process(self, name: str) -> Process:
        process = Process(name, self.loop)
        self._processes.append(process)
        return process

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Remaining tasks end with `main`."""
        try:
            result = self.loop.run_until_complete(self.process("main").start(main))
        finally:
            for process in self._processes:
                process.kill()
                process.bury()
            self.loop.close()
        if self.loop.unhandled:
            message, error = self.loop.unhandled[0]
            raise UnhandledErrors(f"{len(self.loop.unhandled)} times, first: {message}: {error!r}") from error
        return result
