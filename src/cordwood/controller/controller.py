"""The controller: a shard over the metadata log, active while this node leads the metadata quorum.

Its handlers are in `handlers/`. A handler that changes something calls `controller.decide(lambda image: …)` with a
function of `metadata.controller`. A decision sees everything that was decided before it; its response is sent when the
records that it wrote and read are committed and delivered to this node's own broker.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from cordwood.config.broker import BrokerConfig
from cordwood.config.own_keys import RECONNECT_GRACE_MS
from cordwood.metadata.bootstrap import activation_records, bootstrap_version
from cordwood.metadata.controller.brokers import Contact
from cordwood.metadata.controller.decision import ConfigSchema, ControllerDefaults
from cordwood.metadata.image import LeaderRecovery, MetadataImage
from cordwood.metadata.loader import Loader
from cordwood.metadata.metadata_log import LeaderAndEpoch, MetadataLog
from cordwood.metadata.node_config import NodeConfig
from cordwood.metadata.storage.batch import MetadataBatch
from cordwood.net.connection_info import ConnectionInfo
from cordwood.runtime.clock import Clock
from cordwood.runtime.randomness import Random
from cordwood.shard.decision import Decision, ProducerIdAndEpoch
from cordwood.shard.promise import settled
from cordwood.shard.refusal import Refusal
from cordwood.shard.shard import Shard
from cordwood.shard.timers import Timers
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.metadata_records.abort_transaction_record import AbortTransactionRecord
from cordwood.wire.messages.metadata_records.partition_change_record import PartitionChangeRecord
from cordwood.wire.schema import MetadataRecord, Versions

from .config_schema import config_schema
from .counts import ControllerCounts
from .membership import Membership, SessionSettings
from .schedule import Schedule

R = TypeVar("R")


class Controller:
    """The log's committed batches reach `loader` before they reach the controller, so that its answers are in effect on
    this node. `bootstrap` reads the records that the directory was formatted with, which the first controller of a
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
        bootstrap: Callable[[], Sequence[MetadataRecord]],
    ) -> None:
        self.id = config.current.node_id
        self.cluster_id = cluster_id
        self.log = log
        self.clock = clock
        self.random = random
        self.served_versions = served_versions
        self._config = config
        self.counts = ControllerCounts()
        self._loader = loader
        self._bootstrap = bootstrap
        # While this node leads the quorum.
        self._active: _ActiveController | None = None
        # The connections over which brokers send heartbeats: which broker, by the connection's id.
        self._heartbeat_connections: dict[int, int] = {}
        self._on_activation: list[Callable[[], None]] = []
        self._on_disconnect: list[Callable[[int], None]] = []
        log.on_commit(self._committed)
        log.on_leader_change(self._leader_changed)

    @property
    def config(self) -> BrokerConfig:
        """Including dynamic settings."""
        return self._config.current

    @property
    def image(self) -> MetadataImage:
        """The image as of the last committed record."""
        return self._loader.image

    @property
    def is_active(self) -> bool:
        return self._active is not None

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
        return await self.decide_on_members(lambda _members, image: decision(image))

    async def decide_on_members(self, decision: Callable[[Membership, MetadataImage], Decision[R]]) -> R:
        """As `decide`, for a decision that depends on the brokers' sessions."""
        if self._active is None:
            leader = self.log.leader
            raise Refusal(ErrorCode.NOT_CONTROLLER, f"node {self.id} is not the controller of epoch {leader.epoch}")
        members = self._active.members
        return await settled(self._active.shard.decide(lambda state: decision(members, state.image)))

    async def decide_within(self, timeout_ms: int, decision: Callable[[MetadataImage], Decision[R]]) -> R:
        """As `decide`; Refusal REQUEST_TIMED_OUT if it is not committed in time: it may be committed later. With a
        timeout of zero nothing is decided, as in Kafka."""
        if timeout_ms > 0:
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    return await self.decide(decision)
            except TimeoutError:
                pass
        raise Refusal(ErrorCode.REQUEST_TIMED_OUT, f"the decision was not committed within {timeout_ms} ms")

    def upgrade_kraft_version(self, level: int, *, validate_only: bool) -> None:
        """Raises the quorum's kraft.version, as a part of a decision: that is answered once it is committed."""
        self.log.upgrade_kraft_version(self.log.leader.epoch, level, validate_only=validate_only)

    # Connections of brokers

    def watch(self, connection: ConnectionInfo, broker_id: int) -> None:
        """Associates the broker with its heartbeat connection, whose end may mean that the broker has died."""
        if self._heartbeat_connections.get(connection.id) != broker_id:
            self._heartbeat_connections[connection.id] = broker_id
            connection.when_closed(lambda: self._disconnected(connection.id, broker_id))

    def _disconnected(self, connection_id: int, broker_id: int) -> None:
        self._heartbeat_connections.pop(connection_id, None)
        if self._active is not None:
            members = self._active.members
            self._active.shard.decide(lambda _state: members.disconnected(broker_id, connection_id))
            for listener in self._on_disconnect:
                listener(broker_id)

    def awaits(self, broker_id: int, broker_epoch: int) -> bool:
        """Returns whether this controller is active and still waits to hear from the broker."""
        contact = None if self._active is None else self._active.members.sessions.contact(broker_id, broker_epoch)
        return contact is Contact.OUT_OF_TOUCH

    def refused_connection(self, broker_id: int, broker_epoch: int) -> None:
        """The broker's listener refuses connections."""
        if self._active is not None:
            members = self._active.members
            self._active.shard.decide(lambda _state: members.refused(broker_id, broker_epoch))

    # Following the log

    def on_activation(self, listener: Callable[[], None]) -> None:
        """Calls the listener whenever this controller becomes active."""
        self._on_activation.append(listener)

    def on_disconnect(self, listener: Callable[[int], None]) -> None:
        """Calls the listener with the id of a broker whose heartbeat connection closed while this controller is
        active."""
        self._on_disconnect.append(listener)

    def _leader_changed(self, leader: LeaderAndEpoch) -> None:
        if self._active is not None:
            refusal = Refusal(ErrorCode.NOT_CONTROLLER, f"node {self.id} is no longer the controller")
            self._active.shard.close(refusal)
            self._active = None
        if leader.leader_id == self.id:
            self.counts.activations += 1
            self._active = _ActiveController(self, leader.epoch, self._loader.fork())
            records = self._activation_records()
            if records:
                self._active.shard.decide(lambda _state: Decision(None, records))
            for listener in self._on_activation:
                listener()

    def _activation_records(self) -> list[MetadataRecord]:
        """The records that a controller writes before its first decision."""
        records: list[MetadataRecord] = []
        if self._loader.in_transaction:
            # Its predecessor did not come to the end of it.
            records.append(AbortTransactionRecord(reason="the controller that started it is no longer active"))
        if not self.image.features:
            # The log is new, or its first transaction is the one that is aborted.
            records += activation_records(self._bootstrap(), self.config.integer("min.insync.replicas"))
        return records

    def _committed(self, _batches: Sequence[MetadataBatch]) -> None:
        if self._active is not None:
            self._active.log.committed()


