"""Kafka's own metadata log and snapshots, from its data directory."""

import gzip
import json
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

from cordwood.metadata.storage.batch import MetadataBatch, read_batch
from cordwood.metadata.storage.snapshot import Snapshot, decode_snapshot
from cordwood.wire.batch_header import batch_headers
from cordwood.wire.frames import decode_metadata_record
from cordwood.wire.schema import MetadataRecord

# The features that `kafka-storage format` of 4.3 finalizes, in its order.
KAFKA_LEVELS = {
    "metadata.version": 30,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
VECTORS = Path(__file__).parent.parent / "vectors"
_ROOT = "data/"
_METADATA = "data/__cluster_metadata-0/"
LOG_NAME = "00000000000000000000.log"
SNAPSHOT_NAMES = ("00000000000000000122-0000000001.checkpoint", "00000000000000000255-0000000002.checkpoint")


@cache
def files() -> dict[str, bytes]:
    """The files of the metadata log's directory, and `bootstrap.checkpoint`."""
    found: dict[str, bytes] = {}
    with tarfile.open(VECTORS / "kafka-data-dir.tar.gz") as tar:
        for member in tar:
            name = member.name.removeprefix("./")
            file = tar.extractfile(member) if member.isfile() else None
            if file is not None and name.startswith(_METADATA):
                found[name.removeprefix(_METADATA)] = file.read()
            elif file is not None and name == _ROOT + "bootstrap.checkpoint":
                found["bootstrap.checkpoint"] = file.read()
    return found


@cache
def stated() -> dict[str, Any]:
    description: dict[str, Any] = json.loads(gzip.decompress((VECTORS / "kafka-data-dir.json.gz").read_bytes()))
    return description


@cache
def stated_metadata() -> dict[str, Any]:
    partitions = stated()["partitions"]
    return next(partition for partition in partitions if partition["topic"] == "__cluster_metadata")


def batches() -> list[MetadataBatch]:
    data = files()[LOG_NAME]
    return [read_batch(data, position, header) for position, header in batch_headers(data)]


def snapshot(name: str) -> Snapshot:
    return decode_snapshot(name, files()[name])


def stated_record(offset: int) -> tuple[MetadataRecord, int]:
    """The record that Kafka wrote at an offset, and its version."""
    record = stated_metadata()["records"][offset]
    assert record["offset"] == offset
    return decode_metadata_record(bytes.fromhex(record["value"]))
