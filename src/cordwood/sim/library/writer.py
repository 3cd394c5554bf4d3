"""Writes transactions with the producer of the library; or prepares them, for a ledger outside to decide (KIP-939)."""

from cordwood.client.errors import ClientError, TransactionAbortable
from cordwood.client.producer.producer import Producer
from cordwood.client.producer.transactions.prepared import PreparedTxnState
from cordwood.sim.clients.client import Run
from cordwood.sim.histories.transactions import Fate, Transaction

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
        """Returns whether all of it was taken."""
        await self.transactor.begin(producer)
        try:
            for _ in range(self.source.randint(1, _MAX_SENDS)):
                await self.transactor.send(producer, self.source.choice(self.run.partitions), None)
                if self.chance(0.3):
                    await self.pause(_MAX_PAUSE_S)
        except TransactionAbortable:
            return False
        return True


class LibraryPreparingWriter(LibraryWriter):
    """An external ledger decides (KIP-939): a transaction recorded there as committed is committed, by this producer or
    a successor."""

    def __init__(self, run: Run, name: str, transactional_id: str, timeout_ms: int) -> None:
        super().__init__(run, name, transactional_id, timeout_ms)
        # The last decision; an application's ledger outlives its process.
        self._ledger: tuple[PreparedTxnState, Transaction] | None = None

    async def start(self) -> Producer:
        return await self.transactor.started(transaction_two_phase_commit_enable=True)

    async def initialize(self, producer: Producer) -> None:
        """Ends a predecessor's prepared transaction according to the ledger."""
        await self.transactor.initialize(producer, keep_prepared=True)
        state, transaction = self._ledger if self._ledger is not None else (PreparedTxnState(), None)
        await self.transactor.complete(producer, state, transaction)

    async def write(self, producer: Producer) -> None:
        if not await self.fill(producer) or self.chance(_ABORT):
            await self.transactor.end(producer, commit=False)
            return
        try:
            state = await producer.prepare_transaction()
        except ClientError:
            await self.transactor.end(producer, commit=False)
            return
        transaction = self.transactor.watch.transaction
        assert transaction is not None
        if transaction.fate is Fate.NOT_COMMITTED:
            transaction.fate = Fate.UNKNOWN
        transaction.is_in_ledger = True
        transaction.commit_begun_s = self.run.now_s
        self._ledger = (state, transaction)
        if self.chance(_DEATH_WHEN_PREPARED):
            self.kill()
        await self.transactor.complete(producer, state, transaction)
