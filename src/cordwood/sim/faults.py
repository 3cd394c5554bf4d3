"""Faults of the node and its network during a workload."""

import asyncio
import errno
from random import Random

from cordwood.sim.clients.client import Run
from cordwood.sim.histories.history import Promise

_MAX_QUIET_S = 3.0
_MAX_DOWN_S = 1.0
_MAX_CUT_S = 2.0
_MAX_STEPS = 60
_DISK_OPERATIONS = ("append to", "create", "sync", "rename", "write", "read", "truncate", "open", "list")
_DISK_ERRORS = (errno.EIO, errno.ENOSPC)


class Faults:
    """Injects faults, and restarts the node, until the run is over."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._machine = run.machine
        self._network = run.world.network
        self._source: Random = run.world.random("faults")
        self._power_may_go = run.history.promise is not Promise.KILLS

    async def work(self) -> None:
        while not self._run.is_over:
            if not self._machine.is_up:
                await self._pause(_MAX_DOWN_S)
                self._prepare_start()
                await self._machine.start()
                continue
            await self._pause(_MAX_QUIET_S)
            await self._befall()

    async def _befall(self) -> None:
        machine, source = self._machine, self._source
        match source.randrange(12):
            case 0 | 1 | 2:
                self._end()
            case 3 | 4 | 5:
                self._crash_soon()
            case 6:
                await machine.stop()
            case 7 | 8:
                self._network.lose_connections(machine.name)
            case 9:
                self._network.cut(machine.name)
                await self._pause(_MAX_CUT_S)
                self._network.heal(machine.name)
            case _:
                disk = source.choice(list(machine.disks.values()))
                disk.fail_next(source.choice(_DISK_OPERATIONS), source.choice(_DISK_ERRORS), after=source.randrange(20))
                # The node is started again, whether the fault was noticed or not.
                await self._pause(_MAX_QUIET_S)
                self._end()

    def _end(self) -> None:
        if self._power_may_go and self._source.random() < 0.6:
            self._machine.lose_power()
        else:
            self._machine.kill()

    def _crash_soon(self) -> None:
        root = self._source.choice(list(self._machine.disks))
        self._machine.crash_at_step(
            root,
            self._source.randint(1, _MAX_STEPS),
            power_lost=self._power_may_go and self._source.random() < 0.6,
        )

    def _prepare_start(self) -> None:
        """A start may crash as well."""
        if self._source.random() < 0.3:
            self._crash_soon()

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(self._source.random() * seconds)
