"""Consume, transform, produce with the library (KIP-447): the records of a poll are written together with the
offsets."""

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.consumer import Consumer, Records
from cordwood.client.errors import TimedOut, TransactionAbortable
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.client.producer.producer import Producer
from cordwood.sim.clients.client import Run
from cordwood.sim.groups.member import GroupPlan
from cordwood.sim.partition import Partition

from .group_watch import Given
from .member import LibraryMember
from .transactor import Lost, Transactor

_ABORT = 0.1
_HESITATION = 0.15
_CLOSE_TIMEOUT_S = 0.5


class LibraryTransform(LibraryMember):
    """Each has its own transactional id, and commits within transactions only."""

    def __init__(
        self, run: Run, name: str, plan: GroupPlan, protocol: str, timeout_ms: int, targets: list[Partition]
    ) -> None:
        super().__init__(run, name, plan, None, protocol, commits=False)
        self._transactor = Transactor(self, name, timeout_ms)
        self._targets = targets
        self._producer: Producer | None = None

    def died(self) -> None:
        super().died()
        self._producer = None

    async def handle(self, consumer: Consumer, records: Records) -> None:
        if not records:
            return
        try:
            is_committed = await self._transform(consumer, records)
        except Lost:
            assert self._producer is not None
            producer, self._producer = self._producer, None
            await producer.close(timeout=self.source.random() * _CLOSE_TIMEOUT_S)
            # The group's offsets are unknown until the open transaction has ended: a successor of the producer ends it,
            # and a member that joins again fetches them.
            await self._initialized()
            await self._begin_anew(consumer)
            return
        if not is_committed:
            for partition, some in records.items():
                consumer.seek(partition, some[0].offset)
                self._watch.given[partition.topic, partition.partition] = Given(some[0].offset, some[0].offset)

    async def _transform(self, consumer: Consumer, records: Records) -> bool:
        """Returns whether it was committed; raises `Lost` where that is not known."""
        producer = self._producer if self._producer is not None else await self._initialized()
        await self._transactor.begin(producer)
        is_whole = True
        try:
            for partition, some in records.items():
                for record in some:
                    place = (self.plan.group_id, partition.topic, partition.partition, record.offset)
                    await self._transactor.send(producer, self.source.choice(self._targets), place)
            await self._transactor.send_offsets(producer, self._ends(records), consumer.group_metadata())
        except TransactionAbortable:
            is_whole = False
        if self.chance(_HESITATION):
            # Time for others to have its partitions.
            await self.pause(self.plan.session_timeout_s * 3)
        return await self._transactor.end(producer, commit=is_whole and not self.chance(_ABORT))

    async def _initialized(self) -> Producer:
        while True:
            producer = self._producer = await self._transactor.started()
            try:
                await self._transactor.initialize(producer)
                return producer
            except Lost:
                await producer.close(timeout=0)

    async def _begin_anew(self, consumer: Consumer) -> None:
        for topic, index in self.hands.held:
            offset = await self._committed(consumer, TopicPartition(topic, index))
            consumer.seek(TopicPartition(topic, index), offset)
            self._watch.given[topic, index] = Given(offset, offset)

    async def _committed(self, consumer: Consumer, partition: TopicPartition) -> int:
        """It cannot continue without it, however long the node is down."""
        while True:
            try:
                committed = (await consumer.committed(partition))[partition]
            except TimedOut:
                continue
            return 0 if committed is None else committed.offset

    def _ends(self, records: Records) -> dict[TopicPartition, OffsetAndMetadata]:
        group = self.plan.group_id
        ends = {}
        for partition, some in records.items():
            place, offset = (partition.topic, partition.partition), some[-1].offset + 1
            commit = self._transactor.new_commit(group, place, offset, self.hands.tenure_of(place))
            ends[partition] = OffsetAndMetadata(offset, str(commit.number))
        return ends
