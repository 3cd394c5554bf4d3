"""The names of a partition's files: a 20-digit base offset and a suffix for the kind."""

import re
from typing import NamedTuple

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
PRODUCER_SNAPSHOT = ".snapshot"
# The files of a segment; the transaction index exists only if a transaction was aborted.
SEGMENT_FILES = (LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX)

# Second suffixes: the stage of a file being created or deleted.
CLEANED = ".cleaned"
SWAP = ".swap"
DELETED = ".deleted"
CORRUPT = ".corrupt"

LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"

DELETE_DIRECTORY = "-delete"
FUTURE_DIRECTORY = "-future"
STRAY_DIRECTORY = "-stray"

_NAMED = re.compile(r"(\d{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)(\.cleaned|\.swap|\.deleted)?")
# Numbers have no leading zeros, so that no two directories belong to one partition.
_PARTITION = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>0|[1-9]\d{0,9})")
# The id is a UUID in hex, as Kafka writes it.
_MARKED = re.compile(r"(?P<name>.+)\.(?P<id>[0-9a-f]{32})(?P<mark>-delete|-future|-stray)")
# Every file that Cordwood or Kafka leaves in a partition's directory, at any stage of writing or deleting it.
_OURS = re.compile(
    r"\d{20}(-\d{10})?\.(log|index|timeindex|txnindex|snapshot|checkpoint)"
    r"(\.(cleaned|swap|deleted|part|tmp|corrupt(\.\d+)?))*"
    r"|(leader-epoch-checkpoint|partition\.metadata|quorum-state)(\.[a-z0-9-]+)?"
)


class SegmentFile(NamedTuple):
    base_offset: int
    kind: str
    stage: str


class PartitionDirectory(NamedTuple):
    topic: str
    partition: int
    # "" for a live partition, else `-delete`, `-future` or `-stray`.
    mark: str


def file_name(base_offset: int, kind: str, stage: str = "") -> str:
    return f"{base_offset:020d}{kind}{stage}"


def parse_file_name(name: str) -> SegmentFile | None:
    match = _NAMED.fullmatch(name)
    return SegmentFile(int(match[1]), match[2], match[3] or "") if match else None


def is_partition_file(name: str) -> bool:
    """Returns whether Cordwood or Kafka writes files of this name into a partition's directory."""
    return _OURS.fullmatch(name) is not None


def directory_name(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def marked_directory_name(topic: str, partition: int, unique_id: str, mark: str) -> str:
    """`topic-0.ID-delete`; truncates a long topic name, because a file name has at most 255 bytes."""
    suffix = f"-{partition}.{unique_id}{mark}"
    return topic[: 255 - len(suffix)] + suffix


def parse_directory_name(name: str) -> PartitionDirectory | None:
    marked = _MARKED.fullmatch(name)
    match = _PARTITION.fullmatch(marked["name"] if marked else name)
    if match is None:
        return None
    return PartitionDirectory(match["topic"], int(match["partition"]), marked["mark"] if marked else "")
