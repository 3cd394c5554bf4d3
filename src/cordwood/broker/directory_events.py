"""What the cluster has to know of this broker's log directories: which replica is in which, which have failed or
are cordoned.

A broker says so to the controller (KIP-858): AssignReplicasToDirs, and with its heartbeat the failed ones and those
that take no new partitions (KIP-1066). A directory that the node cannot be without ends the node.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import islice

from cordwood.config.broker import BrokerConfig
from cordwood.log.directory import LogDirectory
from cordwood.metadata.controller.brokers import broker_heartbeat
from cordwood.metadata.controller.directories import assign_replicas_to_dirs
from cordwood.metadata.controller.missing_directories import leave_missing_directories
from cordwood.metadata.versions import DIRECTORY_ASSIGNMENT_LEVEL
from cordwood.replica.partition import Partition
from cordwood.runtime.disk import DiskError
from cordwood.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from cordwood.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from cordwood.wire.primitives import Uuid

from .broker import Broker

_log = logging.getLogger(__name__)

# As Kafka's brokers send at once.
_ASSIGNMENTS_AT_ONCE = 2_250
# What `cordoned.log.dirs` says for every one.
_ALL_DIRECTORIES = "*"


class DirectoryEvents:
    """From its making on it hears of what happens; from `joined` on it tells the controller."""

    def __init__(self, broker: Broker, metadata_root: str) -> None:
        self._broker = broker
        self._metadata_root = metadata_root
        self._assignments: dict[tuple[Uuid, int], Uuid] = {}
        self._offline: list[Uuid] = []
        self._told_cordoned: set[Uuid] = set()
        self._has_joined = False
        self._telling: asyncio.Task[None] | None = None
        broker.replicas.on_placed = self._placed
        broker.replicas.on_offline = self._went_offline
        broker.on_config.append(self._cordon)

    async def registered(self) -> None:
        """Tells of replicas that were found elsewhere than the metadata says, before the broker is unfenced: it leads
        nothing that would be in a directory which it does not have."""
        while self._assignments:
            await self._assign()

    async def joined(self) -> None:
        """The broker is registered, with the directories that it found."""
        broker = self._broker
        await broker.controller.decide(lambda image: leave_missing_directories(image, broker.defaults, broker.id))
        self._has_joined = True
        self._tell()
        await self.finish()

    async def finish(self) -> None:
        """Returns when nothing is under way."""
        while self._telling is not None:
            await asyncio.shield(self._telling)

    def _placed(self, partition: Partition, directory: LogDirectory) -> None:
        if self._broker.image.metadata_version < DIRECTORY_ASSIGNMENT_LEVEL:
            # Of Kafka before 3.7: its metadata has no directories of replicas. The first start after an upgrade of
            # metadata.version tells of them.
            return
        self._assignments[partition.topic_id, partition.index] = directory.id
        self._tell()

    def _went_offline(self, directory: LogDirectory, error: DiskError) -> None:
        if directory.disk.root == self._metadata_root:
            self._broker.controller.fail(error)
        elif not self._broker.replicas.directories.online:
            # As in Kafka: a broker without a directory is of no use to anybody, and leaves its place to others.
            _log.critical("all log directories have failed")
            self._broker.controller.fail(error)
        else:
            self._offline.append(directory.id)
            self._tell()

    def _cordon(self, config: BrokerConfig) -> None:
        """Which directories take no new partitions: the node goes by it, and the controller is told."""
        cordoned = config.items("cordoned.log.dirs")
        directories = self._broker.replicas.directories.directories
        # By the paths as they were configured: those of the disks are absolute.
        for path, directory in zip(dict.fromkeys(config.log_dirs), directories, strict=True):
            directory.is_cordoned = path in cordoned or cordoned == (_ALL_DIRECTORIES,)
        self._tell()

    @property
    def _cordoned(self) -> set[Uuid]:
        return {directory.id for directory in self._broker.replicas.directories.online if directory.is_cordoned}

    @property
    def _has_news(self) -> bool:
        return bool(self._assignments or self._offline) or self._cordoned != self._told_cordoned

    def _tell(self) -> None:
        if self._has_joined and self._telling is None and self._has_news:
            self._telling = asyncio.get_running_loop().create_task(self._tell_all())

    async def _tell_all(self) -> None:
        try:
            while self._has_news:
                # Where replicas are comes first: a directory that has failed takes those with it.
                if self._assignments:
                    await self._assign()
                else:
                    await self._report()
        except DiskError:
            # Of the metadata log: the node is about to stop.
            _log.debug("the controller was not told of everything about the log directories")
        finally:
            self._telling = None

    async def _assign(self) -> None:
        broker = self._broker
        taken = dict(islice(self._assignments.items(), _ASSIGNMENTS_AT_ONCE))
        for key in taken:
            del self._assignments[key]
        by_directory: dict[Uuid, dict[Uuid, list[int]]] = {}
        for (topic_id, index), directory_id in taken.items():
            by_directory.setdefault(directory_id, {}).setdefault(topic_id, []).append(index)
        request = AssignReplicasToDirsRequest(
            broker_id=broker.id,
            broker_epoch=broker.epoch,
            directories=[
                RequestDirectoryData(
                    id=directory_id,
                    topics=[
                        RequestTopicData(
                            topic_id=topic_id,
                            partitions=[RequestPartitionData(partition_index=index) for index in indexes],
                        )
                        for topic_id, indexes in topics.items()
                    ],
                )
                for directory_id, topics in by_directory.items()
            ],
        )
        await broker.controller.decide(lambda image: assign_replicas_to_dirs(image, request))

    async def _report(self) -> None:
        broker = self._broker
        offline, self._offline = self._offline, []
        cordoned = self._told_cordoned = self._cordoned
        heartbeat = BrokerHeartbeatRequest(
            broker_id=broker.id,
            broker_epoch=broker.epoch,
            current_metadata_offset=broker.image.covers.offset,
            want_fence=False,
            offline_log_dirs=offline,
            cordoned_log_dirs=sorted(cordoned),
        )
        await broker.controller.decide(lambda image: broker_heartbeat(image, heartbeat, broker.defaults))
