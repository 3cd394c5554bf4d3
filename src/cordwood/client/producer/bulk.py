"""Many records in one call: an iterable, or Arrow columns, which become batches without an object per record.

delivery = await producer.send_arrow(table, "orders", key="customer", value="payload") print((await
delivery).record_count)
"""

import asyncio
from array import array
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

from cordwood.client.cluster import Topic, TopicPartition
from cordwood.client.errors import BadSetting, ClientError
from cordwood.client.producer.accumulator import Accumulator
from cordwood.client.producer.batch import ProducerBatch
from cordwood.client.producer.buffer_pool import Reservation
from cordwood.client.producer.deliveries import Delivery, NewEvent, Outcome
from cordwood.client.producer.input.arrow_columns import Arrays, Columns
from cordwood.client.producer.input.partitioners import DefaultPartitioner, Partitioner
from cordwood.client.producer.intake import Intake
from cordwood.client.producer.settings import ProducerSettings
from cordwood.client.producer.transactions.machine import Transactions
from cordwood.runtime.clock import Clock
from cordwood.wire.batch_builder import SealedBatch
from cordwood.wire.compression import Codec

if TYPE_CHECKING:
    from cordwood.wire.column_input import RecordInput, RowOrder

BATCH_BYTES = 256 * 1024
"""Minimum size of batches made from columns: all records are available, so that small batches gain nothing."""
_NO_KEY = 0
# After the topic: value, key, partition, timestamp_ms, headers.
_REST = (None, None, None, None, ())
_DEFAULTS = ((), *(_REST[given:] for given in range(len(_REST) + 1)))


class BulkMetadata(NamedTuple):
    """The offsets of many records."""

    record_count: int
    last_offsets: dict[TopicPartition, int]
    """The highest of their offsets in each partition; -1 if the broker did not report it."""


class BulkDelivery:
    """The promise for all records of a call, done when each record is. If any is not delivered, raises the first
    error."""

    __slots__ = ("_outcome", "_outcomes", "record_count")

    def __init__(self, outcomes: "Sequence[Share]", record_count: int, whole: Outcome) -> None:
        self.record_count = record_count
        self._outcomes = outcomes
        self._outcome = whole

    def done(self) -> bool:
        return self._outcome.is_done

    def result(self, timeout: float | None = None) -> BulkMetadata:
        """Blocks until all are delivered, or for this many seconds; in `cordwood.aio` it is awaited instead."""
        error = self.exception(timeout)
        if error is not None:
            raise error
        last_offsets: dict[TopicPartition, int] = {}
        for outcome, _, last in self._outcomes:
            offset = outcome.offset_of(last)
            last_offsets[outcome.partition] = max(offset, last_offsets.get(outcome.partition, -1))
        return BulkMetadata(self.record_count, last_offsets)

    def exception(self, timeout: float | None = None) -> ClientError | None:
        if not self._outcome.is_done:
            self._outcome.wait(timeout)
        return next((error for share in self._outcomes for error in share.outcome.errors()), None)

    def delivered_count(self) -> int:
        """Number of delivered records, even if others failed; valid once it is done. Exact if no other caller has sent
        to the same partitions."""
        if self.exception(0) is None:
            return self.record_count
        return sum(share.delivered_count() for share in self._outcomes)

    def add_done_callback(self, callback: "Callable[[BulkDelivery], object]") -> None:
        """Registers a callback, called once when all records are delivered or failed; at once if they are."""
        self._outcome.on_done(lambda: callback(self))

    def __await__(self) -> Generator[Any, None, BulkMetadata]:
        if not self._outcome.is_done:
            yield from self._outcome.future()
        return self.result()


class Share(NamedTuple):
    """The records of a call in one batch."""

    outcome: Outcome
    first: int
    """Index in the batch."""
    last: int

    def delivered_count(self) -> int:
        parts = (self.outcome.of(index) for index in range(self.first, self.last + 1))
        return sum(outcome.is_done and outcome.error_of(index) is None for outcome, index in parts)


