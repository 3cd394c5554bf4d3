"""**Producer** for threads: `send` appends in the caller's thread; the producer's own thread sends.

with Producer(bootstrap_servers="localhost:9092") as producer:
    producer.send("orders", b"value", key=b"key")
"""

from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Unpack

from cordwood.client.blocking.facade import Facade
from cordwood.client.blocking.portal import Portal
from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.errors import SerializationFailed
from cordwood.client.options.configuration import read_settings
from cordwood.client.options.keywords import ProducerKeywords
from cordwood.client.producer.batch import GivenHeaders
from cordwood.client.producer.bulk import BulkDelivery
from cordwood.client.producer.deliveries import Delivery, RecordMetadata
from cordwood.client.producer.intake import Unsent
from cordwood.client.producer.producer import Producer as AsyncProducer
from cordwood.client.producer.settings import ProducerSettings
from cordwood.client.producer.transactions.offset_arguments import OffsetsToSend
from cordwood.client.producer.transactions.prepared import LeftTransaction, PreparedTxnState
from cordwood.client.schema_hooks import load_now
from cordwood.runtime.sockets import SocketNetwork
from cordwood.runtime.threads import Event, Lock

if TYPE_CHECKING:
    from cordwood.client.producer.input.arrow_columns import Column, Rows


