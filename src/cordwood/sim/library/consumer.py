"""A consumer of the library with manually assigned partitions: it polls, seeks, pauses, and restarts."""

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.consumer import Consumer, Records
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.sim.clients.client import Client, Run
from cordwood.sim.histories.history import Partition, Promise, Read, Seen

from .life import LibraryClient
from .tap import Tap

_MAX_PAUSE_S = 0.15
_SEEK = 0.08
_REWIND = 0.02
_PAUSE = 0.05
_CLOSE = 0.02


class LibraryConsumer(LibraryClient):
    def __init__(self, run: Run, name: str, partitions: list[Partition], *, is_committed: bool | None = None) -> None:
        """`is_committed`: whether it reads committed records only; None: chosen for each of its lives."""
        super().__init__(run, name)
        self._partitions = partitions
        self._is_committed = is_committed
        self._tap = Tap(run, run.world.network.host(name))
        # The next offset of each partition.
        self._positions: dict[Partition, int] = {}

    async def live(self) -> None:
        is_committed = bool(self.source.randrange(2)) if self._is_committed is None else self._is_committed
        consumer = await self._begun(is_committed)
        consumer.assign([TopicPartition(*partition) for partition in self._partitions])
        self._positions = dict.fromkeys(self._partitions, 0)
        while not self.run.is_over:
            begun_s = self.run.now_s
            records = await consumer.getmany(
                timeout_ms=self.source.choice((0, 50, 500)), max_records=self.source.choice((1, 5, 500))
            )
            note_poll(self, records, self._positions, begun_s, is_committed=is_committed)
            self._wander(consumer)
            if self.chance(_CLOSE):
                await consumer.close()
                return
            await self.pause(_MAX_PAUSE_S)

    async def _begun(self, is_committed: bool) -> Consumer:
        source = self.source
        settings = ConsumerSettings(
            **self.network_settings(),
            client_id=self.name,
            auto_offset_reset="earliest",
            isolation_level="read_committed" if is_committed else "read_uncommitted",
            fetch_min_bytes=source.choice((1, 1, 10_000)),
            fetch_max_wait_ms=source.choice((50, 500)),
            fetch_max_bytes=source.choice((1, 1_000, 1 << 20)),
            max_partition_fetch_bytes=source.choice((1, 1_000, 1 << 20)),
        )
        return await self.started_consumer(settings, self._tap)

    def _wander(self, consumer: Consumer) -> None:
        partition = self.source.choice(self._partitions)
        chosen = TopicPartition(*partition)
        if self.chance(_SEEK):
            self._positions[partition] = self.source.randrange(self._positions[partition] + 1)
            consumer.seek(chosen, self._positions[partition])
        elif self.chance(_REWIND):
            self._positions[partition] = 0
            consumer.seek_to_beginning(chosen)
        if consumer.paused():
            consumer.resume(*sorted(consumer.paused()))
        elif self.chance(_PAUSE):
            consumer.pause(chosen)


def note_poll(
    client: Client, records: Records, positions: dict[Partition, int], begun_s: float, *, is_committed: bool
) -> None:
    """Records the result of a poll, and advances `positions`."""
    run = client.run
    for chosen, some in records.items():
        partition = (chosen.topic, chosen.partition)
        next_offset = some[-1].offset + 1
        if run.history.promise is not Promise.PREFIX:
            # A poll returns records fetched some time before: if a power loss may come in between, the time is unknown.
            read = Read(
                client.name,
                partition,
                run.machine.incarnation,
                begun_s,
                run.now_s,
                positions.get(partition, some[0].offset),
                error=0,
                high_watermark=-1,
                start_offset=-1,
                records=tuple(Seen(record.offset, record.timestamp, record.value or b"") for record in some),
                next_offset=next_offset,
                is_polled=True,
                is_committed=is_committed,
            )
            run.history.reads.append(read)
        positions[partition] = next_offset
