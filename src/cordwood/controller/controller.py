"""The controller: a shard over the metadata log, active while this node leads the metadata quorum.

Its handlers are in `handlers/`. One that changes something has it decided: `controller.decide(lambda image: …)` with a
function of `metadata.controller`. A decision sees everything that was decided before it; its response comes when what
it wrote, and what it saw, is committed and was delivered to this node's own broker.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from cordwood.config.broker import BrokerConfig
from cordwood.metadata.batch import MetadataBatch
from cordwood.metadata.bootstrap import activation_records, bootstrap_version
from cordwood.metadata.controller.decision import ConfigSchema, ControllerDefaults
from cordwood.metadata.image import MetadataImage
from cordwood.metadata.loader import Loader
from cordwood.metadata.metadata_log import LeaderAndEpoch, MetadataLog
from cordwood.metadata.node_config import NodeConfig
from cordwood.runtime.clock import Clock
from cordwood.runtime.randomness import Random
from cordwood.shard.decision import Decision, ProducerIdAndEpoch
from cordwood.shard.promise import settled
from cordwood.shard.refusal import Refusal
from cordwood.shard.shard import Shard
from cordwood.shard.timers import Timers
from cordwood.wire.errors import ErrorCode
from cordwood.wire.schema import MetadataRecord, Versions

from .config_schema import config_schema

R = TypeVar("R")


class Controller:
    """The log's committed batches reach `loader` before they reach the controller, so that what it answers is in effect
    on this node. `bootstrap` are the records that the directory was formatted with, which the first controller of a
    cluster writes."""

    def __init__(
        self,
        cluster_id: str,
        config: NodeConfig,
        log: MetadataLog,
        loader: Loader,
        clock: Clock,
        random: Random,
        served_versions: Mapping[int, Versions],
        bootstrap: Sequence[MetadataRecord] = (),
    ) -> None:
        self.id = config.current.node_id
        self.cluster_id = cluster_id
        self.log = log
        self.clock = clock
        self.random = random
        self.served_versions = served_versions
        self._config = config
        self._loader = loader
        self._bootstrap = bootstrap
        # While this node leads the quorum.
        self._active: _ActiveController | None = None
        log.on_commit(self._committed)
        log.on_leader_change(self._leader_changed)

    @property
    def config(self) -> BrokerConfig:
        """With what is set dynamically."""
        return self._config.current

    @property
    def image(self) -> MetadataImage:
        """As of the last record that was committed."""
        return self._loader.image

    @property
    def kraft_version(self) -> int:
        return self.log.quorum.kraft_version

    @property
    def finalized(self) -> Mapping[str, int]:
        """The features' levels as they were decided: those of a new cluster may not be committed yet."""
        return (self.image if self._active is None else self._active.state.image).features

    @property
    def defaults(self) -> ControllerDefaults:
        config = self.config
        return ControllerDefaults(
            num_partitions=config.integer("num.partitions"),
            default_replication_factor=config.integer("default.replication.factor"),
            min_insync_replicas=config.integer("min.insync.replicas"),
            unclean_leader_election=config.flag("unclean.leader.election.enable"),
        )

    @property
    def config_schema(self) -> ConfigSchema:
        return config_schema(self.config)

    @property
    def next_offset(self) -> int:
        """The offset that the first record of the next decision gets."""
        return self.log.end_offset

    # Deciding

    async def decide(self, decision: Callable[[MetadataImage], Decision[R]]) -> R:
        """Returns the decision's response once it is committed. Raises Refusal: NOT_CONTROLLER if this node does not
        lead the quorum, or ceased to before the decision was committed."""
        if self._active is None:
            leader = self.log.leader
            raise Refusal(ErrorCode.NOT_CONTROLLER, f"node {self.id} is not the controller of epoch {leader.epoch}")
        return await settled(self._active.shard.decide(lambda state: decision(state.image)))

    async def decide_within(self, timeout_ms: int, decision: Callable[[MetadataImage], Decision[R]]) -> R:
        """As `decide`; Refusal REQUEST_TIMED_OUT if it is not committed in time: it may be committed later. Without any
        time nothing is decided, as in Kafka."""
        if timeout_ms > 0:
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    return await self.decide(decision)
            except TimeoutError:
                pass
        raise Refusal(ErrorCode.REQUEST_TIMED_OUT, f"the decision was not committed within {timeout_ms} ms")

    # Following the log

    def _leader_changed(self, leader: LeaderAndEpoch) -> None:
        if self._active is not None:
            refusal = Refusal(ErrorCode.NOT_CONTROLLER, f"node {self.id} is not the controller any more")
            self._active.shard.close(refusal)
            self._active = None
        if leader.leader_id == self.id:
            self._active = _ActiveController(self.log, leader.epoch, self.image, self.clock)
            if not self.image.features:
                # The log is new.
                records = activation_records(self._bootstrap, self.config.integer("min.insync.replicas"))
                self._active.shard.decide(lambda _state: Decision(None, records))

    def _committed(self, _batches: Sequence[MetadataBatch]) -> None:
        if self._active is not None:
            self._active.log.committed()


class _ActiveController:
    """An epoch in which this node leads."""

    def __init__(self, log: MetadataLog, epoch: int, image: MetadataImage, clock: Clock) -> None:
        self.state = ControllerState(image, clock)
        self.log = ControllerLog(log, epoch, self.state)
        self.shard = Shard(self.state, self.log, clock)


class ControllerState:
    """The metadata with everything that was decided, committed or not."""

    def __init__(self, image: MetadataImage, clock: Clock) -> None:
        self.timers = Timers(clock)
        self._loader = Loader(image)
        self._appended: list[MetadataBatch] = []

    @property
    def image(self) -> MetadataImage:
        return self._loader.image

    def appended(self, batch: MetadataBatch) -> None:
        """The batch that is replayed next."""
        self._appended.append(batch)

    def replay(self, records: Sequence[MetadataRecord], first_offset: int, producer_id: int) -> None:
        batch = self._appended.pop()
        assert batch.base_offset == first_offset
        self._loader.load(batch)


class ControllerLog:
    """The metadata log as a shard needs it (`ShardLog`), in one epoch."""

    def __init__(self, log: MetadataLog, epoch: int, state: ControllerState) -> None:
        self._log = log
        self._epoch = epoch
        self._state = state
        self._waiting: deque[tuple[int, Callable[[ErrorCode], None]]] = deque()

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def is_committed(self) -> bool:
        return self._log.high_watermark >= self._log.end_offset

    def append(self, records: Sequence[MetadataRecord], producer: ProducerIdAndEpoch | None) -> int:
        # Before its first records a cluster has no version: they set it.
        version = self._state.image.metadata_version or bootstrap_version(records)
        batch = self._log.append(records, self._epoch, version)
        self._state.appended(batch)
        return batch.base_offset

    def when_committed(self, end_offset: int, then: Callable[[ErrorCode], None]) -> None:
        self._waiting.append((end_offset, then))

    def committed(self) -> None:
        """The high watermark has moved, and the node's loader has what is below it."""
        high_watermark = self._log.high_watermark
        while self._waiting and self._waiting[0][0] <= high_watermark:
            self._waiting.popleft()[1](ErrorCode.NONE)
