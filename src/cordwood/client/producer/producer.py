"""**Producer**: the application's interface. `send` collects records in batches; one task sends them to their leaders.

async with Producer(ProducerSettings(), parse_bootstrap("localhost:9092"), network=SocketNetwork()) as producer:
    delivery = await producer.send("orders", b"value", b"key")
    metadata = await delivery
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from cordwood.client.client import Client
from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.errors import (
    BadSetting,
    ClientError,
    Closed,
    FatalTransactionError,
    IllegalState,
    SerializationFailed,
)
from cordwood.client.producer.accumulator import Accumulator
from cordwood.client.producer.batch import GivenHeaders, RecordMetadata
from cordwood.client.producer.bulk import BulkDelivery, arguments
from cordwood.client.producer.deliveries import Delivery, NewEvent
from cordwood.client.producer.engine import Engine
from cordwood.client.producer.input.arrow_columns import Column, Columns, Rows
from cordwood.client.producer.intake import Unsent
from cordwood.client.producer.settings import ProducerSettings
from cordwood.client.producer.transaction_calls import TransactionCalls
from cordwood.client.producer.transactions.offset_arguments import OffsetsToSend, checked_group, checked_offsets
from cordwood.client.producer.transactions.prepared import LeftTransaction, PreparedTxnState
from cordwood.client.schema_hooks import load_for
from cordwood.runtime.clock import Clock, SystemClock
from cordwood.runtime.network import Address, Network
from cordwood.runtime.randomness import Random, SeededRandom
from cordwood.runtime.threads import Lock
from cordwood.wire.compression import Codec

if TYPE_CHECKING:
    from cordwood.wire.column_input import RecordInput

_log = logging.getLogger(__name__)

TURN_BYTES = 64 * 1024
"""Bytes that a loop of sends may append before it yields to the sending task: one turn of the event loop per batch of
16 KiB would cost a third of the time spent on its records."""


class Producer:
    """Belongs to the event loop in which it is started. Every call raises a `ClientError` and nothing else.

    If an application's threads call `try_send`, they share `lock`, and wait for deliveries with `new_event`; other
    users need neither.
    """

    def __init__(
        self,
        settings: ProducerSettings,
        bootstrap: Sequence[Address],
        *,
        network: Network,
        clock: Clock | None = None,
        random: Random | None = None,
        lock: "Lock | None" = None,
        new_event: NewEvent | None = None,
    ) -> None:
        self._settings = settings
        self._bootstrap = bootstrap
        self._network = network
        self._clock = clock if clock is not None else SystemClock()
        self._random = random if random is not None else SeededRandom()
        self._is_threaded = lock is not None
        # With a single thread it is never contended, and cheaper than a lock that does nothing.
        self._lock = lock if lock is not None else Lock()
        self._accumulator = Accumulator(
            settings, Codec[settings.compression_type.upper()], wake=self._accumulated, new_event=new_event
        )
        self._is_closed = False
        self._should_yield = False
        self._batches_in_turn = 0
        self._batches_of_turn = max(1, TURN_BYTES // max(1, settings.batch_size))
        self._failure: ClientError | None = None
        self._engine: Engine | None = None
        self.try_send: Callable[[str, Any, Any, int | None, int | None, GivenHeaders], Delivery | Unsent] = self._refuse
        """Like `send`, from any thread and without waiting: an `Unsent` must be passed to `send_when_possible`, on the
        loop. Called for each record, so it is the intake's own method while the producer runs."""

    async def start(self) -> None:
        """Connects. Raises `CannotReachCluster` when no bootstrap address answers."""
        if self._engine is not None or self._is_closed:
            raise IllegalState("the producer was started before")
        client = await Client.connect(self._bootstrap, self._settings, network=self._network, random=self._random)
        try:
            self._engine = Engine(
                self._settings,
                client,
                self._accumulator,
                lock=self._lock,
                is_threaded=self._is_threaded,
                clock=self._clock,
                random=self._random,
                on_failure=self._fail,
            )
        except BaseException:
            await client.close()
            raise
        client.keep_fresh()
        self._engine.run()
        self.try_send = self._engine.intake.try_send

    async def __aenter__(self) -> "Producer":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self, timeout: float | None = None) -> None:
        """Sends queued records, for up to `timeout` seconds; then gives up the rest, and aborts an open transaction."""
        if self._is_closed:
            return
        if self._engine is not None:
            self._engine.check_loop()
        self._is_closed = True
        self.try_send = self._refuse
        engine = self._engine
        if engine is None:
            return
        try:
            if self._failure is None:
                async with asyncio.timeout(timeout):
                    await engine.finish()
        except TimeoutError:
            _log.warning("Closing the producer after %g s with undelivered records", timeout)
        except ClientError as error:
            _log.warning(
                "Closing the producer with work pending; an open transaction expires by its timeout: %s", error
            )
        finally:
            await engine.stop(Closed("the producer was closed before the record was delivered"))

    # ---- records

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: GivenHeaders = (),
    ) -> Delivery:
        """Queues the record once there is room, and returns an awaitable for its `RecordMetadata`.

        `headers` are a dict or pairs, of a str and of bytes or None. Raises `TimedOut` if the topic is not known within
        `max_block_ms` (`TopicNotCreated` if it does not exist, or has no such partition), `BufferExhausted` if there is
        no room.
        """
        try:
            outcome = self.try_send(topic, value, key, partition, timestamp_ms, headers)
        except SerializationFailed as error:
            await load_for(error)
            return await self.send(topic, value, key, partition=partition, timestamp_ms=timestamp_ms, headers=headers)
        if type(outcome) is Unsent:
            return await self.send_when_possible(outcome)
        if self._should_yield:
            await self._give_turn()
        return outcome

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: GivenHeaders = (),
    ) -> RecordMetadata:
        return await (
            await self.send(topic, value, key, partition=partition, timestamp_ms=timestamp_ms, headers=headers)
        )

    async def send_when_possible(self, unsent: Unsent) -> Delivery:
        return await self._running().intake.send_when_possible(unsent)

    async def send_many(self, records: Iterable[Sequence[Any]]) -> BulkDelivery:
        """Queues many records; each is a `ProducerRecord`, or a tuple of `send`'s arguments, in order: (topic, value,
        key) and so on. Returns one awaitable for all of them.

        Raises like `send`, at the first record that cannot be queued; those before it are sent.
        """
        engine = self._running()
        gathering = engine.bulk.gathering()
        for record in records:
            sent = arguments(record)
            try:
                outcome = engine.intake.try_send(*sent)
            except SerializationFailed as error:
                await load_for(error)
                outcome = engine.intake.try_send(*sent)
            if isinstance(outcome, Unsent):
                outcome = await self.send_when_possible(outcome)
            elif self._should_yield:
                await self._give_turn()
            gathering.add(outcome)
        return gathering.delivery()

    def send_many_from_thread(
        self, records: Iterable[Sequence[Any]], send_when_possible: Callable[[Unsent], Delivery]
    ) -> BulkDelivery:
        """Like `send_many`, in a thread of the application; waits with `send_when_possible`."""
        engine = self._running()
        gathering = engine.bulk.gathering()
        for record in records:
            outcome = engine.intake.try_send(*arguments(record))
            gathering.add(send_when_possible(outcome) if isinstance(outcome, Unsent) else outcome)
        return gathering.delivery()

    async def send_arrow(
        self,
        batch: "Rows",
        topic: str,
        *,
        key: "Column | None" = None,
        value: "Column | None" = "value",
        partition: "Column | int | None" = None,
        timestamp: "Column | int | None" = None,
        headers: "Column | None" = None,
    ) -> BulkDelivery:
        """Queues all rows, as room permits. Every other argument is a column name, or an array of the same length: keys
        and values are bytes or text, partitions integers, timestamps milliseconds or Arrow's own, headers lists of
        (key, value). Batches of a reader are taken one after the other, on the loop; if one of them is refused, those
        before it are sent. Serializers and interceptors are not called.

        Without partitions, keys decide as in `send`; without keys whole batches go to one partition each.
        """
        engine = self._running()
        columns = Columns(batch, key, value, partition, timestamp, headers)
        return await engine.bulk.send_arrow(topic, columns)

    async def send_columns(self, topic: str, records: "RecordInput", partition: int | None = None) -> BulkDelivery:
        """Like `send_arrow`, for columns in the format of `wire.column_input`, without pyarrow."""
        return await self._running().bulk.send_columns(topic, records, partition)

    async def flush(self, timeout: float | None = None) -> None:
        """Sends all queued records without lingering, and waits until each is delivered or has failed.

        Raises `TimedOut` after `timeout` seconds; sending continues. With acks=0 it waits until brokers have read
        everything, and raises `NetworkFailed` if one hung up instead.
        """
        await self._running().flush(timeout)

    async def partitions_for(self, topic: str) -> set[int]:
        """Returns the partitions of a topic; looks up an unknown one, up to `max_block_ms`."""
        known = await self._running().intake.known_topic(topic)
        return {partition.index for partition in known.partitions}

    def metrics(self) -> dict[str, float]:
        """Returns metrics by Kafka's names: `record-send-rate`, `request-latency-avg`, `buffer-available-bytes` and
        others."""
        return self._running(even_closed=True).read_metrics()

    # ---- transactions

    async def init_transactions(self, keep_prepared: bool = False) -> None:
        """Must be called once before the first transaction: fences older producers of this `transactional_id`, and
        aborts or completes their transactions. `keep_prepared` leaves a prepared one to `complete_transaction`
        (KIP-939)."""
        await self._transactional().initialize(keep_prepared=keep_prepared)

    async def begin_transaction(self) -> None:
        """If a task was cancelled while ending the last transaction, waits for that to finish, up to `max_block_ms`."""
        await self._transactional().begin()

    async def send_offsets_to_transaction(self, offsets: OffsetsToSend, group_metadata: GroupMetadata) -> None:
        """Commits a consumer's offsets as part of the transaction; `consumer.group_metadata()` identifies the consumer.
        The offset of a partition is that of the next record to read, an int or an `OffsetAndMetadata`."""
        calls = self._transactional()
        await calls.send_offsets(checked_offsets(offsets), checked_group(group_metadata))

    async def commit_transaction(self) -> None:
        """Raises `TransactionAbortable` if a record failed; abort then. `ProducerFenced` is fatal for the producer."""
        await self._transactional().commit()

    async def abort_transaction(self) -> None:
        await self._transactional().abort()

    async def prepare_transaction(self) -> PreparedTxnState:
        """The first phase (KIP-939): flushes; the transaction then waits for `complete_transaction`, without a
        timeout."""
        calls = self._transactional()
        await self.flush()
        return calls.prepare()

    async def leave_transaction(self) -> LeftTransaction | None:
        """Flushes, and leaves it to another process to end the transaction (`Admin.end_transactions`): the coordinator
        aborts it after `transaction_timeout_ms`, unless it is a two-phase one. None: nothing was sent. Call
        `take_transactional_id` next."""
        calls = self._transactional()
        await self.flush()
        return calls.leave()

    def take_transactional_id(self, transactional_id: str) -> None:
        """Continues with another id between transactions, on the same connections; call `init_transactions` next."""
        self._transactional().take_id(transactional_id)

    async def complete_transaction(self, prepared_state: PreparedTxnState) -> None:
        """The second phase: commits if this is the prepared transaction, else aborts it."""
        if not isinstance(prepared_state, PreparedTxnState):
            # A missing state would be mistaken for another transaction, and this one would be aborted.
            raise BadSetting(
                f"prepared_state is {prepared_state!r}; expected the return value of prepare_transaction()"
            )
        await self._transactional().complete(prepared_state)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator["Producer"]:
        """Begins a transaction, and commits it at the end; aborts it if an exception is raised, or if it cannot be
        committed. A commit that exceeds its time raises `TimedOut`: `commit_transaction` then continues to wait for it.
        If the task is cancelled during the commit, as by `asyncio.timeout`, the commit continues: the next transaction
        begins after it, and `commit_transaction` returns its outcome."""
        calls = self._transactional()
        await calls.begin()
        try:
            yield self
            await self.commit_transaction()
        except BaseException as error:
            # Closing has aborted it.
            if not self._is_closed and not isinstance(error, FatalTransactionError) and calls.may_abort:
                await calls.abort()
            raise

    # ---- helpers

    def _running(self, *, even_closed: bool = False) -> Engine:
        if self._failure is not None:
            raise self._failure
        if self._is_closed and not even_closed:
            raise Closed("the producer is closed")
        if self._engine is None:
            raise IllegalState("the producer is not started: use `async with`, or call start()")
        self._engine.check_loop()
        return self._engine

    def _transactional(self) -> TransactionCalls:
        calls = self._running().transaction_calls
        if calls is None:
            raise IllegalState("the producer is not transactional: it has no transactional_id")
        return calls

    def _accumulated(self) -> None:
        """Called by the accumulator, with the lock held and in any thread."""
        if self._engine is not None:
            self._engine.accumulated()
            self._batches_in_turn += 1
            if self._batches_in_turn >= self._batches_of_turn:
                self._should_yield = True

    async def _give_turn(self) -> None:
        """Yields to the sending task, for callers that send in a loop."""
        self._running()
        self._should_yield = False
        self._batches_in_turn = 0
        await asyncio.sleep(0)

    def _refuse(
        self, topic: str, value: Any, key: Any, partition: int | None, timestamp_ms: int | None, headers: GivenHeaders
    ) -> Delivery | Unsent:
        """Raises the reason why no records are accepted."""
        return self._running().intake.try_send(topic, value, key, partition, timestamp_ms, headers)

    def _fail(self, error: ClientError) -> None:
        self._failure = error
        self.try_send = self._refuse
