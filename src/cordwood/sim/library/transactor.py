"""A transactional producer of the library, and the history of what an application does with it."""

import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.errors import (
    BrokerError,
    CommitFailed,
    FatalTransactionError,
    IllegalState,
    TimedOut,
    TransactionAbortable,
)
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.client.producer.producer import Producer
from cordwood.client.producer.settings import ProducerSettings
from cordwood.client.producer.transactions.prepared import PreparedTxnState
from cordwood.sim.clients.batches import new_send
from cordwood.sim.histories.groups import Commit, CommitOutcome
from cordwood.sim.histories.history import Outcome, Send
from cordwood.sim.histories.transactions import Fate, Incarnation, Transaction
from cordwood.sim.partition import Partition
from cordwood.wire.messages.end_txn import EndTxnRequest
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest
from cordwood.wire.schema import Request

from .life import LibraryClient
from .producer import note_delivery
from .tap import Tap, Watch

_MAX_BLOCK_MS = 1_500
_STALL = 0.05
_PATIENCE = 0.9


class Lost(Exception):
    """The producer cannot continue; its application closes it and starts over."""


class TransactionWatch(Watch):
    """A producer's identity, and the time of its commit request."""

    wanted = (InitProducerIdRequest, EndTxnRequest)

    def __init__(self, client: LibraryClient, transactional_id: str) -> None:
        self.producer = (-1, -1)
        self.transaction: Transaction | None = None
        self._client = client
        self._run = client.run
        self._transactional_id = transactional_id

    def asked(self, request: Request[Any]) -> None:
        transaction = self.transaction
        if isinstance(request, EndTxnRequest) and request.committed and transaction is not None:
            if transaction.fate is Fate.NOT_COMMITTED:
                transaction.fate = Fate.UNKNOWN
            transaction.commit_begun_s = min(self._run.now_s, transaction.commit_begun_s)
            for commit in self._commits():
                commit.begun_s = min(self._run.now_s, commit.begun_s)

    def answered(self, request: Request[Any], response: Any, sent_s: float) -> None:
        if response.error_code:
            return
        if isinstance(request, InitProducerIdRequest):
            self.producer = (response.producer_id, response.producer_epoch)
            self._run.history.transactions.incarnations.append(
                Incarnation(self._client.name, self._transactional_id, *self.producer, self._run.now_s)
            )
        elif response.producer_id >= 0:
            # Each transaction has its own epoch (KIP-890).
            self.producer = (response.producer_id, response.producer_epoch)

    def committed(self) -> None:
        """The application got this outcome."""
        assert self.transaction is not None
        self.transaction.fate = Fate.COMMITTED
        self.transaction.commit_ended_s = self._run.now_s
        for commit in self._commits():
            commit.outcome, commit.ended_s = CommitOutcome.ACKNOWLEDGED, self._run.now_s

    def _commits(self) -> list[Commit]:
        assert self.transaction is not None
        number = self.transaction.number
        return [commit for commit in self._run.history.groups.commits if commit.transaction == number]


