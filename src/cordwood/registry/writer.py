"""**Writer**: decides and writes, as the only one in the cluster until it is fenced (ADR 8).

Requests that come while a batch is being written share the next one. Each is decided on the state after all earlier
decisions, and answered when its batch is in all in-sync replicas and in the state that serves reads.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from cordwood.client.errors import ClientError

from .errors import TopicReplaced
from .fenced_log import BATCH_OVERHEAD, Fenced, FencedLog, OutcomeUnknown, StoredRecord
from .replica import WRITER_HEADER, Replica
from .state.errors import RegistryError
from .state.records import Record
from .state.state import State

_log = logging.getLogger(__name__)

Decide = Callable[[State], tuple[Sequence[Record], Any]]
"""Returns records and a response, given the state after all earlier decisions. May raise a `RegistryError`."""


class _Pending(NamedTuple):
    decide: Decide
    done: asyncio.Future[Any]


class Writer:
    def __init__(self, log: FencedLog, replica: Replica, url: str, max_batch_bytes: int) -> None:
        self._log = log
        self._replica = replica
        self._headers = {WRITER_HEADER: url.encode()}
        self._max_batch_bytes = max_batch_bytes - BATCH_OVERHEAD
        self._state: State | None = None
        self._pending: deque[_Pending] = deque()
        self._task: asyncio.Task[None] | None = None
        self._has_ended = False

    async def take_over(self) -> None:
        """Raises `Fenced`, `OutcomeUnknown`, `TopicReplaced`, or a `ClientError`."""
        offset = await self._log.take_over(self._replica.last_producer, self._headers)
        await self._replica.reach(offset)
        self._state = self._replica.state.copy()

    @property
    def is_fenced(self) -> bool:
        """As far as it knows."""
        return self._has_ended or not self._log.is_valid

    async def write(self, decide: Decide) -> Any:
        """Returns the response once it is committed and in the replica's state. Raises `RegistryError`, `Fenced`,
        `OutcomeUnknown`, or, if nothing was written, `TopicReplaced` or a `ClientError`."""
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending.append(_Pending(decide, done))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="schemas-writer")
        return await done

    async def close(self) -> None:
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while self._pending:
            await self._write_batch()

    async def _write_batch(self) -> None:
        if self._state is None:
            self._fail(list(self._pending), Fenced("this writer has ended"))
            self._pending.clear()
            return
        decided, records = self._decide(self._state)
        offset = self._replica.offset
        is_partly_written = False
        try:
            for batch in self._batches(records):
                offset = await self._log.append(batch)
                is_partly_written = True
        except (Fenced, OutcomeUnknown, TopicReplaced, ClientError) as error:
            _log.info("This registry stops writing schemas: %s", error)
            self._end()
            self._fail([pending for pending, _ in decided], OutcomeUnknown(str(error)) if is_partly_written else error)
            return
        except BaseException as error:
            self._end()
            self._fail([pending for pending, _ in decided], OutcomeUnknown(repr(error)))
            raise
        await self._replica.reach(offset)
        for pending, outcome in decided:
            _set(pending, outcome)

    def _decide(self, state: State) -> tuple[list[tuple[_Pending, Any]], list[StoredRecord]]:
        """Requests in their order, as many as fit one batch, with their outcomes; and their records."""
        decided: list[tuple[_Pending, Any]] = []
        records: list[StoredRecord] = []
        size = 0
        while self._pending and size < self._max_batch_bytes // 2:
            pending = self._pending.popleft()
            if pending.done.done():
                # It has timed out.
                continue
            try:
                own, response = pending.decide(state)
                stored = [self._stored(record) for record in own]
            except RegistryError as error:
                # It may depend on records of this batch, and is answered when they are committed.
                decided.append((pending, error))
                continue
            except Exception as error:  # noqa: BLE001  # a bug: it costs this request only
                _set(pending, error)
                continue
            own_size = sum(record.size for record in stored)
            for record in own:
                state.replay(record)
            records += stored
            size += own_size
            decided.append((pending, response))
        return decided, records

    def _stored(self, record: Record) -> StoredRecord:
        key, value = record.encoded()
        headers = self._headers | {name: text.encode() for name, text in record.headers.items()}
        stored = StoredRecord(key, value, headers)
        if stored.size + _STAMP_BYTES > self._max_batch_bytes:
            raise RegistryError(
                42209,
                f"Schema is too large: its record has {stored.size:,} bytes, and the topic takes "
                f"{self._max_batch_bytes:,} (max.message.bytes)",
            )
        return stored

    def _batches(self, records: Sequence[StoredRecord]) -> list[list[StoredRecord]]:
        """One, unless a single request has more records than a batch takes, as the end of a subject with very many
        versions: that is repeated until it is done."""
        batches: list[list[StoredRecord]] = []
        room = 0
        for record in records:
            size = record.size + _STAMP_BYTES
            if size > room:
                batches.append([])
                room = self._max_batch_bytes
            batches[-1].append(record)
            room -= size
        return batches

    def _end(self) -> None:
        """The state may be ahead of the committed log: it must be loaded again."""
        self._state = None
        self._has_ended = True

    def _fail(self, pending: Sequence[_Pending], error: Exception) -> None:
        for each in pending:
            _set(each, error)


# The size of the header that the log adds to each record.
_STAMP_BYTES = 50


def _set(pending: _Pending, outcome: Any) -> None:
    if pending.done.done():
        return
    if isinstance(outcome, Exception):
        pending.done.set_exception(outcome)
    else:
        pending.done.set_result(outcome)
