"""Reports this broker's log directories to the cluster: the directory of each replica, and failed or cordoned
directories.

Reports go to the controller (KIP-858): AssignReplicasToDirs, and with heartbeats the failed directories and those that
accept no new partitions (KIP-1066). The failure of an essential directory stops the node.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import islice

from cordwood.broker.start.log_dirs import CannotStart
from cordwood.config.broker import BrokerConfig
from cordwood.log.dirs.directories import LogDirectories
from cordwood.log.dirs.directory import LogDirectory
from cordwood.metadata.node_config import NodeConfig
from cordwood.metadata.versions import DIRECTORY_ASSIGNMENT_LEVEL
from cordwood.net.peers.backoff import Backoff
from cordwood.replica.partition import Partition
from cordwood.runtime.disk import DiskError
from cordwood.runtime.randomness import Random
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from cordwood.wire.primitives import Uuid

from .channel import ControllerChannel
from .lifecycle import Lifecycle

_log = logging.getLogger(__name__)

# The number that Kafka's brokers send at once.
_ASSIGNMENTS_AT_ONCE = 2_250
# The value of `cordoned.log.dirs` for all directories.
_ALL_DIRECTORIES = "*"
# Retry soon after a failed report, since partitions in a failed directory have no leader until it arrives.
_RETRY_MS = 20
_RETRY_MAX_MS = 500


class DirectoryEvents:
    """Collects events from its creation on, and reports them from `joined` on. `failed` is called for a directory that
    the node cannot work without: the last one, or that of the metadata log, at `metadata_root`."""

    def __init__(
        self,
        node_config: NodeConfig,
        directories: LogDirectories,
        lifecycle: Lifecycle,
        controller: ControllerChannel,
        metadata_root: str,
        failed: Callable[[DiskError], None],
        random: Random,
    ) -> None:
        self._directories = directories
        self._lifecycle = lifecycle
        self._controller = controller
        self._metadata_root = metadata_root
        self._failed = failed
        self._assignments: dict[tuple[Uuid, int], Uuid] = {}
        self._offline: list[Uuid] = []
        self._told_cordoned: set[Uuid] = set()
        self._has_joined = False
        self._telling: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._backoff = Backoff(_RETRY_MS, _RETRY_MAX_MS, random)
        self._failures = 0
        node_config.subscribe(self._cordon)

    def opened(self) -> None:
        """Raises `CannotStart` if a directory that the node cannot go on without failed while its logs were opened."""
        failures = [
            directory.disk.failure
            for directory in self._directories.directories
            if directory.is_offline and (directory.disk.root == self._metadata_root or not self._directories.online)
        ]
        if failures:
            told = "; ".join(map(str, failures))
            raise CannotStart(f"{told}. The node cannot start without its metadata log and a log directory")

    async def registered(self) -> None:
        """The controller knows the broker's directories. Reports replica locations first: replicas found in another
        directory than the metadata says are not missing, and can be led once the broker is unfenced. Raises
        `CannotStart`."""
        while self._assignments:
            error = await self._assign()
            if error:
                raise CannotStart(f"the broker's replicas were not assigned: {ErrorCode(error).name}")

    async def joined(self) -> None:
        """The broker is unfenced."""
        self._has_joined = True
        self._tell()
        await self._told()

    def wake(self) -> None:
        """Sends reports again: another controller may be active."""
        if self._retry is not None:
            self._tell()

    async def _told(self) -> None:
        while self._telling is not None:
            await asyncio.shield(self._telling)

    async def finish(self) -> None:
        """Waits for the report in progress, and stops sending reports."""
        self._has_joined = False
        if self._retry is not None:
            self._retry.cancel()
        await self._told()

    def placed(self, partition: Partition, directory: LogDirectory) -> None:
        if self._lifecycle.metadata_version < DIRECTORY_ASSIGNMENT_LEVEL:
            # Metadata from before Kafka 3.7 has no directories. The first start after an upgrade of metadata.version
            # reports them.
            return
        self._assignments[partition.topic_id, partition.index] = directory.id
        self._tell()

    def went_offline(self, directory: LogDirectory, error: DiskError) -> None:
        if directory.disk.root == self._metadata_root:
            self._failed(error)
        elif not self._directories.online:
            # As in Kafka: a broker without a directory is useless, and makes room for others.
            _log.critical("all log directories have failed")
            self._failed(error)
        else:
            self._offline.append(directory.id)
            self._tell()

    def _cordon(self, config: BrokerConfig) -> None:
        """Applies the set of directories that accept no new partitions, and reports it to the controller."""
        cordoned = config.items("cordoned.log.dirs")
        directories = self._directories.directories
        # By the configured paths: those of the disks are absolute.
        for path, directory in zip(dict.fromkeys(config.log_dirs), directories, strict=True):
            directory.is_cordoned = path in cordoned or cordoned == (_ALL_DIRECTORIES,)
        self._tell()

    @property
    def _cordoned(self) -> set[Uuid]:
        return {directory.id for directory in self._directories.online if directory.is_cordoned}

    @property
    def _has_news(self) -> bool:
        return bool(self._assignments or self._offline) or self._cordoned != self._told_cordoned

    def _tell(self) -> None:
        if self._has_joined and self._telling is None and self._has_news:
            if self._retry is not None:
                self._retry.cancel()
                self._retry = None
            self._telling = asyncio.get_running_loop().create_task(self._tell_all())

    async def _tell_all(self) -> None:
        error = ErrorCode.NONE
        try:
            while self._has_news and error is ErrorCode.NONE:
                # Replica locations come first: a failed directory takes its replicas offline.
                error = ErrorCode(await (self._assign() if self._assignments else self._report()))
        finally:
            self._telling = None
        if error is ErrorCode.NONE:
            self._failures = 0
        elif self._has_joined:
            if not self._failures:
                _log.warning(
                    "Cannot report log directories to the controller (%s), retrying within %g s",
                    error.name, _RETRY_MAX_MS / 1000,
                )  # fmt: skip
            self._failures += 1
            pause_s = self._backoff.pause_s(self._failures)
            self._retry = asyncio.get_running_loop().call_later(pause_s, self._tell)

    async def _assign(self) -> int:
        """Returns the controller's error; unreported entries stay queued."""
        taken = dict(islice(self._assignments.items(), _ASSIGNMENTS_AT_ONCE))
        for key in taken:
            del self._assignments[key]
        by_directory: dict[Uuid, dict[Uuid, list[int]]] = {}
        for (topic_id, index), directory_id in taken.items():
            by_directory.setdefault(directory_id, {}).setdefault(topic_id, []).append(index)
        request = AssignReplicasToDirsRequest(
            broker_id=self._lifecycle.id,
            broker_epoch=self._lifecycle.epoch,
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
        error = (await self._controller.ask(request)).error_code
        if error:
            # A later location of the replica takes precedence.
            self._assignments = {**taken, **self._assignments}
        return error

    async def _report(self) -> int:
        """Returns the controller's error, like `_assign`."""
        offline, self._offline = self._offline, []
        told, self._told_cordoned = self._told_cordoned, self._cordoned
        error = (await self._lifecycle.heartbeat(offline, sorted(self._told_cordoned))).error_code
        if error:
            self._offline, self._told_cordoned = [*offline, *self._offline], told
        return error