class Gathering:
    """Collects the records of a call that were queued already."""

    def __init__(self, new_event: NewEvent | None = None) -> None:
        self._new_event = new_event
        self._record_count = 0
        self._firsts: dict[Outcome, int] = {}
        self._lasts: dict[Outcome, int] = {}

    def add(self, delivery: Delivery) -> None:
        self._record_count += 1
        outcome = delivery.outcome
        if outcome not in self._lasts:
            self._firsts[outcome] = delivery.index
        # Later records of a batch have higher indexes.
        self._lasts[outcome] = delivery.index

    def add_batch(self, batch: ProducerBatch) -> None:
        self._record_count += batch.record_count
        self._firsts[batch.outcome] = 0
        self._lasts[batch.outcome] = batch.record_count - 1

    def delivery(self) -> BulkDelivery:
        shares = [Share(outcome, self._firsts[outcome], last) for outcome, last in self._lasts.items()]
        whole = Outcome.of_all([share.outcome for share in shares], self._new_event)
        return BulkDelivery(shares, self._record_count, whole)


def arguments(record: Sequence[Any]) -> tuple[Any, ...]:
    """Fills in missing trailing fields to get the arguments of `Intake.try_send`."""
    if isinstance(record, tuple | list) and 0 < len(record) < len(_DEFAULTS):
        return (*record, *_DEFAULTS[len(record)])
    raise BadSetting(f"{record!r} is not a record; expected a ProducerRecord or a tuple: (topic, value, key) and so on")


