"""A simulated computer with a node on it, which is started, killed, loses power, is stopped, and started again.

machine = Machine(world, "broker", settings={"log.flush.interval.messages": "1"})
await machine.start()
machine.kill()                   # the process: its writes are in the page cache machine.lose_power()             #
unsynced data is lost, or torn machine.pause()                  # suspended until `resume`, as after SIGSTOP
await machine.stop()             # in order
"""

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from cordwood.broker.start.consent import StartConsent
from cordwood.broker.start.standalone import standalone_config
from cordwood.config.broker import BrokerConfig
from cordwood.config.layers import Layer
from cordwood.metadata.storage.disk_log import METADATA_DIRECTORY
from cordwood.net.measures import Measures
from cordwood.node import CannotStart, Node
from cordwood.quorum.member import Member
from cordwood.runtime.disk import DiskError
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.virtual.clock import SimClock
from cordwood.sim.virtual.disk import SimDisk
from cordwood.sim.virtual.file_system import CrashOdds
from cordwood.sim.virtual.process import Process

from .world import World

PORT = 9092
# Many torn writes, since recovery must detect them.
_ODDS = CrashOdds(nothing=0.15, everything=0.2, torn=0.8, zeros=0.25, garbage=0.25)


@dataclass(frozen=True, slots=True)
class End:
    """The end of an incarnation of the node."""

    incarnation: int
    power_lost: bool


class QuorumWatcher(Protocol):
    """An observer of a node's member of the metadata quorum."""

    def member_starts(self, machine: "Machine", member: Member) -> None: ...

    def metadata_written(self, machine: "Machine") -> None:
        """The metadata log is about to be appended to: the member's earlier state must be on disk."""


