"""Faults of a cluster's nodes and network during a workload."""

import asyncio
import errno
from collections.abc import Awaitable
from random import Random
from typing import Any

from cordwood.sim.clients.client import Run
from cordwood.sim.histories.history import Promise
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.sim.watches.partition_watch import PartitionWatch

from .cluster import CONTROLLER_PORT
from .machine import PORT, Machine

_MAX_DOWN_S = 2.0
_MAX_CUT_S = 6.0
_MAX_PAUSE_S = 6.0
_MAX_STEPS = 150
_LOOK_S = 0.5
_MAX_STOP_S = 4.0
_MAX_FULL_S = 4.0
_DISK_OPERATIONS = ("append to", "create", "sync", "rename", "write", "read", "truncate", "open", "list")
_DISK_ERRORS = (errno.EIO, errno.ENOSPC)
_MAX_CLOCK_JUMP_MS = 20_000


class ClusterFaults:
    """Injects faults, and restarts nodes, until the run is over; `heal` then ends all faults.

    With `partitions` brokers lose data too: their disks are wiped, or lose unsynced data in a power loss. One at a
    time: another replica of each partition keeps all committed records, and until the broker is back no other one stops
    uncleanly. As in Kafka, a broker that stops uncleanly counts as one that has lost data.
    """

    def __init__(self, run: Run, partitions: PartitionWatch | None = None) -> None:
        assert run.cluster is not None
        self._run = run
        self._cluster = run.cluster
        self._partitions = partitions
        self._brokers = {machine.name for machine in run.cluster.brokers.values()}
        self._node_ids = {machine.name: node_id for node_id, machine in run.cluster.machines.items()}
        self._machines = list(run.cluster.machines.values())
        self._network = run.world.network
        self._source: Random = run.world.random("faults")
        # Some runs are quieter than others.
        self._max_quiet_s = self._source.choice((3.0, 8.0, 20.0)) * len(self._machines) / 4
        # Replicated records that aren't flushed are lost if all replicas lose power.
        self._power_may_go = run.history.promise is not Promise.REPLICATED and self._source.random() < 0.7
        # One after the other.
        self.disks_may_go = partitions is not None and self._source.random() < 0.5
        run.history.replicas.disks_may_go = self.disks_may_go
        self._begun: list[asyncio.Future[Any]] = []

    async def work(self) -> None:
        await asyncio.gather(
            *map(self._supervise, self._machines), *map(self._trouble, self._machines), self._trouble_network()
        )

    async def heal(self) -> None:
        """Ends all faults; all nodes run, or are starting."""
        self._run.world.trace.note("healed")
        self._network.odds = NetworkOdds()
        self._network.unblock()
        for machine in self._machines:
            self._network.heal(machine.name)
            machine.resume()
            machine.sync_s = 0.0
            for disk in machine.disks.values():
                disk.clear_faults()
            if any(disk.failure is not None for disk in machine.disks.values()):
                machine.kill()
            if not machine.is_up:
                self._begin(machine.start())

    def start_again(self, machine: Machine) -> None:
        """As a supervisor does."""
        machine.repair()
        self._begin(machine.start())

    # A node

    async def _supervise(self, machine: Machine) -> None:
        while not self._run.is_over:
            if not machine.is_up:
                if self._source.random() < 0.2:
                    self._crash_soon(machine)
                self._begin(machine.start())
            await self._pause(_MAX_DOWN_S)

    async def _trouble(self, machine: Machine) -> None:
        while not self._run.is_over:
            await self._pause(self._max_quiet_s)
            if machine.is_up and not self._run.is_over:
                await self._befall(machine)

    async def _befall(self, machine: Machine) -> None:
        source, name = self._source, machine.name
        match source.randrange(18):
            case 0 | 1 | 2:
                self._end(machine)
            case 3 | 4:
                self._crash_soon(machine)
            case 5 | 6:
                await self._stop(machine, source.random() * _MAX_STOP_S)
            case 7:
                self._network.lose_connections(name)
            case 8 | 9:
                self._network.cut(name)
                await self._pause(_MAX_CUT_S)
                self._network.heal(name)
            case 10 | 11 | 12:
                machine.pause()
                await self._pause(_MAX_PAUSE_S)
                machine.resume()
            case 13:
                jump_ms = source.randint(-_MAX_CLOCK_JUMP_MS, _MAX_CLOCK_JUMP_MS)
                self._run.world.trace.note("clock", name, f"{jump_ms:+d} ms")
                machine.clock.set_back(-jump_ms)
            case 14:
                machine.sync_s = source.choice((0.0, 0.3, 2.0))
                self._run.world.trace.note("slow-disk", name, f"up to {machine.sync_s} s")
            case 15 if self._may_end(machine):
                disk = source.choice(list(machine.disks.values()))
                operation = source.choice(_DISK_OPERATIONS)
                self._run.world.trace.note("disk-fault", name, operation)
                disk.fail_next(operation, source.choice(_DISK_ERRORS), after=source.randrange(20))
                # The node is started again, whether the fault was noticed or not.
                await self._pause(self._max_quiet_s)
                self._end(machine)
            case 16 if self._may_end(machine):
                await self._fill(machine)
            case 17:
                self._wipe(machine)

    def _may_end(self, machine: Machine) -> bool:
        """Returns whether a node may stop uncleanly: not while another broker has yet to recover lost data."""
        if self._partitions is None:
            return True
        return self._partitions.lossy_nodes <= {self._node_ids[machine.name]}

    def _may_lose_data(self, machine: Machine) -> bool:
        if not self.disks_may_go or self._partitions is None or not self._may_end(machine):
            return False
        if any(self._will_crash(other) for other in self._machines):
            return False
        alive = {self._node_ids[other.name] for other in self._machines if other.is_started}
        return self._partitions.is_spared(self._node_ids[machine.name], alive)

    def _will_crash(self, machine: Machine) -> bool:
        return any(disk.has_fault_to_come or disk.failure is not None for disk in machine.disks.values())

    def _end(self, machine: Machine) -> None:
        if not self._may_end(machine):
            return
        if self._power_may_go and self._source.random() < 0.6:
            machine.lose_power()
        elif not (self._source.random() < 0.6 and self.lose_what_is_not_synced(machine)):
            machine.kill()

    def lose_what_is_not_synced(self, machine: Machine) -> bool:
        """Cuts its power, if other replicas have the data that is lost. Returns whether it did."""
        if not self._may_lose_data(machine):
            return False
        self._note_loss(machine)
        machine.lose_power()
        return True

    def _wipe(self, machine: Machine) -> None:
        """Deletes all its partitions."""
        if machine.name not in self._brokers or not self._may_lose_data(machine):
            return
        self._note_loss(machine)
        machine.kill()
        self._run.world.trace.note("wipe", machine.name)
        self._cluster.wipe(self._node_ids[machine.name])

    def _note_loss(self, machine: Machine) -> None:
        assert self._partitions is not None
        self._partitions.loses_data(self._node_ids[machine.name])

    async def _fill(self, machine: Machine) -> None:
        """Fills its disks until they are freed."""
        self._run.world.trace.note("disk-full", machine.name)
        for disk in machine.disks.values():
            disk.fill()
        await self._pause(_MAX_FULL_S)
        self._run.world.trace.note("disk-freed", machine.name)
        for disk in machine.disks.values():
            disk.free()
        # It is started again.
        if any(disk.failure is not None for disk in machine.disks.values()):
            machine.kill()

    async def _stop(self, machine: Machine, patience_s: float) -> None:
        """In order; killed when that takes too long."""
        stop = self._begin(machine.stop())
        await asyncio.wait([stop], timeout=patience_s)
        while not stop.done() and not self._may_end(machine) and not self._run.is_over:
            await asyncio.wait([stop], timeout=_LOOK_S)
        if self._may_end(machine):
            machine.kill()

    def _crash_soon(self, machine: Machine) -> None:
        if not self._may_end(machine):
            return
        steps = self._source.randint(1, _MAX_STEPS)
        self._run.world.trace.note("crash-soon", machine.name, f"in {steps} steps of its disk")
        machine.crash_at_step(
            self._source.choice(list(machine.disks)),
            steps,
            power_lost=self._power_may_go and self._source.random() < 0.6,
        )

    # All of them

    async def _trouble_network(self) -> None:
        while not self._run.is_over:
            await self._pause(self._max_quiet_s)
            match self._source.randrange(9):
                case 0:
                    for machine in self._machines:
                        self._end(machine)
                case 8:
                    await self._restart_one_after_the_other()
                case 1 | 2:
                    await self._partition(is_one_way=False)
                case 3 | 4:
                    await self._partition(is_one_way=True)
                case 5 | 6:
                    for _ in range(self._source.randint(2, 6)):
                        await self._partition(is_one_way=self._source.random() < 0.3, at_most_s=1.0)
                        await self._pause(1.0)
                case _:
                    await self._partition(is_one_way=False, port=self._source.choice((PORT, CONTROLLER_PORT)))

    async def _restart_one_after_the_other(self) -> None:
        """Each in order, and the next when the one before is back."""
        self._run.world.trace.note("rolling")
        for machine in self._machines:
            if self._run.is_over:
                return
            await self._stop(machine, _MAX_STOP_S)
            while not machine.is_started and not self._run.is_over:
                await self._pause(_LOOK_S)

    async def _partition(self, *, is_one_way: bool, at_most_s: float = _MAX_CUT_S, port: int | None = None) -> None:
        names = [machine.name for machine in self._machines]
        one_side = set(self._source.sample(names, self._source.randint(1, max(1, len(names) // 2))))
        for name in sorted(one_side):
            for other in names:
                if other not in one_side:
                    self._network.block(name, other, port)
                    if not is_one_way:
                        self._network.block(other, name, port)
        await self._pause(at_most_s)
        self._network.unblock()

    # Helpers

    def _begin(self, work: Awaitable[Any]) -> asyncio.Future[Any]:
        task = asyncio.ensure_future(work)
        for one in [one for one in self._begun if one.done()]:
            # Errors of a start in the background must be reported.
            one.result()
            self._begun.remove(one)
        self._begun.append(task)
        return task

    async def _pause(self, seconds: float) -> None:
        """Sleeps for up to this time, and no longer than the run."""
        until_s = self._run.now_s + self._source.random() * seconds
        while self._run.now_s < until_s and not self._run.is_over:
            await asyncio.sleep(min(_LOOK_S, until_s - self._run.now_s))
