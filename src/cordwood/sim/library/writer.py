"""Writes transactions with the producer of the library; or prepares them, for a ledger outside to decide (KIP-939)."""

from cordwood.client.errors import TransactionAbortable
from cordwood.client.producer.producer import Producer
from cordwood.sim.client import Run

from .life import LibraryClient
from .transactor import Lost, Transactor

_MAX_PAUSE_S = 0.3
_ABORT = 0.2
_MAX_SENDS = 6
_CLOSE = 0.03
_CLOSE_TIMEOUT_S = 1.0
_DEATH_WHEN_PREPARED = 0.3


class LibraryWriter(LibraryClient):
    def __init__(self, run: Run, name: str, transactional_id: str, timeout_ms: int) -> None:
        super().__init__(run, name)
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.transactor = Transactor(self, transactional_id, timeout_ms)

    async def live(self) -> None:
        producer = await self.start()
        try:
            await self.initialize(producer)
            while not self.run.is_over:
                await self.write(producer)
                if self.chance(_CLOSE):
                    break
                await self.pause(_MAX_PAUSE_S)
        except Lost:
            pass
        await producer.close(timeout=self.source.random() * _CLOSE_TIMEOUT_S)

    async def start(self) -> Producer:
        return await self.transactor.started()

    async def initialize(self, producer: Producer) -> None:
        await self.transactor.initialize(producer)

    async def write(self, producer: Producer) -> None:
        """One transaction. Raises `Lost`."""
        is_whole = await self.fill(producer)
        await self.transactor.end(producer, commit=is_whole and not self.chance(_ABORT))

    async def fill(self, producer: Producer) -> bool:
        """Whether all of it was taken."""
        await self.transactor.begin(producer)
        try:
            for _ in range(self.source.randint(1, _MAX_SENDS)):
                await self.transactor.send(producer, self.source.choice(self.run.partitions), None)
                if self.chance(0.3):
                    await self.pause(_MAX_PAUSE_S)
        except TransactionAbortable:
            return False
        return True
