"""The calls of a transactional producer: each starts an operation of the machine, and waits for it."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.errors import ClientError, TimedOut, TransactionAbortable
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.client.producer.metrics import ProducerMetrics
from cordwood.client.producer.transactions.driver import TransactionDriver
from cordwood.client.producer.transactions.machine import Transactions
from cordwood.client.producer.transactions.operation import Operation
from cordwood.client.producer.transactions.prepared import LeftTransaction, PreparedTxnState

_log = logging.getLogger(__name__)


class TransactionCalls:
    """Each waits up to `max_block_ms`. `begin_flush` makes all queued batches due; `wake` wakes the sending loop."""

    def __init__(
        self,
        machine: Transactions,
        driver: TransactionDriver,
        *,
        max_block_ms: int,
        lock: AbstractContextManager[Any],
        metrics: ProducerMetrics,
        begin_flush: Callable[[], object],
        wake: Callable[[], object],
    ) -> None:
        self.machine = machine
        self._driver = driver
        self._max_block_s = max_block_ms / 1000
        self._lock = lock
        self._metrics = metrics
        self._begin_flush = begin_flush
        self._wake = wake
        self._loop = asyncio.get_running_loop()

    async def initialize(self, *, keep_prepared: bool) -> None:
        await self._do(lambda: self.machine.initialize(keep_prepared=keep_prepared), "txn-init")

    async def begin(self) -> None:
        """Waits for the end of the previous transaction if its task was cancelled."""
        with self._lock:
            abandoned = self.machine.abandoned
        if abandoned is not None:
            await self._end_after(abandoned)
        with self._lock:
            self.machine.begin()

    async def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata) -> None:
        await self._do(lambda: self.machine.send_offsets(offsets, group), "txn-send-offsets")

    async def commit(self) -> None:
        await self._do(self.machine.commit, "txn-commit", ends=True)

    async def abort(self) -> None:
        await self._do(self.machine.abort, "txn-abort", ends=True)

    @property
    def may_abort(self) -> bool:
        """True if there is a transaction, and no operation in progress that may yet commit it."""
        with self._lock:
            return self.machine.is_open and self.machine.ending is None

    def prepare(self) -> PreparedTxnState:
        """Flushes first."""
        with self._lock:
            return self.machine.prepare()

    def leave(self) -> LeftTransaction | None:
        """Flushes first."""
        with self._lock:
            return self.machine.leave()

    def take_id(self, transactional_id: str) -> None:
        with self._lock:
            self.machine.take_id(transactional_id)

    async def complete(self, prepared: PreparedTxnState) -> None:
        await self._do(lambda: self.machine.complete(prepared), "txn-commit", ends=True)

    async def abort_open(self) -> None:
        """Called before the producer is closed. Waits for a transaction that is being ended; leaves one that cannot be
        aborted to its timeout."""
        with self._lock:
            ending = self.machine.ending
        await self._end_after(ending)

    async def _end_after(self, ending: Operation | None) -> None:
        if ending is not None:
            try:
                await self._do(lambda: ending, "txn-abort", ends=True)
            except TransactionAbortable as error:
                _log.warning("%s() failed; aborting the transaction: %s", ending.name, error)
        with self._lock:
            is_open = self.machine.is_open
        if is_open:
            await self.abort()

    async def _do(self, begin: Callable[[], Operation], metric: str, *, ends: bool = False) -> None:
        began_s = self._loop.time()
        done = asyncio.Event()
        with self._lock:
            operation = begin()
            operation.on_done(done.set)
        if ends:
            self._begin_flush()
        self._driver.wake()
        self._wake()
        try:
            async with asyncio.timeout(self._max_block_s):
                await done.wait()
        except TimeoutError:
            raise _unfinished(operation.name, self._max_block_s) from None
        except asyncio.CancelledError:
            operation.is_abandoned = True
            raise
        finally:
            self._metrics.waited(metric, self._loop.time() - began_s)
        operation.take()


def _unfinished(call: str, waited_s: float) -> ClientError:
    error = TimedOut(f"{call}() is not done after {waited_s:g} s (max_block_ms)")
    error.advise(f"call {call}() again to keep waiting, or close the producer")
    return error
