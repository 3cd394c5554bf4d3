"""The parts of a started producer, and how they are assembled."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from cordwood.client.client import Client
from cordwood.client.errors import ClientError, TimedOut
from cordwood.client.one_loop import check_loop, in_another_loop
from cordwood.client.producer.accumulator import Accumulator
from cordwood.client.producer.batch import ProducerBatch
from cordwood.client.producer.bulk import BulkIntake
from cordwood.client.producer.input.partitioners import partitioner_for
from cordwood.client.producer.intake import Intake
from cordwood.client.producer.metrics import ProducerMetrics
from cordwood.client.producer.sending.sender import Sender
from cordwood.client.producer.sending.sending_loop import SendingLoop
from cordwood.client.producer.sending.sequences import Sequences
from cordwood.client.producer.settings import ProducerSettings
from cordwood.client.producer.transaction_calls import TransactionCalls
from cordwood.client.producer.transactions.driver import TransactionDriver
from cordwood.client.producer.transactions.machine import Transactions
from cordwood.net.peers.backoff import Backoff
from cordwood.runtime.clock import Clock
from cordwood.runtime.randomness import Random
from cordwood.runtime.threads import Lock

_log = logging.getLogger(__name__)


class Engine:
    """Runs from `run` to `stop`. `on_failure` is called for internal errors: then sending stops."""

    def __init__(
        self,
        settings: ProducerSettings,
        client: Client,
        accumulator: Accumulator,
        *,
        lock: Lock,
        is_threaded: bool,
        clock: Clock,
        random: Random,
        on_failure: Callable[[ClientError], None],
    ) -> None:
        self._client = client
        self._accumulator = accumulator
        self._lock = lock
        self._is_threaded = is_threaded
        self._on_failure = on_failure
        self._is_unacknowledged = settings.acks == 0
        self._loop = asyncio.get_running_loop()
        self._metrics = ProducerMetrics(self._loop.time())
        backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms, random)
        machine = Transactions(settings, backoff) if settings.transactional_id is not None else None
        is_idempotent = machine is not None or (settings.enable_idempotence and settings.acks == -1)
        self._sender = Sender(
            settings,
            accumulator,
            sequences=Sequences(transactional=machine is not None) if is_idempotent else None,
            transactions=machine,
            lock=lock,
            backoff=backoff,
            metrics=self._metrics,
        )
        self._sending = SendingLoop(
            client, self._sender, accumulator, settings, lock=lock, on_progress=self._progressed
        )
        partitioner = partitioner_for(settings, accumulator, random)
        self.intake = Intake(
            settings,
            client,
            accumulator,
            partitioner,
            transactions=machine,
            lock=lock,
            clock=clock,
            metrics=self._metrics,
            wake_transactions=self._wake_driver,
        )
        self.bulk = BulkIntake(
            settings,
            accumulator,
            partitioner,
            self.intake,
            transactions=machine,
            lock=lock,
            clock=clock,
            wake_transactions=self._wake_driver,
        )
        self.transaction_calls: TransactionCalls | None = None
        self._driver: TransactionDriver | None = None
        if machine is not None:
            self._driver = TransactionDriver(
                client, machine, lock=lock, has_incomplete=self._has_incomplete, on_change=self._sending.wake
            )
            self.transaction_calls = TransactionCalls(
                machine,
                self._driver,
                max_block_ms=settings.max_block_ms,
                lock=lock,
                metrics=self._metrics,
                begin_flush=self._begin_flush,
                wake=self._sending.wake,
            )
        self._tasks: list[asyncio.Task[None]] = []

    def run(self) -> None:
        self._begin(self._sending.run())
        if self._driver is not None:
            self._begin(self._driver.run())

    def check_loop(self) -> None:
        """Called from any thread."""
        if not self._is_threaded:
            check_loop(self._loop, "producer")

    def accumulated(self) -> None:
        """The accumulator has new work; called with the lock held, in any thread."""
        if not self._sending.take_sleep():
            return
        if self._is_threaded:
            self._loop.call_soon_threadsafe(self._sending.wake)
        else:
            self._sending.wake()

    async def flush(self, timeout_s: float | None = None) -> None:
        began_s = self._loop.time()
        try:
            async with asyncio.timeout(timeout_s):
                await _until_done(self._begin_flush())
                if self._is_unacknowledged:
                    # Closing it now could lose data in flight.
                    await self._client.until_read()
        except TimeoutError:
            raise TimedOut(f"not all records are delivered after {timeout_s:g} s") from None
        finally:
            self._metrics.waited("flush", self._loop.time() - began_s)

    async def finish(self) -> None:
        """Accepts no more records. Queued ones are sent, except those of a transaction, which is aborted."""
        with self._lock:
            self._accumulator.close()
        self.intake.close()
        if self.transaction_calls is not None:
            await self.transaction_calls.abort_open()
        await self.flush()

    async def stop(self, error: ClientError) -> None:
        """Fails undelivered records with this error."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with self._lock:
            self._accumulator.close()
            if self.transaction_calls is not None:
                self.transaction_calls.machine.close()
        self.intake.close()
        self._sender.abandon_all(error, self._loop.time())
        await self._client.close()

    def read_metrics(self) -> dict[str, float]:
        now_s = self._loop.time()
        told = self._metrics.read(now_s)
        with self._lock:
            pool = self._accumulator.pool
            told["buffer-total-bytes"] = pool.total_bytes
            told["buffer-available-bytes"] = pool.free_bytes
            told["waiting-threads"] = self.intake.waiting
        told["requests-in-flight"] = self._sender.in_flight
        return told

    # ---- helpers

    def _begin(self, work: Any) -> None:
        task = self._loop.create_task(work)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """Tasks end only by cancellation, or by an internal error."""
        if task.cancelled():
            if task in self._tasks:
                # Not by `stop`: the loop ends, and with it all its tasks.
                gone = in_another_loop("producer")
                self._on_failure(gone)
                self._sender.abandon_all(gone, self._loop.time())
            return
        if (cause := task.exception()) is None:
            return
        _log.critical("the producer has failed", exc_info=cause)
        error = ClientError(f"the producer has failed: {cause!r}")
        error.__cause__ = cause
        self._on_failure(error)
        self._sender.abandon_all(error, self._loop.time())
        if self.transaction_calls is not None:
            with self._lock:
                self.transaction_calls.machine.close()

    def _begin_flush(self) -> Iterable[ProducerBatch]:
        with self._lock:
            return self._accumulator.begin_flush()

    def _has_incomplete(self) -> bool:
        """Called with the lock held."""
        return self._sender.in_flight > 0 or bool(self._accumulator.waiting())

    def _progressed(self) -> None:
        if self._driver is not None:
            self._driver.wake()

    def _wake_driver(self) -> None:
        assert self._driver is not None
        if self._is_threaded:
            self._loop.call_soon_threadsafe(self._driver.wake)
        else:
            self._driver.wake()


async def _until_done(batches: Iterable[ProducerBatch]) -> None:
    left = 1
    all_done = asyncio.Event()

    def done(batch: ProducerBatch | None) -> None:
        nonlocal left
        left -= 1
        if not left:
            all_done.set()

    for batch in batches:
        left += 1
        batch.on_done(done)
    done(None)
    await all_done.wait()