class Machine:
    """`incarnation` counts the starts of the node; that of the running node, or of the last one."""

    def __init__(
        self,
        world: World,
        name: str,
        settings: Mapping[str, str],
        roots: tuple[str, ...] = ("/data",),
        *,
        config: BrokerConfig | None = None,
        measures: Measures | None = None,
    ) -> None:
        """The node is standalone, with `settings`, unless `config` makes it a member of a cluster."""
        self.name = name
        self.measures = measures
        self.clock = SimClock(world.loop)
        self.incarnation = 0
        # For tests: the node that was started last.
        self.node: Node | None = None
        # The quorum member of the running or starting node: it participates before the node has started.
        self.member: Member | None = None
        self.watcher: QuorumWatcher | None = None
        # How long a sync takes at the most, in a thread; 0 for no time.
        self.sync_s = 0.0
        # Whether the node that runs takes requests.
        self.is_started = False
        self.ends: list[End] = []
        # Consent for the next start; and the reason if the last one was refused.
        self.consent = StartConsent()
        self.refusal: str | None = None
        self.disks: dict[str, SimDisk] = {}
        self._world = world
        self._source: Random = world.random(name)
        self.config = config or standalone_config(
            Layer("the simulation", {**settings, "log.dirs": ",".join(roots)}), host=name, port=PORT
        )
        self._process: Process | None = None
        self._stop_asked_for = asyncio.Event()
        # The kind of crash to inject at a step of a disk.
        self._crash_loses_power = True
        for root in roots:
            self.disks[root] = SimDisk(
                world.random(f"{name}{root}"), root=root, odds=_ODDS, now_ms=self.clock.now_ms, watcher=self
            )

    @property
    def is_up(self) -> bool:
        """True if a node runs or is starting."""
        return self._process is not None and self._process.alive

    @property
    def is_stopping(self) -> bool:
        """True while a stopping node finishes its work."""
        return self.is_up and self._stop_asked_for.is_set()

    def start(self) -> "asyncio.Future[bool]":
        """Starts the node at once, and returns whether it runs; if not, it has crashed, or a disk has failed."""
        assert not self.is_up, "one node on a machine"
        self.incarnation += 1
        self._world.trace.note("start", self.name, self.incarnation)
        self._stop_asked_for = asyncio.Event()
        process = self._process = self._world.process(f"{self.name}/{self.incarnation}")
        started: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        process.when_killed(lambda: None if started.done() else started.set_result(False))
        process.start(self._run(process, started))
        return started

    async def _run(self, process: Process, started: "asyncio.Future[bool]") -> None:
        self.refusal = None
        try:
            node = self.node = await Node.start(
                self.config,
                network=self._world.network.host(self.name),
                clock=self.clock,
                random=SeededRandom(self._source.getrandbits(63)),
                open_disk=self.disks.__getitem__,
                consent=self.consent,
                watch_quorum=self._watch_quorum,
                measures=self.measures,
            )
        except (DiskError, CannotStart) as error:
            self.refusal = str(error)
            self._world.trace.note("failed", self.name, str(error))
            self.kill()
            return
        except Exception as error:  # noqa: BLE001 - the caller gets any error
            if not started.done():
                started.set_exception(error)
            self.kill()
            return
        self.is_started = True
        self._world.trace.note("started", self.name)
        if not started.done():
            started.set_result(True)
        await _first_of(node.stopped.wait(), self._stop_asked_for.wait())
        if node.failure is not None:
            self._world.trace.note("failed", self.name, str(node.failure))
        await node.stop()
        self.kill()

    async def stop(self) -> None:
        """In order, as far as it comes."""
        process = self._process
        if process is None or not process.alive:
            return
        self._world.trace.note("stop", self.name, self.incarnation)
        ended = asyncio.Event()
        process.when_killed(ended.set)
        self._stop_asked_for.set()
        await ended.wait()

    def kill(self) -> None:
        self._end(power_lost=False)

    def lose_power(self) -> None:
        self._end(power_lost=True)

    def pause(self) -> None:
        if self.is_up:
            assert self._process is not None
            self._world.trace.note("pause", self.name)
            self._process.pause()

    def resume(self) -> None:
        if self.is_up:
            assert self._process is not None
            self._world.trace.note("resume", self.name)
            self._process.resume()

    def crash_at_step(self, root: str, steps: int, *, power_lost: bool) -> None:
        """Crashes in the middle of a disk operation, this many steps from now."""
        self._crash_loses_power = power_lost
        disk = self.disks[root]
        disk.crash_at(disk.steps + steps)

    def replace_disk(self, root: str) -> SimDisk:
        """While it is down: an empty one replaces it."""
        assert not self.is_up
        disk = self.disks[root] = SimDisk(
            self._world.random(f"{self.name}{root}/{self.incarnation}"),
            root=root,
            odds=_ODDS,
            now_ms=self.clock.now_ms,
            watcher=self,
        )
        return disk

    def repair(self) -> None:
        """While it is down: cancels pending faults of its disks."""
        assert not self.is_up
        self.disks = {root: disk.restart(power_lost=False) for root, disk in self.disks.items()}

    def _end(self, power_lost: bool) -> None:
        if not self.is_up:
            return
        assert self._process is not None
        self._world.trace.note("power-off" if power_lost else "kill", self.name, self.incarnation)
        self.ends.append(End(self.incarnation, power_lost))
        self._process.kill()
        self.member = None
        self.is_started = False
        for root, disk in self.disks.items():
            self.disks[root] = disk.restart(power_lost=power_lost)

    def _watch_quorum(self, member: Member) -> None:
        self.member = member
        if self.watcher is not None:
            self.watcher.member_starts(self, member)

    # ---- called by its disks (DiskWatcher)

    def disk_stepped(self, root: str, operation: str, path: str) -> None:
        self._world.trace.note("disk", operation, f"{root}/{path}")
        if self.watcher is not None and operation == "append to" and path.startswith(METADATA_DIRECTORY):
            self.watcher.metadata_written(self)
        if self.sync_s and operation == "sync" and self._world.loop.is_in_job:
            self._world.loop.sleep_in_job(self._source.random() * self.sync_s)

    def disk_crashed(self, root: str) -> None:
        self._end(self._crash_loses_power)


async def _first_of(*waits: Coroutine[Any, Any, Any]) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
