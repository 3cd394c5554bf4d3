"""Damage done to a node's files between two runs, the node's reaction, and what it served afterwards."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from cordwood.log.files import directory_name
from cordwood.sim.partition import Partition
from cordwood.wire.batch_header import batch_headers, check_crc
from cordwood.wire.record import CorruptBatch

# Every file by its path, which begins with the log directory's.
Files = dict[str, bytes]


class Means(Enum):
    FLIP = "flipped a bit of"
    TRUNCATE = "truncated"
    REMOVE = "removed"


@dataclass(frozen=True, slots=True)
class Injury:
    """`path` is below a log directory."""

    root: str
    path: str
    means: Means

    @property
    def folder(self) -> str:
        """The partition's, or that of the metadata log; empty for a file of the log directory itself."""
        return self.path.rpartition("/")[0]

    def __str__(self) -> str:
        return f"{self.means.value} {self.root}/{self.path}"


@dataclass(slots=True)
class Served:
    """A partition as it is read after the damage."""

    records: dict[int, bytes] = field(default_factory=dict)
    # Where a read was refused, and why.
    errors: dict[int, int] = field(default_factory=dict)
    is_written: bool = False


class DamageHistory:
    def __init__(self) -> None:
        self.injuries: list[Injury] = []
        # The files that must not be deleted, as they were when the node was started after the damage.
        self.before: Files = {}
        self.after: Files = {}
        # Foreign files.
        self.foreign: Files = {}
        # Why the node did not start, without and with consent.
        self.refusals: list[str] = []
        # The damaged files are restored: everything must exist.
        self.is_restored = False
        # It was started with consent to any loss of metadata.
        self.has_consent = False
        # The node's log lines before that.
        self.warnings_before = 0
        # Topics whose deletion was requested.
        self.deleted_topics: set[str] = set()
        # The topics in the end; None if the node did not start.
        self.topics: set[str] | None = None
        self.served: dict[Partition, Served] = {}

    def of(self, partition: Partition) -> list[Injury]:
        name = directory_name(*partition)
        return [injury for injury in self.injuries if injury.folder == name]

    @property
    def of_metadata(self) -> list[Injury]:
        return [injury for injury in self.injuries if injury.folder == METADATA]


METADATA = "__cluster_metadata-0"


def whole_batches(data: bytes) -> Iterator[bytes]:
    """Those that follow each other from the start of a segment on, and have the right checksum."""
    try:
        for position, header in batch_headers(data):
            try:
                check_crc(data, header, position)
            except CorruptBatch:
                continue
            yield data[position : position + header.size]
    except CorruptBatch:
        return
