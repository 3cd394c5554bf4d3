"""The directory as it was packed: every file in the description, before our log has touched it."""

from __future__ import annotations

import os
from typing import Any

from cordwood.cli.dump.describe import describe_batch
from cordwood.cli.dump.index import ENTRY_READERS, describe_txn
from cordwood.cli.dump.segment import Rest, walk
from cordwood.log.checkpoints.formats import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    MetaProperties,
    read_offsets,
)
from cordwood.log.files import (
    DELETE_DIRECTORY,
    LOG,
    OFFSET_INDEX,
    PRODUCER_SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    directory_name,
    file_name,
    parse_directory_name,
    parse_file_name,
)
from cordwood.log.idempotence.producers import Producer
from cordwood.log.idempotence.snapshots import decode_snapshot
from cordwood.runtime.files.local_disk import LocalDisk
from cordwood.runtime.files.read_only import ReadOnlyFile, list_directory

from .metadata import snapshot_files, snapshot_records
from .report import Report

CHECKPOINTS = {
    "checkpointHighWatermark": HIGH_WATERMARKS,
    "checkpointRecoveryPoint": RECOVERY_POINTS,
    "checkpointLogStart": LOG_START_OFFSETS,
    "checkpointCleaner": CLEANER_OFFSETS,
}


def check_files(directory: str, expected: dict[str, Any], report: Report) -> None:
    for name, lines in expected.get("files", {}).items():
        report.same(name, _lines(f"{directory}/{name}"), lines)
    if "bootstrapCheckpoint" in expected:
        ours = snapshot_records(f"{directory}/bootstrap.checkpoint")
        check_records("bootstrap.checkpoint", ours, expected["bootstrapCheckpoint"], report)
    if "deletedPartitionDirectories" in expected:
        report.same("deleted directories", deleted_directories(directory), expected["deletedPartitionDirectories"])
    offsets = {key: read_offsets(LocalDisk(directory), name) for key, name in CHECKPOINTS.items()}
    for partition in expected["partitions"]:
        name = directory_name(partition["topic"], partition["partition"])
        with report.guard(f"{name}: its files"):
            _check_partition_files(f"{directory}/{name}", name, partition, report)
        for key in CHECKPOINTS:
            ours_at = offsets[key].get((partition["topic"], partition["partition"]))
            report.same(f"{name}: {key}", ours_at, partition.get(key))


def deleted_directories(directory: str) -> list[str]:
    parsed = [(name, parse_directory_name(name)) for name, is_directory in list_directory(directory) if is_directory]
    return [name for name, partition in parsed if partition is not None and partition.mark == DELETE_DIRECTORY]


def meta_properties(directory: str) -> MetaProperties:
    with open(f"{directory}/{META_PROPERTIES}", "rb") as file:
        return MetaProperties.decode(META_PROPERTIES, file.read())


def _lines(path: str) -> list[str] | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return None


def _check_partition_files(path: str, name: str, partition: dict[str, Any], report: Report) -> None:
    for file, lines in partition.get("files", {}).items():
        report.same(f"{name}/{file}", _lines(f"{path}/{file}"), lines)
    bases = [file.base_offset for file in map(parse_file_name, os.listdir(path)) if file and file[1:] == (LOG, "")]
    report.same(f"{name}: segments", sorted(bases), [segment["baseOffset"] for segment in partition["segments"]])
    for segment in partition["segments"]:
        _check_segment_files(path, name, segment, report)
    if "producerSnapshots" in partition:
        stated = [by_producer_id(snapshot) for snapshot in partition["producerSnapshots"]]
        report.same(f"{name}: producer snapshots", producer_snapshots(path), stated)
    if "metadataSnapshots" in partition:
        stated = partition["metadataSnapshots"]
        report.same(f"{name}: metadata snapshots", snapshot_files(path), [snapshot["file"] for snapshot in stated])
        for snapshot in stated:
            ours = snapshot_records(f"{path}/{snapshot['file']}")
            check_records(f"{name}/{snapshot['file']}", ours, snapshot["records"], report)


