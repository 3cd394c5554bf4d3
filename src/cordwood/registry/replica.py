"""**Replica**: the committed state, which follows the schemas topic."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from cordwood.client.admin.admin import Admin
from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.consumer import Consumer
from cordwood.client.errors import ClientError
from cordwood.client.offsets import OffsetSpec
from cordwood.wire.primitives import ZERO_UUID, Uuid

from .errors import TopicReplaced
from .fenced_log import PRODUCER_HEADER, ProducerStamp
from .state.state import State

_log = logging.getLogger(__name__)

WRITER_HEADER = "cordwood-writer"
"""A header of every record: the URL of the registry that wrote it."""

_POLL_MS = 500
_RETRY_S = 1.0


class Replica:
    def __init__(self, consumer: Consumer, admin: Admin, topic: str) -> None:
        self.state = State()
        self.generation = 0
        """Grows with each change of the state."""
        self.last_writer: str | None = None
        self.last_producer: ProducerStamp | None = None
        self._consumer = consumer
        self._admin = admin
        self._partition = TopicPartition(topic, 0)
        self._moved = asyncio.Event()
        self._topic_id = ZERO_UUID
        self._offset = 0
        self._task: asyncio.Task[None] | None = None

    async def start(self, topic_id: Uuid = ZERO_UUID) -> None:
        """Reads everything available. With `topic_id`, stops at the end of that topic if another one has its name."""
        self._topic_id = topic_id
        self._consumer.assign([self._partition])
        self._consumer.seek_to_beginning(self._partition)
        self._task = asyncio.create_task(self._follow(), name="schemas-replica")
        await self.catch_up()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError, TopicReplaced):
                await self._task

    @property
    def offset(self) -> int:
        """Everything before it is in the state."""
        return self._offset

    async def catch_up(self) -> None:
        """Waits until everything is read that was committed when it was called. Raises `TopicReplaced`, or a
        `ClientError`."""
        found = await self._admin.list_offsets({self._partition: OffsetSpec.LATEST}, read_committed=True)
        await self.reach(found[self._partition].offset)

    async def reach(self, offset: int) -> None:
        while self._offset < offset:
            if self._task is not None and self._task.done():
                self._task.result()
            self._moved.clear()
            await self._moved.wait()

    async def _follow(self) -> None:
        while True:
            try:
                await self._read()
            except TopicReplaced as error:
                _log.error("%s", error)
                # Wakes those that wait for more: they raise it.
                self._moved.set()
                raise
            except ClientError as error:
                _log.warning("Reading the schemas topic failed, retrying in %g s: %s", _RETRY_S, error)
                await asyncio.sleep(_RETRY_S)

    async def _read(self) -> None:
        found = await self._consumer.poll(timeout_ms=_POLL_MS)
        read_from = [records[0].offset for records in found.values() if records]
        await self._check_topic(read_from[0] if read_from else await self._consumer.position(self._partition))
        for records in found.values():
            for record in records:
                headers = {name: (value or b"").decode() for name, value in record.headers}
                self.state.replay_bytes(record.key, record.value, headers)
                self.last_writer = headers.get(WRITER_HEADER)
                self.last_producer = ProducerStamp.read(headers.get(PRODUCER_HEADER, ""))
            self.generation += 1
        # Also past control records, which are not given.
        self._offset = await self._consumer.position(self._partition)
        self._moved.set()

    async def _check_topic(self, offset: int) -> None:
        """Raises `TopicReplaced` if offsets begin anew because it is another topic."""
        if offset >= self._offset or self._topic_id == ZERO_UUID:
            return
        topic = self._partition.topic
        try:
            described = (await self._admin.describe_topics([topic]))[topic]
        except ClientError:
            self._consumer.seek(self._partition, offset)
            raise
        if described.id != self._topic_id:
            raise TopicReplaced(topic)
