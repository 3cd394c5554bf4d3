"""Classifies the folders of a log directory: partitions, partitions being moved or deleted, strays, and foreign
folders.

A name alone proves nothing: `photos-2024` could be a partition. A partition's directory contains files that Cordwood or
Kafka writes; a directory without any of them is left alone.
"""

from enum import Enum
from typing import NamedTuple

from cordwood.log.files import (
    DELETE_DIRECTORY,
    FUTURE_DIRECTORY,
    STRAY_DIRECTORY,
    is_partition_file,
    parse_directory_name,
)
from cordwood.runtime.disk import Disk, Entry

# The metadata log is in the same directory but belongs to the Raft quorum.
METADATA_PARTITION = ("__cluster_metadata", 0)
# Common entries of any file system; not worth a warning.
_LOST_AND_FOUND = "lost+found"


class Kind(Enum):
    PARTITION = "partition"
    METADATA = "metadata"
    # A replica being moved in from another log directory.
    FUTURE = "future"
    # Its topic was deleted; its files are removed soon.
    DELETED = "deleted"
    # Unknown to the cluster's metadata. Kept until an operator removes it.
    STRAY = "stray"
    FOREIGN = "foreign"


_MARKS = {DELETE_DIRECTORY: Kind.DELETED, FUTURE_DIRECTORY: Kind.FUTURE, STRAY_DIRECTORY: Kind.STRAY}


class Folder(NamedTuple):
    name: str
    kind: Kind
    # Empty and -1 for a foreign folder.
    topic: str = ""
    partition: int = -1


def folders(disk: Disk) -> list[Folder]:
    """Every folder of a log directory except hidden ones and `lost+found`, sorted by name."""
    return [_folder(disk, entry.name) for entry in disk.list() if entry.is_directory and not is_incidental(entry)]


def is_incidental(entry: Entry) -> bool:
    """Returns whether the entry says nothing about what the directory is used for."""
    return entry.name.startswith(".") or entry.name == _LOST_AND_FOUND


def _folder(disk: Disk, name: str) -> Folder:
    parsed = parse_directory_name(name)
    if parsed is None:
        return Folder(name, Kind.FOREIGN)
    if parsed.mark:
        return Folder(name, _MARKS[parsed.mark], parsed.topic, parsed.partition)
    if (parsed.topic, parsed.partition) == METADATA_PARTITION:
        return Folder(name, Kind.METADATA, parsed.topic, parsed.partition)
    if any(not entry.is_directory and is_partition_file(entry.name) for entry in disk.list(name)):
        return Folder(name, Kind.PARTITION, parsed.topic, parsed.partition)
    return Folder(name, Kind.FOREIGN)
