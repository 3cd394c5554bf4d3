"""Consume, transform, produce: records of one partition are written to others, exactly once. The input offset is part
of the transaction. The next owner of the transactional id continues from there, and fences the previous one.
"""

from cordwood.runtime.network import NetworkError
from cordwood.sim.clients.client import Over, Run
from cordwood.sim.groups.coordinator import find_coordinator
from cordwood.sim.groups.offsets import Position, committed_offsets
from cordwood.sim.partition import Partition
from cordwood.wire.errors import ErrorCode

from .producer import Died, Generation, Lost, TransactionalProducer
from .transformation import read_committed, transformed

_MAX_PAUSE_S = 0.2
_MAX_AWAY_S = 2.0


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
        """After everything committed: waits for pending offsets."""
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
            read = await read_committed(self, self._from, self._position)
        except NetworkError:
            return
        if read.next_offset == self._position:
            return
        position = Position(read.next_offset, self.tenure)
        if await transformed(self, self._group, read, self._targets, position):
            self._position = read.next_offset
