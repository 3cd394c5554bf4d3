"""**Writer**: decides and writes, as the only one in the cluster for as long as nobody fences it (ADR 8).

A transactional id, the same for all registries of a topic, makes it so: initialising it aborts what the writer before
left open and fences it off. Whoever has done that and then read to the end knows all that is committed, and all that
can be until it writes itself. Concurrent requests share a transaction.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from cordwood.client.errors import ClientError, FatalTransactionError, RecordTooLarge, TransactionAbortable
from cordwood.client.producer.producer import Producer

from .replica import WRITER_HEADER, Replica
from .state.errors import RegistryError
from .state.records import Record
from .state.state import State

_log = logging.getLogger(__name__)

Decide = Callable[[State], tuple[Sequence[Record], Any]]
"""Records and a response, of the state with all that was decided before. May raise a `RegistryError`."""


class Fenced(Exception):
    """Another registry writes now. Nothing of the request was written."""


class OutcomeUnknown(Exception):
    """The transaction was not acknowledged."""


class _Pending(NamedTuple):
    decide: Decide
    done: asyncio.Future[Any]


class Writer:
    def __init__(self, producer: Producer, replica: Replica, topic: str, url: str) -> None:
        self._producer = producer
        self._replica = replica
        self._topic = topic
        self._headers = {WRITER_HEADER: url.encode()}
        self._state: State | None = None
        self._pending: list[_Pending] = []
        self._task: asyncio.Task[None] | None = None
        self.is_fenced = False

    async def take_over(self) -> None:
        """Raises a `ClientError`."""
        await self._producer.init_transactions()
        await self._replica.catch_up()
        self._state = self._replica.state.copy()

    async def write(self, decide: Decide) -> Any:
        """Returns the response once it is committed and in the replica's state. Raises `RegistryError`, `Fenced`,
        `OutcomeUnknown`."""
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending.append(_Pending(decide, done))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="schemas-writer")
        return await asyncio.shield(done)

    async def close(self) -> None:
        if self._task is not None:
            await asyncio.wait([self._task])
        try:
            await self._producer.close(timeout=1.0)
        except ClientError as error:
            _log.debug("Closing the writer of schemas: %s", error)

    async def _run(self) -> None:
        while self._pending:
            batch, self._pending = self._pending, []
            await self._write_batch(batch)

    async def _write_batch(self, batch: list[_Pending]) -> None:
        if self._state is None:
            self._fail(batch, Fenced())
            return
        decided: list[tuple[_Pending, Any]] = []
        records: list[Record] = []
        for pending in batch:
            try:
                own, response = pending.decide(self._state)
            except RegistryError as error:
                # It may rest on records of this batch: told when they are committed.
                decided.append((pending, error))
                continue
            except Exception as error:  # noqa: BLE001  # a bug: it costs this request only
                _set(pending, error)
                continue
            for record in own:
                self._state.replay(record)
            records += own
            decided.append((pending, response))
        try:
            offset = await self._commit(records) if records else self._replica.offset
        except (FatalTransactionError, TransactionAbortable) as error:
            # Brokers refused it, so nothing of it is committed. A fenced writer may be told either.
            _log.info("Another registry writes schemas now: %s", error)
            self._give_up()
            self._fail([pending for pending, _ in decided], Fenced())
            return
        except RecordTooLarge as error:
            self._give_up()
            self._fail([pending for pending, _ in decided], RegistryError(42209, f"Schema is too large: {error}"))
            return
        except ClientError as error:
            _log.warning("Writing to %s failed, its outcome is unknown: %s", self._topic, error)
            self._give_up()
            self._fail([pending for pending, _ in decided], OutcomeUnknown(str(error)))
            return
        await self._replica.reach(offset)
        for pending, response in decided:
            _set(pending, response)

    async def _commit(self, records: list[Record]) -> int:
        """The offset behind the last of them."""
        await self._producer.begin_transaction()
        deliveries = []
        for record in records:
            key, value = record.encoded()
            headers = self._headers | {name: text.encode() for name, text in record.headers.items()}
            deliveries.append(await self._producer.send(self._topic, value, key, partition=0, headers=headers))
        await self._producer.commit_transaction()
        return max([(await delivery).offset for delivery in deliveries]) + 1

    def _give_up(self) -> None:
        """The state is ahead of what is committed, perhaps: somebody begins anew."""
        self._state = None
        self.is_fenced = True

    def _fail(self, batch: list[_Pending], error: Exception) -> None:
        for pending in batch:
            _set(pending, error)


def _set(pending: _Pending, outcome: Any) -> None:
    if pending.done.done():
        return
    if isinstance(outcome, Exception):
        pending.done.set_exception(outcome)
    else:
        pending.done.set_result(outcome)
