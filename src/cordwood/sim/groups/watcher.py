"""An outside observer of a group, which asks now and then how far it is, and resets its offsets when it is empty."""

from cordwood.runtime.network import NetworkError
from cordwood.sim.clients.client import Client, Over, Run
from cordwood.wire.errors import ErrorCode

from .coordinator import find_coordinator
from .offsets import NOBODY, Position, commit_offsets, committed_offsets

_MAX_PAUSE_S = 1.5
_RESET = 0.2
_BACKOFF_S = 0.3


class Watcher(Client):
    def __init__(self, run: Run, name: str, group_id: str, *, resets: bool = True) -> None:
        super().__init__(run, name)
        self._group_id = group_id
        self._resets = resets

    async def work(self) -> None:
        try:
            await find_coordinator(self, self._group_id)
            while True:
                await self.pause(_MAX_PAUSE_S)
                try:
                    await self._ask(self)
                    if self._resets and self.chance(_RESET):
                        await self._reset()
                except NetworkError:
                    continue
        except Over:
            return

    async def look(self, judge: Client) -> None:
        """At the end of the run: repeats until it gets an answer."""
        while True:
            try:
                if await self._ask(judge):
                    return
            except NetworkError:
                pass
            await judge.pause(_BACKOFF_S)

    async def _ask(self, client: Client) -> bool:
        told = await committed_offsets(
            client, self._group_id, list(self.run.partitions), require_stable=client.chance(0.5)
        )
        return not isinstance(told, ErrorCode)

    async def _reset(self) -> None:
        """The coordinator rejects this while the group has members."""
        partition = self.source.choice(self.run.partitions)
        position = Position(self.source.randrange(3))
        await commit_offsets(self, self._group_id, {partition: position}, NOBODY)