class Producer(Facade):
    """Sends records; any number of threads may share one.

    >>> with Producer(bootstrap_servers="localhost:9092", linger_ms=20) as producer:
    ...     for number in range(1000):
    ...         producer.send("orders", f"order {number}")

    Settings are keywords, or a mapping with Kafka's dotted names; see docs/client-configuration.md. Connects at once,
    and raises `CannotReachCluster` when no bootstrap address answers. The end of `with` waits for delivery.
    """

    def __init__(self, options: Mapping[str, object] | None = None, **keywords: Unpack[ProducerKeywords]) -> None:
        settings = read_settings(ProducerSettings, options, keywords)
        super().__init__(f"the producer {settings.client_id}")
        try:
            self._core = self._run(_start(settings, self._portal))
        except BaseException:
            self._portal.close()
            raise
        # Cached, because `send` is called a lot.
        self._thread = self._portal.background
        self._opened()

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: GivenHeaders = (),
    ) -> Delivery:
        """Queues the record and returns a promise for its delivery:

        >>> producer.send("orders", "value").result(timeout=10).offset
        >>> producer.send("orders", "value").add_done_callback(print)

        Waits for the topic's metadata and for room in `buffer_memory`, up to `max_block_ms` (`TimedOut`,
        `BufferExhausted`). Callbacks are called in the producer's thread.
        """
        if self._thread.forked:
            self._portal.check_fork()
        try:
            outcome = self._core.try_send(topic, value, key, partition, timestamp_ms, headers)
        except SerializationFailed as error:
            # Called on an event loop, which this blocks anyway.
            load_now(error)
            outcome = self._core.try_send(topic, value, key, partition, timestamp_ms, headers)
        return self._send_when_possible(outcome) if type(outcome) is Unsent else outcome

    def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: GivenHeaders = (),
    ) -> RecordMetadata:
        """Sends the record and waits for its delivery.

        >>> producer.send_and_wait("orders", "value").offset
        """
        return self.send(topic, value, key, partition=partition, timestamp_ms=timestamp_ms, headers=headers).result()

    def send_many(self, records: Iterable[Sequence[Any]]) -> BulkDelivery:
        """Queues many records; each is a `ProducerRecord`, or a tuple of `send`'s arguments, in order. Returns one
        promise for all of them.

        >>> producer.send_many(("orders", f"order {number}") for number in range(1000)).result().record_count
        1000
        """
        self._portal.check_fork()
        return self._core.send_many_from_thread(records, self._send_when_possible)

    def send_arrow(
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
        """Queues all rows of a pyarrow Table, RecordBatch or RecordBatchReader, without a Python object per row. `key`,
        `value` and so on are names of columns, or arrays.

        >>> producer.send_arrow(table, "orders", key="customer", value="payload").result().last_offsets
        """
        return self._run(
            self._core.send_arrow(
                batch, topic, key=key, value=value, partition=partition, timestamp=timestamp, headers=headers
            )
        )

    def flush(self, timeout: float | None = None) -> None:
        """Sends all queued records without lingering, and waits until each is delivered or has failed.

        >>> producer.flush(timeout=30)
        """
        self._run(self._core.flush(timeout))

    def partitions_for(self, topic: str) -> set[int]:
        """The partitions of a topic.

        >>> producer.partitions_for("orders")
        {0, 1, 2}
        """
        return self._run(self._core.partitions_for(topic))

    def metrics(self) -> dict[str, float]:
        """Returns metrics by Kafka's names.

        >>> producer.metrics()["record-send-rate"]
        """
        return self._run(self._metrics())

    def close(self, timeout: float | None = None) -> None:
        """Sends queued records, for up to `timeout` seconds, and gives up the rest. Also called at the end of
        `with`."""
        self._end(self._core.close(timeout))

    # ---- transactions

    def init_transactions(self, keep_prepared: bool = False) -> None:
        """Must be called once before the first transaction; needs a `transactional_id`. See `transaction`."""
        self._run(self._core.init_transactions(keep_prepared))

    def begin_transaction(self) -> None:
        self._run(self._core.begin_transaction())

    def send_offsets_to_transaction(self, offsets: OffsetsToSend, group_metadata: GroupMetadata) -> None:
        """Commits a consumer's offsets as part of the transaction. The offset of a partition is that of the next record
        to read, an int or an `OffsetAndMetadata`.

        >>> producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        """
        self._run(self._core.send_offsets_to_transaction(offsets, group_metadata))

    def commit_transaction(self) -> None:
        """Raises `TransactionAbortable` if a record failed; abort then. `ProducerFenced` is fatal for the producer."""
        self._run(self._core.commit_transaction())

    def abort_transaction(self) -> None:
        self._run(self._core.abort_transaction())

    def prepare_transaction(self) -> PreparedTxnState:
        """The first phase of a two-phase commit (KIP-939); keep the result for `complete_transaction`."""
        return self._run(self._core.prepare_transaction())

    def leave_transaction(self) -> LeftTransaction | None:
        """Flushes, and leaves it to another process to end the transaction with `Admin.end_transactions`. None if
        nothing was sent."""
        return self._run(self._core.leave_transaction())

    def take_transactional_id(self, transactional_id: str) -> None:
        """Continues with another id between transactions, on the same connections; call `init_transactions` next."""
        self._run(self._take_id(transactional_id))

    def complete_transaction(self, prepared_state: PreparedTxnState) -> None:
        """The second phase: commits if this is the prepared transaction, else aborts it."""
        self._run(self._core.complete_transaction(prepared_state))

    @contextmanager
    def transaction(self) -> Iterator["Producer"]:
        """Begins a transaction, and commits it at the end of `with`; aborts it if an exception is raised, or if it
        cannot be committed.

        >>> producer.init_transactions()
        >>> with producer.transaction():
        ...     producer.send("payments", "one")
        ...     producer.send("payments", "two")
        """
        transaction = self._core.transaction()
        self._run(transaction.__aenter__())
        try:
            yield self
        except BaseException as error:
            self._run(transaction.__aexit__(type(error), error, error.__traceback__))
            raise
        self._run(transaction.__aexit__(None, None, None))

    # ---- helpers

    def _send_when_possible(self, unsent: Unsent) -> Delivery:
        return self._run(self._core.send_when_possible(unsent))

    def _last_work(self, timeout_s: float) -> Coroutine[Any, Any, None]:
        return self._core.close(timeout_s)

    async def _take_id(self, transactional_id: str) -> None:
        self._core.take_transactional_id(transactional_id)

    async def _metrics(self) -> dict[str, float]:
        return self._core.metrics()


async def _start(settings: ProducerSettings, portal: Portal) -> AsyncProducer:
    def new_event() -> Event:
        portal.check_thread()
        return Event()

    core = AsyncProducer(
        settings, settings.bootstrap_servers, network=SocketNetwork(), lock=Lock(), new_event=new_event
    )
    await core.start()
    return core
