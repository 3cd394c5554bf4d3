"""Transactions of two phases (KIP-939): an external coordinator decides, and a successor executes the decision.

After the writes the transaction is prepared, and its outcome goes into an external ledger. The successor of a dead
producer finds it still open, since it has no timeout, and ends it according to the ledger.
"""

from cordwood.sim.histories.transactions import Fate, Transaction
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest

from .producer import Died
from .writer import Writer

_DEATH_WHEN_PREPARED = 0.3
_NONE = -1


class PreparingWriter(Writer):
    """One at a time per transactional id: the ledger has no fencing."""

    async def initialize(self) -> None:
        """Ends a predecessor's open transaction. Raises `Lost`, `Died`."""
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
