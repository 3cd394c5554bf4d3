"""A shard of the group coordinator in virtual time, with a log in memory that can refuse: for classic groups."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from cordwood.config.broker import BrokerConfig
from cordwood.coordinator.groups.classic.classic_group import ClassicGroup
from cordwood.coordinator.groups.classic.join import Joining
from cordwood.coordinator.groups.classic_requests import heartbeat, join_group, leave_group, sync_group
from cordwood.coordinator.groups.shard_state import GroupShardState
from cordwood.coordinator.record import CoordinatorRecord
from cordwood.metadata.image import MetadataImage
from cordwood.runtime.randomness import SeededRandom
from cordwood.shard.decision import Decision, ProducerIdAndEpoch
from cordwood.shard.promise import Promise
from cordwood.shard.refusal import Refusal
from cordwood.shard.shard import Shard
from cordwood.sim.world import World
from cordwood.wire.errors import ErrorCode
from cordwood.wire.frames import encode_coordinator_key, encode_coordinator_value
from cordwood.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from cordwood.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from cordwood.wire.messages.leave_group import LeaveGroupResponse, MemberIdentity
from cordwood.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

T = TypeVar("T")

GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
INITIAL_DELAY_MS = 3_000
_SETTINGS = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@localhost:9093",
    "group.initial.rebalance.delay.ms": str(INITIAL_DELAY_MS),
}


class Asked(Generic[T]):
    """The outcome of a request."""

    def __init__(self, result: T | Promise[T]) -> None:
        self._result = result

    @property
    def waits(self) -> bool:
        return isinstance(self._result, Promise) and not self._result.done

    @property
    def response(self) -> T:
        """Raises a Refusal that it was answered with."""
        assert not self.waits
        return self._result.result() if isinstance(self._result, Promise) else self._result


class MemoryLog:
    """A `ShardLog` in which everything is committed at once. Records have to be such that they can be written."""

    is_committed = True

    def __init__(self) -> None:
        self.records: list[CoordinatorRecord] = []
        self.refusal: Refusal | None = None

    @property
    def end_offset(self) -> int:
        return len(self.records)

    def append(self, records: Sequence[CoordinatorRecord], producer: ProducerIdAndEpoch | None) -> int:
        if self.refusal is not None:
            raise self.refusal
        for key, value, version in records:
            encode_coordinator_key(key)
            if value is not None:
                encode_coordinator_value(value, version)
        self.records += records
        return len(self.records) - len(records)

    def when_committed(self, end_offset: int, then: Callable[[ErrorCode], None]) -> None:
        then(ErrorCode.NONE)


class Stage:
    def __init__(self, world: World, settings: dict[str, str]) -> None:
        self._config = BrokerConfig({**_SETTINGS, **settings})
        self._world = world
        self._random = SeededRandom(1)
        self.log = MemoryLog()
        self.state = self._new_state()
        self.shard = Shard(self.state, self.log, world.clock, lambda: 5_000)

    def _new_state(self) -> GroupShardState:
        return GroupShardState(
            self._world.clock, self._random, lambda: self._config, MetadataImage, lambda _group_id: {}
        )

    @property
    def group(self) -> ClassicGroup:
        group = self.state.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    def load_again(self) -> None:
        """As after a failover: what is not in the log is gone."""
        self.shard.close(Refusal(ErrorCode.NOT_COORDINATOR, "another loads it"))
        self.state = self.loaded_state()
        self.shard = Shard(self.state, self.log, self._world.clock, lambda: 5_000)
        self.shard.loaded()

    def loaded_state(self) -> GroupShardState:
        state = self._new_state()
        for offset, record in enumerate(self.log.records):
            state.replay([record], offset, -1)
        state.loaded()
        return state

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def ask(self, decision: Callable[[GroupShardState], Decision[T]]) -> Asked[T]:
        return Asked(self.shard.decide(decision))

    # Requests

    def join(
        self,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        protocols: str = "range:m",
        version: int = 9,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
    ) -> Asked[JoinGroupResponse]:
        """`protocols` are `name:metadata`, separated by blanks."""
        offered = [(name, metadata.encode()) for name, _, metadata in (one.partition(":") for one in protocols.split())]
        request = JoinGroupRequest(
            group_id=GROUP,
            member_id=member_id,
            group_instance_id=instance_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in offered],
        )
        joining = Joining(request, version, "client", "/127.0.0.1", tuple(offered))
        return self.ask(lambda state: join_group(state, joining))

    def join_first(self, **options: Any) -> tuple[str, Asked[JoinGroupResponse]]:
        """As a new member does: for a member id, and with it."""
        member_id = self.join(**options).response.member_id
        return member_id, self.join(member_id, **options)

    def sync(
        self, member_id: str, generation: int, *, instance_id: str | None = None, **assignments: str
    ) -> Asked[SyncGroupResponse]:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=name, assignment=assignment.encode())
                for name, assignment in assignments.items()
            ],
        )
        return self.ask(lambda state: sync_group(state, request))

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None = None) -> Asked[HeartbeatResponse]:
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=generation, member_id=member_id, group_instance_id=instance_id
        )
        return self.ask(lambda state: heartbeat(state, request))

    def leave(self, *member_ids: str) -> Asked[LeaveGroupResponse]:
        leaving = [MemberIdentity(member_id=member_id) for member_id in member_ids]
        return self.ask(lambda state: leave_group(state, GROUP, leaving))

    # Beginnings

    async def stable(self, *names: str, **options: Any) -> list[str]:
        """A stable group at generation 1: dynamic members, or static ones of these names; the first of them leads."""
        if names:
            joins = [self.join(instance_id=name, **options) for name in names]
        else:
            joins = [self.join_first(**options)[1] for _ in range(2)]
        await self.wait(2 * INITIAL_DELAY_MS / 1000)
        ids = [join.response.member_id for join in joins]
        for member_id in reversed(ids):
            self.sync(member_id, 1, **({each: f"for {n}" for n, each in enumerate(ids)} if member_id == ids[0] else {}))
        assert self.group.state_name == "Stable"
        return ids


def play(test: Callable[[Stage], Awaitable[None]], **settings: str) -> None:
    """Settings by their names, with underscores for dots."""
    world = World(1)

    async def main() -> None:
        await test(Stage(world, {name.replace("_", "."): value for name, value in settings.items()}))

    world.run(main())
