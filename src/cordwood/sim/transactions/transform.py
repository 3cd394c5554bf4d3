"""Consume, transform, produce: what is read from one partition is written to others, exactly once.

The offset that it has come to is part of the transaction. Who is given the transactional id next goes on from there,
and fences whoever had it before.
"""

from cordwood.runtime.network import NetworkError
from cordwood.sim.client import Over, Run
from cordwood.sim.consumer import fetch_topics, note_read, partitions_of
from cordwood.sim.groups.coordinator import find_coordinator
from cordwood.sim.groups.offsets import Position, committed_offsets
from cordwood.sim.history import Seen
from cordwood.sim.partition import Partition
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import FetchRequest

from .producer import Died, Generation, Lost, TransactionalProducer

_FETCH_SINCE = 10
_MAX_PAUSE_S = 0.2
_MAX_AWAY_S = 2.0
_ABORT = 0.1


class Transform(TransactionalProducer):
    def __init__(
        self,
        run: Run,
        name: str,
        generation: Generation,
        timeout_ms: int,
        *,
        group: str,
        source: Partition,
        targets: list[Partition],
    ) -> None:
        super().__init__(run, name, f"{group}-{source[0]}-{source[1]}", generation, timeout_ms)
        self._group = group
        self._from = source
        self._targets = targets
        self._position = 0

    async def work(self) -> None:
        try:
            while True:
                try:
                    await self.initialize()
                    await self._look_up_position()
                    while True:
                        await self._step()
                        await self.pause(_MAX_PAUSE_S)
                except Lost:
                    await self.pause(_MAX_AWAY_S)
                except Died:
                    self.producer_id = -1
                    await self.pause(_MAX_AWAY_S)
        except Over:
            return

    async def _look_up_position(self) -> None:
        """Behind all that was committed: what is still pending is waited for."""
        await find_coordinator(self, self._group)
        while True:
            try:
                told = await committed_offsets(self, self._group, [self._from], require_stable=True)
            except NetworkError:
                told = ErrorCode.NETWORK_EXCEPTION
            if not isinstance(told, ErrorCode):
                self._position = max(told[self._from], 0)
                return
            await self.live_on()
            await self.pause(_MAX_PAUSE_S)

    async def _step(self) -> None:
        try:
            records, position = await self._poll()
        except NetworkError:
            return
        if position == self._position:
            return
        transaction = self.begin()
        for record in records:
            sends = await self.send(transaction, [self.source.choice(self._targets)])
            place = (self._group, *self._from, record.offset)
            for send in sends:
                self.run.history.transactions.inputs[send.values[0]] = place
        await self.commit_offsets(transaction, self._group, {self._from: Position(position, self.tenure)})
        commit = not self.chance(_ABORT)
        await self.end(transaction, commit=commit)
        if commit:
            self._position = position

    async def _poll(self) -> tuple[list[Seen], int]:
        request = FetchRequest(
            max_wait_ms=200,
            min_bytes=1,
            max_bytes=1_000,
            isolation_level=1,
            session_epoch=-1,
            topics=fetch_topics(self.run, {self._from: self._position}, 1_000),
        )
        begun_s = self.run.now_s
        response = await self.ask(request, self.source.randint(_FETCH_SINCE, FetchRequest.stable_versions.high))
        ((partition, data),) = partitions_of(self.run, response)
        read = note_read(self, partition, self._position, begun_s, data, is_alone=True, is_committed=True)
        return list(read.visible()), read.next_offset