class Transactor:
    """Runs in the process of `client`. After `Lost` the producer is unusable."""

    def __init__(self, client: LibraryClient, transactional_id: str, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.watch = TransactionWatch(client, transactional_id)
        self._client = client
        self._run = client.run
        self._tap = Tap(client.run, client.run.world.network.host(f"{client.name}-producer"), self.watch)
        self._sends: list[Send] = []

    async def started(self, **settings: Any) -> Producer:
        """Not initialized yet."""
        client = self._client
        wanted = ProducerSettings(
            **client.network_settings(),
            client_id=client.name,
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            linger_ms=client.source.choice((0, 5, 50)),
            batch_size=client.source.choice((0, 300, 16_384)),
            max_in_flight_requests_per_connection=client.source.choice((1, 5)),
            max_block_ms=_MAX_BLOCK_MS,
            delivery_timeout_ms=client.source.choice((2_300, 10_000)),
            **settings,
        )
        return await client.started_producer(wanted, self._tap)

    async def initialize(self, producer: Producer, *, keep_prepared: bool = False) -> None:
        self.watch.transaction = None
        await self._insist(lambda: producer.init_transactions(keep_prepared), is_patient=True)

    async def begin(self, producer: Producer) -> Transaction:
        await self._insist(producer.begin_transaction)
        transaction = Transaction(
            self._run.next_number(),
            self._client.name,
            self.transactional_id,
            *self.watch.producer,
            self._run.now_s,
        )
        self._run.history.transactions.transactions.append(transaction)
        self.watch.transaction = transaction
        self._sends = []
        return transaction

    async def send(self, producer: Producer, partition: Partition, came_from: tuple[str, str, int, int] | None) -> None:
        """Raises `TransactionAbortable`, `Lost`."""
        assert self.watch.transaction is not None
        send = new_send(self._client, partition, acks=-1, count=1)
        send.attempts = 2
        send.transaction = self.watch.transaction.number
        send.stream = f"{self._client.name}/{self._client.lives}"
        if came_from is not None:
            self._run.history.transactions.inputs[send.values[0]] = came_from
        self._sends.append(send)
        try:
            delivery = await producer.send(partition[0], send.values[0], send.keys[0], partition=partition[1])
        except TimedOut as error:
            send.outcome = Outcome.REFUSED
            raise TransactionAbortable from error
        except FatalTransactionError as error:
            raise Lost from error
        delivery.add_done_callback(lambda delivery: note_delivery(self._client, self._tap, send, delivery))

    async def send_offsets(
        self, producer: Producer, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        """Raises `TransactionAbortable`, `Lost`."""
        try:
            await self._insist(lambda: producer.send_offsets_to_transaction(offsets, group))
        except CommitFailed as error:
            # The group has continued without this member.
            raise TransactionAbortable from error

    async def end(self, producer: Producer, *, commit: bool) -> bool:
        """Returns whether it was committed; otherwise it was aborted."""
        if not self._client.is_calm and self._client.chance(_STALL):
            # Its transaction may have been aborted, or its id taken over.
            await self._client.pause(self.timeout_ms * 2 / 1000)
        if commit:
            try:
                await self._insist(producer.commit_transaction)
                self._was_committed()
                return True
            except TransactionAbortable:
                pass
        await self._insist(producer.abort_transaction)
        return False

    async def complete(self, producer: Producer, state: PreparedTxnState, transaction: Transaction | None) -> None:
        """Ends a prepared transaction according to a ledger: commits it if it is this one. Raises `Lost`."""
        self.watch.transaction = transaction
        await self._insist(lambda: producer.complete_transaction(state), is_patient=True)
        if transaction is not None:
            self.watch.committed()

    def _was_committed(self) -> None:
        self.watch.committed()
        for send in self._sends:
            if send.outcome is not Outcome.ACKNOWLEDGED:
                self._client.complain(f"got a commit of {self.watch.transaction}, with {send}")

    async def _insist(self, call: Callable[[], Awaitable[object]], *, is_patient: bool = False) -> None:
        """A call that times out is repeated, which continues to wait. Raises `TransactionAbortable`."""
        while True:
            try:
                await call()
                return
            except TimedOut as error:
                if not is_patient and not self._client.chance(_PATIENCE):
                    raise Lost from error
            except TransactionAbortable:
                raise
            except (FatalTransactionError, IllegalState) as error:
                raise Lost from error
            except BrokerError as error:
                if error.retriable:
                    raise
                raise Lost from error

    def new_commit(self, group: str, partition: Partition, offset: int, tenure: int) -> Commit:
        """For an offset to be committed with the transaction."""
        assert self.watch.transaction is not None
        commit = Commit(self._run.next_number(), self._client.name, group, partition, offset, tenure, begun_s=math.inf)
        commit.transaction = self.watch.transaction.number
        commit.asked_s = self._run.now_s
        self._run.history.groups.commits.append(commit)
        return commit
