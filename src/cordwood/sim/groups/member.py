"""Common parts of members of either protocol: they read their partitions, commit, and end at some point."""

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass

from cordwood.runtime.network import NetworkError
from cordwood.sim.clients.client import Client, Over, Run
from cordwood.sim.clients.consumer import fetch_topics, note_read, partitions_of
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import FetchRequest

from .coordinator import UNAVAILABLE, find_coordinator
from .hands import Hands
from .offsets import Identity, commit_offsets, committed_offsets

_FETCH_SINCE = 10
_MAX_PAUSE_S = 0.15
_BACKOFF_S = 0.2
_MAX_AWAY_S = 3.0
_COMMIT = 0.5
_BEFORE_LETTING_GO = 0.5
_STABLE = 0.5
# Per turn of a member's loop; there are about five a second.
_DEATH = 0.02
_LEAVING = 0.02
_STALL = 0.03


class Fenced(Exception):
    """The coordinator does not know the member any more, or has another in its place."""


class Rebalancing(Exception):
    """The group is being rebalanced, and the member has to join it again."""


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """The behaviour of the members of one group."""

    group_id: str
    topics: tuple[str, ...]
    session_timeout_s: float
    rebalance_timeout_s: float
    # An empty group is recreated by a member that joins with the other protocol, and its generations start again.
    has_both_protocols: bool
    # Classic members keep their partitions during a rebalance (KIP-429).
    is_cooperative: bool


class Member(Client, ABC):
    def __init__(self, run: Run, name: str, plan: GroupPlan, instance_id: str | None) -> None:
        super().__init__(run, name)
        self.plan = plan
        self.instance_id = instance_id
        self.member_id = ""
        # Or member epoch.
        self.generation = -1
        # It does nothing that is not asked of it.
        self.is_calm = False
        self.hands = Hands(run, plan.group_id, plan.session_timeout_s, plan.rebalance_timeout_s)

    # ---- differs between the protocols

    @property
    @abstractmethod
    def identity(self) -> Identity: ...

    @abstractmethod
    async def join(self) -> None:
        """Returns as a member, or raises `Fenced`, `NetworkError`."""

    @abstractmethod
    async def heartbeat(self) -> None:
        """Sends a heartbeat if one is due. Raises `Fenced`, `Rebalancing`, `NetworkError`."""

    @abstractmethod
    async def leave(self) -> None:
        """Says so. Raises `NetworkError`."""

    @abstractmethod
    def forget_identity(self) -> None:
        """As a process that is started has none."""

    # ---- a life after the other

    async def work(self) -> None:
        try:
            while True:
                await find_coordinator(self, self.plan.group_id)
                try:
                    await self.join()
                    await self._live()
                except Fenced:
                    self.hands.let_go_of_all()
                    await self.pause(_BACKOFF_S)
                except Rebalancing:
                    continue
                except NetworkError:
                    await self.pause(_BACKOFF_S)
        except Over:
            return
        finally:
            self.hands.let_go_of_all()

    async def _live(self) -> None:
        """Acts as a member until it dies, leaves, or gets an error."""
        while True:
            if self.is_calm:
                pass
            elif self.chance(_STALL):
                # It stalls for so long that it may be considered dead, and then continues.
                await asyncio.sleep(self.plan.session_timeout_s * self.source.uniform(0.5, 2.0))
            elif self.chance(_DEATH):
                await self.die()
                return
            elif self.chance(_LEAVING):
                await self._depart()
                return
            try:
                await self.consume()
                await self.heartbeat()
            except NetworkError:
                await self.pause(_BACKOFF_S)
                await find_coordinator(self, self.plan.group_id)
            await self.pause(_MAX_PAUSE_S)

    async def die(self) -> None:
        """And be started again after a while."""
        self.hands.let_go_of_all()
        self.disconnect()
        self.forget_identity()
        await self.pause(_MAX_AWAY_S)

    async def _depart(self) -> None:
        await self.commit_before_letting_go()
        self.hands.let_go_of_all()
        try:
            await self.leave()
        except NetworkError:
            # Whether the request arrived or not: this process has ended.
            self.disconnect()
        self.forget_identity()
        await self.pause(_MAX_AWAY_S)

    # ---- reading and committing

    async def consume(self) -> None:
        """One turn of its loop. Raises `Fenced`, `Rebalancing`, `NetworkError`."""
        if self.hands.unknown:
            await self.look_up_positions(require_stable=self.chance(_STABLE))
        if self.hands.positions:
            await self._poll()
        if self.hands.positions and self.chance(_COMMIT):
            await self.commit()

    async def look_up_positions(self, *, require_stable: bool) -> None:
        told = await committed_offsets(
            self, self.plan.group_id, self.hands.unknown, self.identity, require_stable=require_stable
        )
        if isinstance(told, ErrorCode):
            self.note_error(told)
            return
        for partition, offset in told.items():
            if partition in self.hands:
                self.hands.positions[partition] = max(offset, 0)

    async def _poll(self) -> None:
        together = self.routes.led_together(list(self.hands.positions))
        wanted = {partition: self.hands.positions[partition] for partition in together}
        request = FetchRequest(
            max_wait_ms=self.source.choice((0, 10, 200)),
            min_bytes=1,
            max_bytes=self.source.choice((1_000, 1 << 20)),
            isolation_level=self.source.randrange(2),
            session_epoch=-1,
            topics=fetch_topics(self.run, wanted, self.source.choice((1_000, 1 << 20))),
        )
        begun_s = self.run.now_s
        response = await self.ask(request, self.source.randint(_FETCH_SINCE, FetchRequest.stable_versions.high))
        for partition, data in partitions_of(self.run, response):
            is_committed = bool(request.isolation_level)
            offset = wanted[partition]
            read = note_read(self, partition, offset, begun_s, data, is_alone=False, is_committed=is_committed)
            if not read.error:
                self.hands.positions[partition] = read.next_offset

    async def commit(self) -> None:
        positions = {partition: self.hands.position(partition) for partition in self.hands.positions}
        error = await commit_offsets(self, self.plan.group_id, positions, self.identity)
        if error:
            self.note_error(error)

    async def commit_before_letting_go(self) -> None:
        """As clients do in their rebalance listeners, mostly. Raises `Fenced`: others may have all of it already."""
        if not self.hands.positions or not self.chance(_BEFORE_LETTING_GO):
            return
        try:
            await self.commit()
        except (NetworkError, Rebalancing):
            return

    def note_error(self, error: ErrorCode) -> None:
        """Reacts to an error that any request may have."""
        if error in UNAVAILABLE:
            raise NetworkError(f"no coordinator: {error.name}")
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            raise Fenced(error.name)
        if error in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS):
            raise Rebalancing(error.name)
