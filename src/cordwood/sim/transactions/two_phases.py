"""Transactions of two phases (KIP-939): an outside coordinator decides, and a successor carries it out.

When all is written the transaction is prepared, and its outcome goes into a ledger outside. Who comes after a producer
that died then finds it open, as nothing times out, and ends it as the ledger says.
"""

from cordwood.sim.histories.transactions import Fate, Transaction
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest

from .producer import Died
from .writer import Writer

_DEATH_WHEN_PREPARED = 0.3
_NONE = -1


class PreparingWriter(Writer):
    """One at a time for a transactional id: the ledger does not know who may write into it."""

    async def initialize(self) -> None:
        """Ends what a predecessor has left open. Raises `Lost`, `Died`."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            enable2_pc=True,
            keep_prepared_txn=True,
        )
        response = await self.take_id(request, InitProducerIdRequest.versions.high)
        if response.ongoing_txn_producer_id != _NONE:
            left = self._find(response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch)
            await self.end(left, commit=left.is_in_ledger)

    def _find(self, producer_id: int, producer_epoch: int) -> Transaction:
        """The last that has them: in version 1 an epoch has many transactions."""
        return next(
            transaction
            for transaction in reversed(self.run.history.transactions.transactions)
            if transaction.transactional_id == self.transactional_id
            and (transaction.producer_id, transaction.producer_epoch) == (producer_id, producer_epoch)
        )

    async def write(self, *, commit: bool) -> None:
        transaction = await self.filled()
        if commit:
            transaction.is_in_ledger = True
            transaction.fate = Fate.UNKNOWN
            transaction.commit_begun_s = self.run.now_s
        if not self.is_calm and self.chance(_DEATH_WHEN_PREPARED):
            self.disconnect()
            raise Died
        await self.end(transaction, commit=commit)
