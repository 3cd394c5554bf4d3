"""Writes transactions over several partitions, commits most of them, and aborts the rest."""

from cordwood.sim.clients.client import Over
from cordwood.sim.histories.transactions import Transaction

from .producer import Died, Lost, TransactionalProducer

_MAX_PAUSE_S = 0.3
_MAX_AWAY_S = 3.0
_ABORT = 0.2
_MAX_SENDS = 3


class Writer(TransactionalProducer):
    async def work(self) -> None:
        try:
            while True:
                try:
                    await self.initialize()
                    while True:
                        await self.write(commit=not self.chance(_ABORT))
                        await self.pause(_MAX_PAUSE_S)
                except Lost:
                    await self.pause(_MAX_AWAY_S)
                except Died:
                    self.producer_id = -1
                    await self.pause(_MAX_AWAY_S)
        except Over:
            return

    async def write(self, *, commit: bool) -> None:
        """One transaction. Raises `Lost`, `Died`."""
        transaction = await self.filled()
        await self.end(transaction, commit=commit)

    async def filled(self) -> Transaction:
        """A transaction in which all writes succeed. Raises `Lost`, `Died`."""
        transaction = self.begin()
        for _ in range(self.source.randint(1, _MAX_SENDS)):
            count = self.source.choice((1, 1, 2, 3))
            await self.send(transaction, self.source.sample(self.run.partitions, min(count, len(self.run.partitions))))
            await self.pause(_MAX_PAUSE_S)
        return transaction
