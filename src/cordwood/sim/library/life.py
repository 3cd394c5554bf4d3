"""The lives of a process with a library client in it: it works, is killed in the middle of anything, and comes back."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

from cordwood.client.consumer.consumer import Consumer
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import CannotReachCluster
from cordwood.client.producer.producer import Producer
from cordwood.client.producer.settings import ProducerSettings
from cordwood.runtime.network import Address, Network
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.clients.client import Client, Run
from cordwood.sim.machine import PORT
from cordwood.sim.virtual.process import Process

S = TypeVar("S", Consumer, Producer)

_KILLED = 0.4
_MAX_LIFE_S = 8.0
_MAX_AWAY_S = 1.0
_LOOK_S = 0.25
_BACKOFF_S = 0.3


class LibraryClient(Client, ABC):
    """A client's life: name and random source are its own, connections are the library's."""

    def __init__(self, run: Run, name: str) -> None:
        super().__init__(run, name)
        self.lives = 0
        # It lives on for as long as the run does.
        self.is_calm = False
        self._process: Process | None = None

    @abstractmethod
    async def live(self) -> None:
        """Runs one life in its own process. It ends when the run is over."""

    def died(self) -> None:
        """Its process has ended or was killed."""

    async def work(self) -> None:
        while not self.run.is_over:
            self.lives += 1
            await self._live_once()
            await self.pause(_MAX_AWAY_S)

    async def _live_once(self) -> None:
        process = self._process = self.run.world.process(f"{self.name}/{self.lives}")
        ended = asyncio.get_running_loop().create_future()
        process.when_killed(lambda: ended.set_result(None))
        # Not before it begins, and sometimes during its work.
        is_killed = not self.is_calm and self.chance(_KILLED)
        deadline_s = self.run.now_s + self.source.random() * _MAX_LIFE_S if is_killed else float("inf")
        process.start(self._run(process))
        while not ended.done() and self.run.now_s < deadline_s and not self.run.is_over:
            await asyncio.wait([ended], timeout=min(_LOOK_S, deadline_s - self.run.now_s))
        process.kill()
        self.died()

    async def _run(self, process: Process) -> None:
        try:
            await self.live()
        except Exception as error:  # noqa: BLE001  # any error is a finding of the seed
            if process.alive:
                self.complain(f"{type(error).__name__}: {error}")
        process.kill()

    def kill(self) -> None:
        """From within: nothing that it does after this has any effect."""
        assert self._process is not None
        self._process.kill()

    def complain(self, what: str) -> None:
        self.run.world.trace.note("failed", self.name, what)
        self.run.history.client_failures.append(f"{self.name}: {what}")

    # ---- shared helpers

    @property
    def bootstrap(self) -> list[Address]:
        cluster = self.run.cluster
        machines = [self.run.machine] if cluster is None else cluster.brokers.values()
        return [Address(machine.name, PORT) for machine in machines]

    def random(self) -> SeededRandom:
        return SeededRandom(self.source.getrandbits(63))

    def network_settings(self) -> dict[str, Any]:
        """Timeouts that suit the simulated faults."""
        return {
            "request_timeout_ms": self.source.choice((700, 2_000)),
            "default_api_timeout_ms": 3_000,
            "socket_connection_setup_timeout_ms": 1_000,
            "retry_backoff_ms": self.source.choice((10, 100)),
            "retry_backoff_max_ms": 300,
            "reconnect_backoff_max_ms": 500,
            "metadata_max_age_ms": self.source.choice((1_000, 5_000)),
        }

    async def started_consumer(self, settings: ConsumerSettings, network: Network) -> Consumer:
        return await self._started(
            lambda: Consumer(
                settings=settings,
                network=network,
                bootstrap=self.bootstrap,
                clock=self.run.world.clock,
                random=self.random(),
            )
        )

    async def started_producer(self, settings: ProducerSettings, network: Network) -> Producer:
        return await self._started(
            lambda: Producer(
                settings, self.bootstrap, network=network, clock=self.run.world.clock, random=self.random()
            )
        )

    async def _started(self, make: Callable[[], S]) -> S:
        """A client of the library; at its start a client gives up, so it is created again until a node answers."""
        while True:
            made = make()
            try:
                await made.start()
                return made
            except CannotReachCluster:
                await self.pause(_BACKOFF_S)
