"""An async consumer behind a thread: records are handed over in bulk, and the application's code is called in its own
thread."""

import inspect
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from operator import length_hint
from typing import Any, Self

from cordwood.client.blocking.deserializing import DeserializingInterceptors
from cordwood.client.blocking.portal import Portal
from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.consumer import Consumer, Records
from cordwood.client.consumer.offsets.positions import PartitionState
from cordwood.client.consumer.running import Running
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.runtime.network import Network
from cordwood.runtime.sockets import SocketNetwork
from cordwood.wire.record import ConsumerRecord

Handed = tuple[PartitionState, Iterator[ConsumerRecord]]
"""Records of one partition. The iteration marks each as processed; it ends early if the rest is no longer valid."""

# Switching to the other thread takes as long as processing hundreds of records, and more on a busy machine.
_HANDED_RECORDS = 10_000


class ThreadedCore(Consumer):
    """Calls the application in the application's thread."""

    def __init__(self, topics: Collection[str], settings: ConsumerSettings, network: Network, portal: Portal) -> None:
        # On the loop's thread a slow deserializer would delay heartbeats.
        without = replace(settings, key_deserializer=None, value_deserializer=None)
        super().__init__(*topics, settings=without, network=network)
        self._portal = portal
        self._interceptors = DeserializingInterceptors(settings, self._seek_back)

    @classmethod
    async def started(cls, topics: Collection[str], settings: ConsumerSettings, portal: Portal) -> Self:
        core = cls(topics, settings, SocketNetwork(), portal)
        await core.start()
        return core

    def most(self, max_records: int | None) -> int:
        return self._most(max_records)

    # ---- on the loop's thread

    def give_back(self, records: Records) -> None:
        """Returns records that were taken but not received; they are delivered again."""
        self._give_back(records)

    async def hand(self) -> Handed:
        """Returns some records of one partition, which are marked as processed one by one."""
        running = self._ready()
        handed = await self._next(lambda: running.reader.buffers.hand((), _HANDED_RECORDS), None)
        assert handed is not None
        running.hand_out()
        return handed

    async def take_or_hand(self, most: int, timeout_ms: float | None) -> Handed | Records:
        """Returns a partition's records in bulk if there are more than `most`; else all available records."""
        running = self._ready()
        buffers = running.reader.buffers

        def take() -> Handed | Records:
            handed = buffers.hand((), _HANDED_RECORDS)
            if handed is not None and length_hint(handed[1]) > most:
                return handed
            return buffers.take((), most)

        found = await self._next(take, timeout_ms)
        if not isinstance(found, tuple):
            return await self._shown(found)
        running.hand_out()
        return found

    # ---- on any thread

    def wake_reader(self) -> None:
        self._turns.is_woken = True
        running = self._running
        if running is not None:
            # Takes effect at once for a thread with handed-over records; the loop's thread may be handing some out
            # right now.
            running.is_due = True
            # The consumer is closed, so there are no readers. Don't take the portal's lock: a signal handler may
            # interrupt the thread that holds it.
            with suppress(RuntimeError):
                running.loop.call_soon_threadsafe(running.wake)

    # ---- on the application's thread

    @property
    def running(self) -> Running:
        """The running consumer; its `is_due` means that the loop's thread may have work for this thread. Raises
        `Closed`."""
        return self._ready()

    @property
    def is_intercepted(self) -> bool:
        return self._interceptors.see_records

    @property
    def in_hand(self) -> PartitionState | None:
        """The partition of the single record that the application is processing."""
        return self._in_hand

    @in_hand.setter
    def in_hand(self, state: PartitionState | None) -> None:
        self._in_hand = state

    def put_back(self) -> None:
        """Marks that record as unread."""
        self._put_back()

    def intercepted(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Passes these records of one partition through the interceptors."""
        partition = TopicPartition(records[0].topic, records[0].partition)
        try:
            seen: Records = self._interceptors.on_consume({partition: records})
        except Exception:
            raise
        except BaseException:
            # Ctrl-C: these records are not delivered.
            self._seek_back(partition, records[0].offset)
            raise
        return [record for each in seen.values() for record in each]

    def _seek_back(self, partition: TopicPartition, offset: int) -> None:
        async def seek() -> None:
            self.seek(partition, offset)

        self._portal.run(seek())

    async def _call(self, callback: Callable[..., Any], *args: Any) -> Any:
        result = await self._portal.in_caller(callback, *args)
        return await result if inspect.isawaitable(result) else result
