"""A broker's life in the cluster: it registers, is unfenced by a heartbeat, and says what its directories can do.

All of it goes to the controller as requests (BrokerRegistration, BrokerHeartbeat, AlterPartition).
"""

from __future__ import annotations

from collections.abc import Sequence

from cordwood.log.directories import LogDirectories
from cordwood.metadata.controller.decision import new_uuid
from cordwood.metadata.endpoints import Addresses
from cordwood.metadata.image import LeaderRecovery, MetadataImage
from cordwood.metadata.loader import Loader
from cordwood.metadata.node_config import NodeConfig
from cordwood.runtime.randomness import Random
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from cordwood.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from cordwood.wire.primitives import Uuid

from .controller_channel import ControllerChannel
from .log_dirs import CannotStart
from .registration import broker_registration


class Lifecycle:
    """`epoch` is that of this start of the broker; -1 until it is registered."""

    def __init__(
        self,
        node_config: NodeConfig,
        cluster_id: str,
        controller: ControllerChannel,
        loader: Loader,
        directories: LogDirectories,
        random: Random,
    ) -> None:
        self.id = node_config.current.node_id
        self.epoch = -1
        self._node_config = node_config
        self._cluster_id = cluster_id
        self._controller = controller
        self._loader = loader
        self._directories = directories
        self._random = random

    @property
    def metadata_version(self) -> int:
        return self._loader.image.metadata_version

    async def register(self, addresses: Addresses) -> None:
        """Registers this incarnation of the broker, which stays fenced. Raises `CannotStart`."""
        online = self._directories.online
        clean_epochs = {directory.last_broker_epoch for directory in online}
        # Only if all of them were stopped by the same, clean stop.
        previous_epoch = clean_epochs.pop() if len(clean_epochs) == 1 else -1
        registered = await self._controller.ask(
            broker_registration(
                self._node_config.current,
                self._cluster_id,
                addresses,
                [directory.id for directory in online],
                previous_epoch,
                new_uuid(self._random),
                self._loader.image.features,
            )
        )
        _check("registered", registered.error_code)
        self.epoch = registered.broker_epoch

    async def unfence(self) -> None:
        """From here on the broker leads its partitions. Raises `CannotStart`."""
        unfenced = await self.heartbeat()
        _check("unfenced", unfenced.error_code)
        await self._report_recovered_leaders()

    async def heartbeat(
        self, offline_log_dirs: Sequence[Uuid] = (), cordoned_log_dirs: Sequence[Uuid] | None = None
    ) -> BrokerHeartbeatResponse:
        return await self._controller.ask(
            BrokerHeartbeatRequest(
                broker_id=self.id,
                broker_epoch=self.epoch,
                current_metadata_offset=self._loader.image.covers.offset,
                want_fence=False,
                offline_log_dirs=list(offline_log_dirs),
                cordoned_log_dirs=None if cordoned_log_dirs is None else list(cordoned_log_dirs),
            )
        )

    async def _report_recovered_leaders(self) -> None:
        """A broker that was elected although it may lack records has opened its logs: it leads them as they are from
        here on (KIP-704)."""
        topics = recovering(self._loader.image, self.id, self.epoch)
        if topics:
            await self._controller.ask(AlterPartitionRequest(broker_id=self.id, broker_epoch=self.epoch, topics=topics))


def recovering(image: MetadataImage, broker_id: int, broker_epoch: int) -> list[RequestTopicData]:
    """The partitions that a broker leads and that have to recover, as recovered."""
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


def _check(wanted: str, error_code: int) -> None:
    if error_code:
        raise CannotStart(f"the broker was not {wanted}: {ErrorCode(error_code).name}")
