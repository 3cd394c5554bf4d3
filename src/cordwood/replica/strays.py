"""Partitions in the log directories that the cluster's metadata does not know.

Only a committed record that deletes a topic deletes data. A partition whose topic no such record deletes is a stray:
the metadata log may have been damaged, restored from an old backup, or put beside the wrong directories. It is renamed
`…-stray`, as Kafka does, and kept.
"""

import logging
from collections.abc import Container, Sequence
from typing import NamedTuple

from cordwood.log.dirs.directories import LogDirectories
from cordwood.log.dirs.directory import LogDirectory
from cordwood.log.files import directory_name
from cordwood.metadata.image import MetadataImage
from cordwood.runtime.disk import DiskError
from cordwood.wire.primitives import Uuid

_log = logging.getLogger(__name__)

# A start that finds more strays than this finds a metadata log that is not the directories' own.
MANY_STRAYS = 3


class Unknown(NamedTuple):
    """A partition in a log directory that is not this broker's by the metadata."""

    directory: LogDirectory
    topic: str
    partition: int
    # None: its directory does not say.
    topic_id: Uuid | None

    def __str__(self) -> str:
        return f"{self.directory.disk.root}/{directory_name(self.topic, self.partition)}"


def unknown_partitions(directories: LogDirectories, image: MetadataImage, broker_id: int) -> list[Unknown]:
    """Returns the unknown partitions of directories that are not opened yet."""
    return [
        Unknown(directory, topic, partition, topic_id)
        for directory in directories.online
        for (topic, partition), topic_id in directory.found
        if not _is_known(image, broker_id, topic, partition, topic_id)
    ]


def _is_known(image: MetadataImage, broker_id: int, topic: str, partition: int, topic_id: Uuid | None) -> bool:
    state = image.topics.partition(topic, partition)
    is_mine = state is not None and broker_id in state.replicas
    return is_mine and topic_id in (None, image.topics.ids.get(topic))


def unexplained(strays: Sequence[Unknown], image: MetadataImage, broker_id: int) -> list[Unknown]:
    """Strays that indicate a wrong metadata log. A directory that was offline when the node ran last may have missed
    deletions, and a partition that the metadata gives to other brokers has been reassigned."""
    broker = image.brokers.get(broker_id)
    registered = broker.log_dirs if broker is not None else ()
    return [
        stray
        for stray in strays
        if (not registered or stray.directory.id in registered) and not _is_reassigned(stray, image)
    ]


def _is_reassigned(stray: Unknown, image: MetadataImage) -> bool:
    """A directory without a topic id is matched by name, and always kept."""
    if stray.topic_id is None:
        return image.topics.partition(stray.topic, stray.partition) is not None
    return stray.topic_id in image.topics.by_id


def put_aside(directories: LogDirectories, unknown: list[Unknown], deleted_topics: Container[Uuid | None]) -> None:
    """Deletes partitions whose topic a committed record deletes, and turns the others into strays."""
    for found in unknown:
        try:
            if found.topic_id in deleted_topics:
                _log.info("Finishing the deletion of %s: its topic was deleted", found)
                found.directory.finish_deletion(found.topic, found.partition)
            else:
                stray = found.directory.set_aside(found.topic, found.partition)
                _log.warning(
                    "The metadata does not know %s: renamed to %s and kept. "
                    "`cordwood log dirs` lists strays and removes them on request",
                    found,
                    stray,
                )
        except DiskError as error:
            directories.take_offline(found.directory, error)
