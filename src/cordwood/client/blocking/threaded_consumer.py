"""The async consumer with a thread in front of it: records are handed over in bulk, the application called there."""

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
"""Records of one partition. The iteration reports each as processed; it ends early when what is left is not to
be had any more."""

# To ask the other thread takes as long as to go through hundreds of records, and more on a busy machine.
_HANDED_RECORDS = 10_000


class ThreadedCore(Consumer):
    """Calls the application in the application's thread."""

    def __init__(self, topics: Collection[str], settings: ConsumerSettings, network: Network, portal: Portal) -> None:
        # On the loop's thread a deserializer that is slow would hold up heartbeats.
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
        """They were taken, and did not arrive: they come again."""
        self._give_back(records)

    async def hand(self) -> Handed:
        """Some records of one partition, whose processing is reported one by one."""
        running = self._ready()
        handed = await self._next(lambda: running.reader.buffers.hand((), _HANDED_RECORDS), None)
        assert handed is not None
        running.hand_out()
        return handed

    async def take_or_hand(self, most: int, timeout_ms: float | None) -> Handed | Records:
        """The records of one partition if there are more than `most`; else what there is of all."""
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
            # At once for a thread that has been handed records; the loop's thread may just be handing some out.
            running.is_due = True
            # It is closed: nobody reads. Without the portal's lock, which a signal may find taken by its own thread.
            with suppress(RuntimeError):
                running.loop.call_soon_threadsafe(running.wake)

    # ---- on the application's

    @property
    def running(self) -> Running:
        """The running consumer; its `is_due` means that the loop's thread may have work for the application. Raises
        `Closed`."""
        return self._ready()

    @property
    def is_intercepted(self) -> bool:
        return self._interceptors.see_records

    @property
    def in_hand(self) -> PartitionState | None:
        """Of the record that the application has got alone, and works on."""
        return self._in_hand

    @in_hand.setter
    def in_hand(self, state: PartitionState | None) -> None:
        self._in_hand = state

    def put_back(self) -> None:
        """That record does not count as read."""
        self._put_back()

    def intercepted(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Passes these records of one partition through the interceptors."""
        partition = TopicPartition(records[0].topic, records[0].partition)
        try:
            seen: Records = self._interceptors.on_consume({partition: records})
        except Exception:
            raise
        except BaseException:
            # Control-C: nobody gets these.
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
