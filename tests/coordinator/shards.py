"""A shard with a state that is easy to look at, on a partition of a simulated disk, in virtual time."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from cordwood.broker.start.standalone import standalone_config
from cordwood.config.layers import Layer
from cordwood.config.topic import topic_config
from cordwood.coordinator.partition_log import PartitionLog
from cordwood.coordinator.record import CoordinatorRecord
from cordwood.log.log import Log
from cordwood.log.recovery import open_log
from cordwood.metadata.image import PartitionRegistration as PartitionState
from cordwood.replica.partition import Partition, Replication
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import DiskError
from cordwood.runtime.randomness import SeededRandom
from cordwood.shard.decision import Decision
from cordwood.shard.shard import Shard
from cordwood.shard.timers import Timers
from cordwood.sim.virtual.disk import SimDisk
from cordwood.sim.world import World
from cordwood.wire.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue

BROKER, OTHER = 1, 2
TIMEOUT_MS = 5_000
_LIMIT_S = 100_000.0
_CONFIG = standalone_config(Layer("test", {"log.dirs": "/data"}), port=0)
_REPLICATION = Replication(lag_time_max_ms=30_000, backoff_ms=1_000, propose_isr=lambda _partition, _proposal: None)


class HandClock:
    """Moved by the test."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


class Diary:
    """The state: every record that was replayed, as (name, log offset, producer id)."""

    def __init__(self, clock: Clock) -> None:
        self.timers = Timers(clock)
        self.entries: list[tuple[str, int, int]] = []
        self.ended: list[tuple[int, bool]] = []
        self.is_loaded = False

    @property
    def names(self) -> list[str]:
        return [name for name, _, _ in self.entries]

    def replay(self, records: Sequence[Any], first_offset: int, producer_id: int) -> None:
        for offset, record in enumerate(records, first_offset):
            self.entries.append((record.key.group, offset, producer_id))

    def replay_end_txn(self, producer_id: int, *, commit: bool) -> None:
        self.ended.append((producer_id, commit))

    def loaded(self) -> None:
        self.is_loaded = True


def entry(name: str, metadata: str = "") -> CoordinatorRecord:
    key = OffsetCommitKey(group=name, topic="t", partition=0)
    return CoordinatorRecord(key, OffsetCommitValue(offset=0, metadata=metadata, commit_timestamp=0), 4)


def writes(*names: str, response: str = "written", **more: Any) -> Callable[[Diary], Decision[str]]:
    return lambda _diary: Decision(response, [entry(name) for name in names], **more)


def reads() -> Callable[[Diary], Decision[list[str]]]:
    return lambda diary: Decision(list(diary.names))


class Stage:
    """One shard, its partition and its disk. With `flush_messages="1"` what is written is committed by `flush`."""

    def __init__(self, world: World, **settings: str) -> None:
        self.world = world
        self.clock = world.clock
        self.disk = SimDisk(random.Random(1), root="/data", now_ms=self.clock.now_ms)
        config = topic_config(_CONFIG, {name.replace("_", "."): value for name, value in settings.items()})
        self.disk.make_directory("t-0")
        log = open_log(self.disk, "t-0", config.log, SeededRandom(1), now_ms=self.clock.now_ms())
        self.partition = Partition(
            "t", 0, bytes(16), BROKER, _state(BROKER), log, config, self.clock, _REPLICATION, lambda _partition: None
        )
        self.disk_errors: list[DiskError] = []
        self.diary = Diary(self.clock)
        self.shard_log = PartitionLog(self.partition, self.clock, self.disk_errors.append)
        self.performed: list[Any] = []
        self.shard = Shard(self.diary, self.shard_log, self.clock, lambda: TIMEOUT_MS, self)

    def perform(self, _shard: Shard[Diary], effect: Any) -> None:
        self.performed.append(effect)

    @property
    def log(self) -> Log:
        assert self.partition.log is not None
        return self.partition.log

    def flush(self) -> None:
        self.log.flush(self.clock.now_ms())
        self.partition.flushed()

    def another_leads(self) -> None:
        self.partition.update(_state(OTHER), self.partition.config)


def _state(leader: int) -> PartitionState:
    return PartitionState(replicas=(BROKER, OTHER), isr=(leader,), leader=leader, leader_epoch=0, partition_epoch=0)


def on_stage(test: Callable[[Stage], Awaitable[None]], **settings: str) -> None:
    """Settings of the topic by their names, with underscores for dots."""
    world = World(1, limit_s=_LIMIT_S)

    async def main() -> None:
        await test(Stage(world, **settings))

    world.run(main())