def _check_segment_files(path: str, name: str, segment: dict[str, Any], report: Report) -> None:
    base = segment["baseOffset"]
    where = f"{name}/{file_name(base, LOG)}"
    with ReadOnlyFile(f"{path}/{file_name(base, LOG)}") as file:
        report.same(f"{where}: sizeInBytes", file.size, segment["sizeInBytes"])
        batches, valid_bytes = [], 0
        for batch in walk(file, decode=True):
            if isinstance(batch, Rest):
                break
            batches.append(describe_batch(batch.header, batch.position, batch.is_valid, batch.first_offset))
            valid_bytes = batch.position + batch.header.size
    check_batches(where, batches, segment["batches"], report)
    report.same(f"{where}: validBytes", valid_bytes, segment["validBytes"])
    for kind, key in ((OFFSET_INDEX, "index"), (TIME_INDEX, "timeindex"), (TXN_INDEX, "txnindex")):
        entries, size = _read_index(f"{path}/{file_name(base, kind)}", kind, base)
        report.same(f"{where}: {key}", entries, segment.get(key))
        if f"{key}FileBytes" in segment:
            report.same(f"{where}: {key}FileBytes", size, segment[f"{key}FileBytes"])


def _read_index(path: str, kind: str, base_offset: int) -> tuple[list[Any] | None, int | None]:
    try:
        with ReadOnlyFile(path) as file:
            entries = ENTRY_READERS[kind](file, base_offset)
            return [describe_txn(txn) if kind == TXN_INDEX else list(txn) for txn in entries], file.size
    except FileNotFoundError:
        return None, None


def check_batches(where: str, ours: list[dict[str, Any]], stated: list[dict[str, Any]], report: Report) -> None:
    """Compares the stated facts of each batch, which differ by magic."""
    report.same(f"{where}: number of batches", len(ours), len(stated))
    for batch, facts in zip(ours, stated, strict=False):
        told = {name: batch.get(name, "not told") for name in facts}
        report.same(f"{where}: batch at {facts['position']}", told, facts)


def producer_snapshots(path: str) -> list[dict[str, Any]]:
    found = []
    for name in sorted(os.listdir(path)):
        if (parsed := parse_file_name(name)) and parsed[1:] == (PRODUCER_SNAPSHOT, ""):
            with open(f"{path}/{name}", "rb") as file:
                producers = decode_snapshot(name, file.read())
            producers.sort(key=lambda producer: producer.producer_id)
            found.append({"file": name, "producers": [_describe_producer(producer) for producer in producers]})
    return found


def by_producer_id(snapshot: dict[str, Any]) -> dict[str, Any]:
    return snapshot | {"producers": sorted(snapshot["producers"], key=lambda producer: int(producer["producerId"]))}


def _describe_producer(producer: Producer) -> dict[str, Any]:
    batches = [
        {
            "lastSeq": batch.last_sequence,
            "lastOffset": batch.last_offset,
            "offsetDelta": batch.offset_delta,
            "timestamp": batch.timestamp,
        }
        for batch in producer.batches
    ]
    return {
        "producerId": producer.producer_id,
        "epoch": producer.epoch,
        "coordinatorEpoch": producer.coordinator_epoch,
        "lastTimestamp": producer.last_timestamp,
        "firstDataOffset": producer.batches[0].first_offset if producer.batches else -1,
        "lastDataOffset": producer.batches[-1].last_offset if producer.batches else -1,
        "currentTxnFirstOffset": producer.txn_first_offset,
        "batches": batches,
    }


def check_records(where: str, ours: list[dict[str, Any]], stated: list[dict[str, Any]], report: Report) -> None:
    report.same(f"{where}: number of records", len(ours), len(stated))
    for record, facts in zip(ours, stated, strict=False):
        # Which internal topics are decoded is the description's choice.
        told = record if "decoded" in facts else {name: value for name, value in record.items() if name != "decoded"}
        report.same(f"{where}: record {facts['offset']}", told, facts)
