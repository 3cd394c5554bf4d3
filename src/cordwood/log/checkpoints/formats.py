"""The small text files beside the segments: offset checkpoints, leader epochs, the directory's owner."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from cordwood.runtime.disk import Disk
from cordwood.wire.checksum import crc32c
from cordwood.wire.primitives import Uuid, uuid_from_text, uuid_text

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
META_PROPERTIES = "meta.properties"

# The last row of a sealed checkpoint. Kafka, whose format has no checksum, reads it as an unknown partition; a file
# without it is accepted as it is.
CHECKSUM_ROW = ("__cordwood_checksum", 0)

_VERSION = "0"


class CorruptCheckpoint(Exception):
    """The file does not match its format; the message names the file and the line."""


def encode_table(rows: Iterable[str]) -> bytes:
    """Encodes the format of all checkpoints: version, number of rows, rows."""
    lines = list(rows)
    return "\n".join([_VERSION, str(len(lines)), *lines, ""]).encode()


def decode_table(path: str, data: bytes, columns: int) -> list[list[str]]:
    """Splits a checkpoint's rows into columns; the first column may contain blanks."""
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise CorruptCheckpoint(f"{path}: {error}") from error
    if lines[-1] == "":
        lines.pop()
    if len(lines) < 2 or lines[0] != _VERSION or not lines[1].isdigit():
        raise CorruptCheckpoint(f"{path}: expected version {_VERSION} and a count, found {lines[:2]}")
    rows = [line.rsplit(" ", columns - 1) for line in lines[2:]]
    if len(rows) != int(lines[1]):
        raise CorruptCheckpoint(f"{path}: {lines[1]} rows declared, {len(rows)} found")
    for number, row in enumerate(rows, start=3):
        if len(row) != columns or not all(part.lstrip("-").isdigit() for part in row[1:]):
            raise CorruptCheckpoint(f"{path}: line {number} is {' '.join(row)!r}")
    return rows


def read_offsets(disk: Disk, name: str) -> dict[tuple[str, int], int]:
    """(topic, partition) -> offset; empty if the file does not exist."""
    data = disk.read_file(name)
    if data is None:
        return {}
    rows = decode_table(name, data, 3)
    offsets = {(topic, int(partition)): int(offset) for topic, partition, offset in rows}
    checksum = offsets.pop(CHECKSUM_ROW, None)
    if checksum is not None and checksum != rows_checksum(" ".join(row) for row in rows[:-1]):
        raise CorruptCheckpoint(f"{name}: checksum mismatch: the file says {checksum}")
    return offsets


def write_offsets(disk: Disk, name: str, offsets: Mapping[tuple[str, int], int], *, is_sealed: bool = False) -> None:
    disk.write_file(name, encode_offsets(offsets, is_sealed=is_sealed))


def encode_offsets(offsets: Mapping[tuple[str, int], int], *, is_sealed: bool = False) -> bytes:
    """`is_sealed` adds a checksum, for files in which a damaged digit would do harm."""
    rows = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    if rows and is_sealed:
        topic, partition = CHECKSUM_ROW
        rows.append(f"{topic} {partition} {rows_checksum(rows)}")
    return encode_table(rows)


def rows_checksum(rows: Iterable[str]) -> int:
    return crc32c("\n".join(rows).encode())


def encode_partition_metadata(topic_id: Uuid) -> bytes:
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()


def decode_partition_metadata(path: str, data: bytes) -> bytes:
    """Returns the topic id."""
    fields = dict(line.split(": ", 1) for line in data.decode(errors="replace").splitlines() if ": " in line)
    if fields.get("version") != "0" or "topic_id" not in fields:
        raise CorruptCheckpoint(f"{path}: expected version 0 and a topic_id, found {fields}")
    try:
        return uuid_from_text(fields["topic_id"])
    except ValueError as error:
        raise CorruptCheckpoint(f"{path}: {error}") from error


@dataclass(frozen=True, slots=True)
class MetaProperties:
    cluster_id: str
    node_id: int
    # None: written by Kafka before 3.7, which gave directories no ids.
    directory_id: Uuid | None
    # 0: written by a broker that used ZooKeeper.
    version: int = 1

    def encode(self, now_ms: int) -> bytes:
        written = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
        directory = "" if self.directory_id is None else f"directory.id={uuid_text(self.directory_id)}\n"
        return (f"#\n#{written}\nnode.id={self.node_id}\n{directory}version=1\ncluster.id={self.cluster_id}\n").encode()

    @classmethod
    def decode(cls, path: str, data: bytes) -> "MetaProperties":
        properties: dict[str, str] = {}
        for line in data.decode(errors="replace").splitlines():
            line = line.strip()
            if line and not line.startswith(("#", "!")):
                key, _, value = line.partition("=")
                properties[key.strip()] = value.strip()
        # A missing version means 0, as in Kafka: written by a broker that used ZooKeeper, with a broker.id.
        version, cluster_id = properties.get("version", "0"), properties.get("cluster.id", "")
        node_id = properties.get("node.id" if version == "1" else "broker.id", "")
        if version not in ("0", "1") or not node_id.isdigit() or (version == "1" and not cluster_id):
            found_names = [name for name in ("version", "cluster.id", "node.id") if name in properties]
            found_text = ", ".join(f"{name}={properties[name]}" for name in found_names) or "none of them"
            raise CorruptCheckpoint(f"{path}: expected version=1, a cluster.id and a node.id, found {found_text}")
        directory_id = properties.get("directory.id")
        try:
            found = None if directory_id is None else uuid_from_text(directory_id)
        except ValueError as error:
            raise CorruptCheckpoint(f"{path}: directory.id={directory_id} is not an id: {error}") from error
        return cls(cluster_id, int(node_id), found, int(version))


def encode_clean_shutdown(broker_epoch: int) -> bytes:
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def decode_clean_shutdown(data: bytes) -> int:
    """Returns the broker epoch, or -1 if it is missing (the file of older versions is empty)."""
    try:
        return int(json.loads(data)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return -1
