"""Transactions and producers."""

from collections.abc import Collection

from cordwood.client.admin import transactions
from cordwood.client.admin.calls.connected import Connected
from cordwood.client.admin.results import values
from cordwood.client.admin.transaction_ends import end_transactions
from cordwood.client.admin.transactions import (
    STATES,
    ActiveProducer,
    FencingProducer,
    OpenTransaction,
    TransactionDescription,
    TransactionListing,
)
from cordwood.client.arguments import choices_of, names_of, numbers_of, partitions_of, values_of
from cordwood.client.cluster import TopicPartition
from cordwood.client.producer.transactions.prepared import LeftTransaction


class TransactionCalls(Connected):
    async def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        running_ms: int | None = None,
    ) -> list[TransactionListing]:
        """Returns transactional ids of all coordinators; with `running_ms`, only those open for longer (Kafka 3.8+)."""
        chosen, producers = choices_of(states, STATES, "states"), numbers_of(producer_ids, "producer_ids")
        return await transactions.list_transactions(
            await self._connected(), states=chosen, producer_ids=producers, running_ms=running_ms
        )

    async def describe_transactions(self, transactional_ids: Collection[str]) -> dict[str, TransactionDescription]:
        """Returns the state, producer, timeout and partitions of each."""
        chosen = names_of(transactional_ids, "transactional_ids")
        return values(await transactions.describe_transactions(await self._connected(), chosen))

    async def describe_producers(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, list[ActiveProducer]]:
        """Returns the producers that each partition remembers."""
        return values(await transactions.describe_producers(await self._connected(), partitions_of(partitions)))

    async def list_open_transactions(self, partitions: Collection[TopicPartition]) -> list[OpenTransaction]:
        """Returns the open transactions of these partitions."""
        return await transactions.list_open(await self._connected(), partitions_of(partitions))

    async def find_transaction_owners(
        self, opened: Collection[OpenTransaction]
    ) -> dict[OpenTransaction, TransactionDescription | None]:
        """Returns the transactional id and state that a coordinator knows for each; None for a hanging transaction,
        which no coordinator will end (KIP-664)."""
        chosen = values_of(opened, OpenTransaction, "opened")
        return await transactions.find_owners(await self._connected(), chosen)

    async def abort_transaction(self, hanging: OpenTransaction) -> None:
        """Writes an abort marker to one partition, without the coordinator: for a hanging transaction."""
        await transactions.abort_in_partition(await self._connected(), hanging)

    async def fence_producers(
        self, transactional_ids: Collection[str], *, transaction_timeout_ms: int = 60_000
    ) -> dict[str, FencingProducer]:
        """Fences the producers of transactional ids and aborts their open transactions."""
        timeouts_ms = dict.fromkeys(names_of(transactional_ids, "transactional_ids"), transaction_timeout_ms)
        return values(await transactions.fence_producers(await self._connected(), timeouts_ms))

    async def end_transactions(self, left: Collection[LeftTransaction], *, commit: bool = True) -> None:
        """Ends transactions that producers left with `leave_transaction`; may be repeated if the outcome is unknown."""
        chosen = values_of(left, LeftTransaction, "left")
        values(await end_transactions(await self._connected(), chosen, commit=commit))