class _ActiveController:
    """An epoch in which this node leads."""

    def __init__(self, controller: Controller, epoch: int, loader: Loader) -> None:
        config, clock = controller.config, controller.clock
        self.state = ControllerState(loader, clock, controller.counts)
        self.members = Membership(
            self.state.image,
            SessionSettings(config.integer("broker.session.timeout.ms"), config.integer(RECONNECT_GRACE_MS)),
            lambda: controller.defaults,
            self.state.timers,
            clock,
            controller.counts,
        )
        self.log = ControllerLog(controller.log, epoch, self.state)
        self.shard = Shard(self.state, self.log, clock)
        Schedule(controller.id, config, lambda: controller.defaults, self.state.timers)
        self.shard.loaded()


class ControllerState:
    """The metadata with everything that was decided, committed or not."""

    def __init__(self, loader: Loader, clock: Clock, counts: ControllerCounts) -> None:
        self.timers = Timers(clock)
        self._loader = loader
        self._clock = clock
        self._counts = counts
        # Elections that are decided and not committed yet: the end of their records, how many, and when.
        self._elections: deque[tuple[int, int, float]] = deque()
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
        before = self.image
        self._loader.load(batch)
        elections = self._count(before, records)
        if elections:
            self._elections.append((first_offset + len(records), elections, self._clock.monotonic()))

    def committed(self, high_watermark: int) -> None:
        while self._elections and self._elections[0][0] <= high_watermark:
            _, elections, decided_s = self._elections.popleft()
            self._counts.elections += elections
            self._counts.election_time_ms += elections * (self._clock.monotonic() - decided_s) * 1000

    def _count(self, before: MetadataImage, records: Sequence[MetadataRecord]) -> int:
        """Returns how many partitions get another leader."""
        elections = 0
        for record in records:
            if isinstance(record, PartitionChangeRecord) and record.leader >= 0:
                topic = before.topics.by_id.get(record.topic_id)
                partition = None if topic is None else topic.partitions.get(record.partition_id)
                if partition is None or record.leader == partition.leader:
                    continue
                elections += 1
                self._counts.unclean_elections += record.leader_recovery_state == LeaderRecovery.RECOVERING
                self._counts.elr_elections += record.leader in partition.elr
        return elections


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
        """Handles a new high watermark; the node's loader has applied everything below it."""
        high_watermark = self._log.high_watermark
        self._state.committed(high_watermark)
        while self._waiting and self._waiting[0][0] <= high_watermark:
            self._waiting.popleft()[1](ErrorCode.NONE)
