"""All log directories of a node (`log.dirs`): where partitions are, where new ones go, and which directories have
failed."""

import logging
from collections.abc import Callable

from cordwood.log.log import Log
from cordwood.runtime.disk import DiskError
from cordwood.wire.primitives import Uuid

from .directory import NO_ID, LogDirectory

logger = logging.getLogger(__name__)


class LogDirectories:
    """Each directory fails and goes offline on its own."""

    def __init__(
        self, directories: list[LogDirectory], on_offline: Callable[[LogDirectory], None] | None = None
    ) -> None:
        self.directories = directories
        self._on_offline = on_offline or (lambda _directory: None)
        # Directories whose failure has been logged.
        self._told: set[LogDirectory] = set()

    @property
    def online(self) -> list[LogDirectory]:
        return [directory for directory in self.directories if not directory.is_offline]

    def find(self) -> None:
        """Finds the partitions of every directory; changes nothing."""
        self._told.update(directory for directory in self.directories if directory.is_offline)
        self._each(LogDirectory.find)

    def open(self) -> None:
        # Their failure was logged when they were first used.
        self._told.update(directory for directory in self.directories if directory.is_offline)
        self._each(LogDirectory.open)
        for directory in self.online:
            for topic, partition in list(directory.interrupted):
                self._settle_interrupted(directory, topic, partition)

    def _settle_interrupted(self, directory: LogDirectory, topic: str, partition: int) -> None:
        """A replica was being moved into the directory. If there is no other, the move was complete: the source is
        removed only then (see `relocation`). Otherwise it starts over, as recorded in `interrupted`."""
        if len(self.online) < len(self.directories):
            # The other one may be in an offline directory.
            directory.leave_interrupted(topic, partition)
            return
        try:
            if self.log(topic, partition) is None:
                directory.open_interrupted(topic, partition)
            else:
                directory.doom_interrupted(topic, partition)
        except DiskError as error:
            self.take_offline(directory, error)

    def log(self, topic: str, partition: int) -> Log | None:
        directory = self.directory_of(topic, partition)
        return None if directory is None else directory.logs[topic, partition]

    def directory_of(self, topic: str, partition: int) -> LogDirectory | None:
        return next((directory for directory in self.online if (topic, partition) in directory.logs), None)

    def with_id(self, directory_id: Uuid) -> LogDirectory | None:
        """Returns the directory with this id, online or not."""
        if directory_id == NO_ID:
            return None
        return next((directory for directory in self.directories if directory.id == directory_id), None)

    @property
    def emptiest(self) -> LogDirectory | None:
        """The online directory with the fewest partitions among those that accept new ones, as in Kafka; the first if
        none does."""
        online = self.online
        open_to_new = [directory for directory in online if not directory.is_cordoned]
        return min(open_to_new or online[:1], key=lambda directory: len(directory.logs), default=None)

    def create(self, topic: str, partition: int, topic_id: Uuid, now_ms: int) -> Log:
        directory = self.emptiest
        if directory is None:
            raise self.directories[0].disk.failure or AssertionError("no usable log directory (log.dirs)")
        return directory.create(topic, partition, topic_id, now_ms)

    def checkpoint(self) -> None:
        self._each(lambda directory: directory.checkpoints.write_all())

    def purge(self, now_ms: int) -> None:
        self._each(lambda directory: directory.purge(now_ms))

    def close(self, broker_epoch: int = -1) -> None:
        self._each(lambda directory: directory.close(broker_epoch))
        for directory in self.directories:
            # Failed directories release their lock too.
            directory.disk.close()

    def _each(self, action: Callable[[LogDirectory], None]) -> None:
        for directory in self.online:
            try:
                action(directory)
            except DiskError as error:
                self.take_offline(directory, error)

    def take_offline(self, directory: LogDirectory, error: DiskError) -> bool:
        """Releases its logs and logs the failure, once; returns False if that was already done."""
        if directory in self._told:
            return False
        self._told.add(directory)
        others = ", the other log directories continue" if self.online else ""
        logger.error("%s; its %d partitions are offline%s", error, len(directory.logs), others)
        for log in directory.logs.values():
            log.release()
        directory.logs.clear()
        directory.futures.clear()
        self._on_offline(directory)
        return True
