"""A broker's membership in the cluster: registration, unfencing by heartbeats, controlled shutdown.

All of it consists of requests to the controller (BrokerRegistration, BrokerHeartbeat, AlterPartition).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from cordwood.broker.start.log_dirs import CannotStart
from cordwood.log.dirs.directories import LogDirectories
from cordwood.metadata.delta import MetadataDelta
from cordwood.metadata.endpoints import Addresses
from cordwood.metadata.image import LeaderRecovery, MetadataImage
from cordwood.metadata.loader import Loader
from cordwood.metadata.node_config import NodeConfig
from cordwood.runtime.randomness import Random, new_uuid
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from cordwood.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from cordwood.wire.primitives import Uuid

from .channel import ControllerChannel
from .registration import broker_registration

_log = logging.getLogger(__name__)

# Back-off before a registration or an important heartbeat is retried.
_RETRY_S = 0.1


class Superseded(Exception):
    """Another incarnation of this broker is registered: another node has the same node.id, with a copy of its
    directory, or has replaced a node that lost contact."""


class Lifecycle:
    """`epoch` is that of this start of the broker; -1 until it is registered.

    A publisher of the node's loader: the broker asks to be unfenced once it has seen its own registration, and again
    whenever it finds itself fenced. `failed` is called with `Superseded` when another incarnation of the broker is
    registered, since the metadata then describes that one.
    """

    def __init__(
        self,
        node_config: NodeConfig,
        cluster_id: str,
        controller: ControllerChannel,
        loader: Loader,
        directories: LogDirectories,
        random: Random,
        failed: Callable[[Exception], None],
    ) -> None:
        self.id = node_config.current.node_id
        self.epoch = -1
        self.is_superseded = False
        self._node_config = node_config
        self._cluster_id = cluster_id
        self._controller = controller
        self._loader = loader
        self._directories = directories
        self._random = random
        self._failed = failed
        # Set when a heartbeat should be sent before it is due.
        self._news = asyncio.Event()
        self._progress = asyncio.Event()
        self._wants_shutdown = False
        self._may_shut_down = asyncio.Event()
        self._heartbeats: asyncio.Task[None] | None = None
        loader.subscribe(self)

    @property
    def metadata_version(self) -> int:
        return self._loader.image.metadata_version

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self._progress.set()
        registered = delta.brokers.get(self.id)
        if registered is not None and self.epoch >= 0:
            if registered.epoch > self.epoch and not self.is_superseded:
                self.is_superseded = True
                self._failed(
                    Superseded(
                        f"another node has registered with node.id {self.id}, broker epoch {registered.epoch}; this "
                        f"one has epoch {self.epoch}. Give each node a unique id and its own directories"
                    )
                )
            elif registered.epoch == self.epoch and registered.fenced:
                self._news.set()
        if any(broker is not None and broker.in_controlled_shutdown for broker in delta.brokers.values()):
            # Wait until all other brokers know that this one leads nothing.
            self._news.set()

    def beat(self) -> None:
        """Sends the next heartbeat now: the controller may have changed or lost the connection."""
        self._news.set()

    # Joining

    async def register(self, addresses: Addresses) -> None:
        """Registers this incarnation of the broker, which stays fenced. Raises `CannotStart` if it is refused for good,
        or does not succeed within `initial.broker.registration.timeout.ms`."""
        online = self._directories.online
        clean_epochs = {directory.last_broker_epoch for directory in online}
        # Only if all directories were closed by the same clean stop.
        previous_epoch = clean_epochs.pop() if len(clean_epochs) == 1 else -1
        incarnation_id = new_uuid(self._random)
        config = self._node_config.current
        timeout_ms = config.integer("initial.broker.registration.timeout.ms")
        error = ErrorCode.REQUEST_TIMED_OUT
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while True:
                    registered = await self._controller.ask(
                        broker_registration(
                            config,
                            self._cluster_id,
                            addresses,
                            [directory.id for directory in online],
                            previous_epoch,
                            incarnation_id,
                            self._loader.image.features,
                        )
                    )
                    if registered.error_code == ErrorCode.NONE:
                        self.epoch = registered.broker_epoch
                        return
                    if registered.error_code != error:
                        error = ErrorCode(registered.error_code)
                        _check_retriable(error, self.id)
                    await asyncio.sleep(_RETRY_S)
        except TimeoutError:
            raise CannotStart(
                f"the broker was not registered within {timeout_ms} ms (initial.broker.registration.timeout.ms): "
                f"{error.name}"
            ) from None

    async def unfence(self) -> None:
        """The broker leads its partitions from now on. Heartbeats continue until it stops."""
        while self._loader.image.covers.offset <= self.epoch:
            await self._more_metadata()
        self._heartbeats = asyncio.get_running_loop().create_task(self._beat())
        while not self._is_unfenced:
            await self._more_metadata()
        await self._report_recovered_leaders()

    async def _more_metadata(self) -> None:
        self._progress.clear()
        await self._progress.wait()

    @property
    def _is_unfenced(self) -> bool:
        broker = self._loader.image.brokers.get(self.id)
        return broker is not None and broker.epoch == self.epoch and not broker.fenced

    # Heartbeats

    async def _beat(self) -> None:
        """Sends a heartbeat per interval, at once if there is news, and more often while waiting for a state change."""
        last_error = ErrorCode.NONE
        while not self._may_shut_down.is_set():
            self._news.clear()
            answer = await self.heartbeat()
            error = ErrorCode(answer.error_code)
            if error is not last_error and error is not ErrorCode.NONE:
                _log.warning("Broker %d: a heartbeat was answered with %s; trying again", self.id, error.name)
            last_error = error
            is_waiting = answer.is_fenced or error is not ErrorCode.NONE or self._wants_shutdown
            if error is ErrorCode.NONE and answer.should_shut_down:
                self._may_shut_down.set()
                return
            interval_ms = self._node_config.current.integer("broker.heartbeat.interval.ms")
            try:
                async with asyncio.timeout(min(interval_ms / 1000, _RETRY_S) if is_waiting else interval_ms / 1000):
                    await self._news.wait()
            except TimeoutError:
                pass

    async def heartbeat(
        self, offline_log_dirs: Sequence[Uuid] = (), cordoned_log_dirs: Sequence[Uuid] | None = None
    ) -> BrokerHeartbeatResponse:
        return await self._controller.ask(
            BrokerHeartbeatRequest(
                broker_id=self.id,
                broker_epoch=self.epoch,
                current_metadata_offset=self._loader.image.covers.offset - 1,
                want_fence=False,
                want_shut_down=self._wants_shutdown,
                offline_log_dirs=list(offline_log_dirs),
                cordoned_log_dirs=None if cordoned_log_dirs is None else list(cordoned_log_dirs),
            )
        )

    # Leaving

    async def shut_down(self) -> None:
        """Controlled shutdown: the controller moves the broker's leaderships first. Skipped if no other broker could
        take them. Gives up after the session timeout: the controller may be unreachable."""
        others = [broker for broker in self._loader.image.brokers.values() if broker.id != self.id and broker.is_active]
        is_enabled = self._node_config.current.flag("controlled.shutdown.enable")
        if self._heartbeats is not None and others and is_enabled and not self.is_superseded:
            self._wants_shutdown = True
            self._news.set()
            timeout_ms = self._node_config.current.integer("broker.session.timeout.ms")
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    await self._may_shut_down.wait()
            except TimeoutError:
                _log.warning("Broker %d stops although the controller has not moved all of its leaders", self.id)

    async def finish(self) -> None:
        """Stops heartbeats."""
        self._may_shut_down.set()
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            await asyncio.gather(self._heartbeats, return_exceptions=True)

    async def _report_recovered_leaders(self) -> None:
        """A broker that was elected although it may lack records has opened its logs: it leads with what they contain
        (KIP-704)."""
        topics = recovering(self._loader.image, self.id, self.epoch)
        if topics:
            await self._controller.ask(AlterPartitionRequest(broker_id=self.id, broker_epoch=self.epoch, topics=topics))


def recovering(image: MetadataImage, broker_id: int, broker_epoch: int) -> list[RequestTopicData]:
    """Returns the partitions that the broker leads and that must recover, marked as recovered."""
    topics = []
    for topic in image.topics:
        partitions = [
            RequestPartitionData(
                partition_index=index,
                leader_epoch=partition.leader_epoch,
                new_isr_with_epochs=[BrokerState(broker_id=broker_id, broker_epoch=broker_epoch)],
                leader_recovery_state=LeaderRecovery.RECOVERED.value,
                partition_epoch=partition.partition_epoch,
            )
            for index, partition in sorted(topic.partitions.items())
            if partition.leader == broker_id and partition.leader_recovery is LeaderRecovery.RECOVERING
        ]
        if partitions:
            topics.append(RequestTopicData(topic_id=topic.id, partitions=partitions))
    return topics


def _check_retriable(error: ErrorCode, broker_id: int) -> None:
    if error not in _RETRIABLE:
        raise CannotStart(f"the broker was not registered: {_MEANINGS.get(error, error.name)}")
    _log.warning("Broker %d is not registered yet: %s; trying again", broker_id, _MEANINGS.get(error, error.name))


_RETRIABLE = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        ErrorCode.BROKER_ID_NOT_REGISTERED,
        ErrorCode.UNKNOWN_CONTROLLER_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)
_MEANINGS = {
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: "another node with the same node.id is registered and alive "
    "(DUPLICATE_BROKER_REGISTRATION): give each node a unique id",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "its directory belongs to another cluster than the controllers "
    "(INCONSISTENT_CLUSTER_ID): check cluster.id in meta.properties, and controller.quorum.*",
    ErrorCode.UNSUPPORTED_VERSION: "it does not support a feature that the cluster has finalized (UNSUPPORTED_VERSION)",
}