class BulkIntake:
    """Like `Intake`, for whole batches: the topic must be known, and serializers and interceptors are not called."""

    def __init__(
        self,
        settings: ProducerSettings,
        accumulator: Accumulator,
        partitioner: Partitioner,
        intake: Intake,
        *,
        transactions: Transactions | None,
        lock: AbstractContextManager[Any],
        clock: Clock,
        wake_transactions: Callable[[], object],
    ) -> None:
        self._accumulator = accumulator
        self._partitioner = partitioner
        self._intake = intake
        self._transactions = transactions
        self._lock = lock
        self._clock = clock
        self._wake_transactions = wake_transactions
        self._max_block_s = settings.max_block_ms / 1000
        self._codec = Codec[settings.compression_type.upper()]
        self._level = settings.compression_level
        self._batch_bytes = min(
            max(settings.batch_size, BATCH_BYTES), settings.max_request_size, max(1, settings.buffer_memory // 4)
        )
        self._loop = asyncio.get_running_loop()

    def gathering(self) -> Gathering:
        return Gathering(self._accumulator.new_event)

    async def send_arrow(self, name: str, columns: Columns) -> BulkDelivery:
        gathering = self.gathering()
        try:
            topic = await self._intake.known_topic(name)
            for arrays in columns.tables():
                await self._send(topic, self.batches(topic, arrays), gathering)
        except ClientError as error:
            self._intake.refused(error)
            raise
        return gathering.delivery()

    async def send_columns(self, name: str, records: "RecordInput", partition: int | None) -> BulkDelivery:
        gathering = self.gathering()
        try:
            topic = await self._intake.known_topic(name)
            await self._send(topic, self._column_batches(topic, records, partition), gathering)
        except ClientError as error:
            self._intake.refused(error)
            raise
        return gathering.delivery()

    async def _send(self, topic: Topic, batches: Iterator[tuple[int, SealedBatch]], gathering: Gathering) -> None:
        for partition, sealed in batches:
            gathering.add_batch(await self._append(topic, partition, sealed))
            # The sending task has work now.
            await asyncio.sleep(0)

    def batches(self, topic: Topic, arrays: Arrays) -> Iterator[tuple[int, SealedBatch]]:
        """Yields batches with their partitions, on demand, so that memory holds no more than is being sent."""
        from cordwood.wire.arrow import record_input

        times = self._clock.now_ms() if arrays.timestamp is None else arrays.timestamp
        try:
            records = record_input(arrays.value, arrays.key, times, arrays.headers)
        except (ValueError, TypeError, NotImplementedError) as error:  # the last two have Arrow's types
            raise BadSetting(str(error)) from error
        yield from self._column_batches(topic, records, arrays.partition)

    def _column_batches(
        self, topic: Topic, records: "RecordInput", partition: Any
    ) -> Iterator[tuple[int, SealedBatch]]:
        """`partition` is one number for all records, an Arrow array, or left to keys and the partitioner."""
        from cordwood.wire.column_input import check_lengths

        try:
            check_lengths(records)
            order = self._order(topic, records, partition)
        except (ValueError, TypeError, OverflowError, NotImplementedError) as error:
            raise BadSetting(str(error)) from error
        if order is None:
            yield from self._in_a_row(topic, partition, records)
        else:
            yield from self._in_turns(records, order)

    def _order(self, topic: Topic, records: "RecordInput", partition: Any) -> "RowOrder | None":
        """The rows of each partition; None if the partition does not depend on rows."""
        from cordwood.wire.column_input import RowOrder, key_partitions

        count = len(topic.partitions)
        if isinstance(partition, int):
            if not 0 <= partition < count:
                raise BadSetting(f"topic {topic.name} has no partition {partition}; it has 0 to {count - 1}")
            return None
        if partition is not None:
            return RowOrder(_int32(partition), records.record_count, count)
        if isinstance(self._partitioner, DefaultPartitioner):
            if records.keys is None or self._partitioner.ignores_keys:
                return None
            with self._lock:
                keyless = self._partitioner.keyless(topic, _NO_KEY, self._loop.time())
            return RowOrder(key_partitions(records.keys, count, keyless), records.record_count, count)
        return RowOrder(self._ask_partitioner(topic, records), records.record_count, count)

    def _ask_partitioner(self, topic: Topic, records: "RecordInput") -> bytes:
        """Calls the partitioner for each record."""
        listed = [None] * records.record_count if records.keys is None else records.keys.listed()
        now_s = self._loop.time()
        return array("i", [self._partitioner.partition(topic, key, None, now_s) for key in listed]).tobytes()

    def _in_a_row(self, topic: Topic, partition: Any, records: "RecordInput") -> Iterator[tuple[int, SealedBatch]]:
        """Sends to one partition, or each batch to the partitioner's choice for records without keys."""
        done = 0
        while done < records.record_count:
            sealed, written = self._encode(records, done, records.record_count, None)
            done += written
            yield (self._keyless(topic, sealed.size) if partition is None else partition), sealed

    def _keyless(self, topic: Topic, size_bytes: int) -> int:
        assert isinstance(self._partitioner, DefaultPartitioner)
        with self._lock:
            return self._partitioner.keyless(topic, size_bytes, self._loop.time())

    def _in_turns(self, records: "RecordInput", order: "RowOrder") -> Iterator[tuple[int, SealedBatch]]:
        """Takes a batch of each partition in turn, so that all brokers have work."""
        left = {
            partition: (start, end)
            for partition, (start, end) in enumerate(zip(order.starts, order.starts[1:], strict=False))
            if start < end
        }
        while left:
            for partition, (start, end) in list(left.items()):
                sealed, written = self._encode(records, start, end, order)
                if start + written == end:
                    del left[partition]
                else:
                    left[partition] = (start + written, end)
                yield partition, sealed

    def _encode(
        self, records: "RecordInput", start: int, end: int, order: "RowOrder | None"
    ) -> tuple[SealedBatch, int]:
        from cordwood.wire.column_input import encode_some

        try:
            batch, written = encode_some(
                records, start, end, order, max_batch_bytes=self._batch_bytes, codec=self._codec, level=self._level
            )
        except ValueError as error:
            raise BadSetting(str(error)) from error
        return SealedBatch(batch), written

    async def _append(self, topic: Topic, partition: int, sealed: SealedBatch) -> ProducerBatch:
        """Waits for room up to `max_block_ms`, in turn with all other callers."""
        target = TopicPartition(topic.name, partition)
        batch = self._append_now(target, sealed, None)
        if batch is not None:
            return batch

        def reserve(granted: Callable[[], object]) -> Reservation:
            return self._accumulator.reserve_batch(sealed, granted)

        async with self._intake.reserved(reserve, topic.name, self._loop.time() + self._max_block_s) as reservation:
            batch = self._append_now(target, sealed, reservation)
            assert batch is not None
            return batch

    def _append_now(
        self, target: TopicPartition, sealed: SealedBatch, reservation: Reservation | None
    ) -> ProducerBatch | None:
        with self._lock:
            if self._transactions is not None:
                self._transactions.check_send()
            batch = self._accumulator.append_batch(target, sealed, self._loop.time(), reservation)
            if self._transactions is not None and batch is not None and self._transactions.add_partition(target):
                self._wake_transactions()
        return batch


def _int32(column: Any) -> bytes:
    import pyarrow as pa  # type: ignore[import-untyped]

    if column.null_count:
        raise ValueError("the column of partitions has nulls")
    try:
        numbers = column.cast(pa.int32())
    except pa.ArrowInvalid as error:
        raise ValueError(f"the column of partitions: {error}") from error
    if isinstance(numbers, pa.ChunkedArray):
        numbers = numbers.combine_chunks()
    if isinstance(numbers, pa.ChunkedArray):
        numbers = numbers.chunk(0) if numbers.num_chunks else pa.array([], pa.int32())
    contents = numbers.buffers()[1]
    return b"" if contents is None else bytes(contents.slice(numbers.offset * 4, len(numbers) * 4))
