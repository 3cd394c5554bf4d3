"""A Kafka data directory opened by our log, compared with its description; and again after our own clean stop."""

from __future__ import annotations

import gzip
import json
import os
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from cordwood.log.checkpoints.formats import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    read_offsets,
)
from cordwood.log.config import DAY_MS, LogConfig
from cordwood.log.dirs.directory import METADATA_PARTITION, LogDirectory
from cordwood.log.files import LEADER_EPOCHS, directory_name, file_name
from cordwood.log.log import Log
from cordwood.log.recovery import OpenOptions, open_log
from cordwood.runtime.files.local_disk import LocalDisk
from cordwood.runtime.randomness import SeededRandom
from cordwood.wire.primitives import uuid_text

from .cluster import Node, check_live
from .configs import log_config, read_properties
from .files import CHECKPOINTS, by_producer_id, check_files, meta_properties, producer_snapshots
from .metadata import BROKER, Metadata, load_metadata
from .partition import check_partition
from .report import Report

_METADATA_DIRECTORY = directory_name(*METADATA_PARTITION)


class StoppedClock:
    """A time at which nothing has expired, whenever the directory was written."""

    def now_ms(self) -> int:
        return 0

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing waits here")


def check_data_dir(tarball: Path, description: Path) -> Report:
    raw = description.read_bytes()
    expected = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
    with tempfile.TemporaryDirectory(prefix="cordwood-check-") as unpacked:
        return check_unpacked(unpack(tarball, unpacked), expected)


def check_unpacked(directory: str, expected: dict[str, Any]) -> Report:
    """Compares the directory, which our log then stops cleanly, so that it is another one afterwards."""
    report = Report()
    was_clean = os.path.exists(f"{directory}/{CLEAN_SHUTDOWN}")
    check_files(directory, expected, report)
    check_opened(directory, expected, report, was_clean=was_clean)
    # Our files are as good as Kafka's.
    check_rewritten(directory, expected, report, was_clean=was_clean)
    check_opened(directory, expected, report, was_clean=was_clean)
    return report


def unpack(tarball: Path, target: str) -> str:
    """The data directory that is in the tarball: where its meta.properties lies."""
    with tarfile.open(tarball) as archive:
        archive.extractall(target, filter="data")
    for path, _, files in os.walk(target):
        if META_PROPERTIES in files:
            return path
    raise ValueError(f"{tarball} holds no data directory: there is no {META_PROPERTIES} in it")


class Opened:
    """Both kinds of logs of a directory: the metadata log, and all others."""

    def __init__(self, directory: str) -> None:
        self.path = directory
        self.disk = LocalDisk(directory)
        self.is_clean = self.disk.exists(CLEAN_SHUTDOWN)
        server_properties = self.disk.read_file("server.properties") or b""
        self._broker = read_properties(server_properties.decode().splitlines())
        self.metadata_log = self._open_metadata_log()
        self.metadata = (
            Metadata()
            if self.metadata_log is None
            else load_metadata(f"{directory}/{_METADATA_DIRECTORY}", self.metadata_log)
        )
        properties = meta_properties(directory)
        self.node = Node(properties.cluster_id, properties.node_id, self._broker)
        self.directory = LogDirectory(self.disk, self._config_of, StoppedClock(), SeededRandom(0))
        self.directory.open()
        self.logs: dict[tuple[str, int], Log] = dict(self.directory.logs)
        if self.metadata_log is not None:
            self.logs[METADATA_PARTITION] = self.metadata_log

    def close(self) -> None:
        if self.metadata_log is not None:
            self.metadata_log.close(0)
        self.directory.close(self.directory.last_broker_epoch)

    @property
    def producer_expiration_ms(self) -> int:
        return int(self._broker.get("producer.id.expiration.ms", DAY_MS))

    def _open_metadata_log(self) -> Log | None:
        if not os.path.isdir(f"{self.path}/{_METADATA_DIRECTORY}"):
            return None
        options = OpenOptions(clean=self.is_clean)
        return open_log(self.disk, _METADATA_DIRECTORY, LogConfig(), SeededRandom(0), now_ms=0, options=options)

    def _config_of(self, topic: str) -> LogConfig:
        dynamic = self.metadata.configs
        node = str(self.node.node_id)
        broker = self._broker | dynamic.get((BROKER, ""), {}) | dynamic.get((BROKER, node), {})
        return log_config(broker, self.metadata.topic_config(topic))


def check_opened(directory: str, expected: dict[str, Any], report: Report, *, was_clean: bool) -> None:
    opened = Opened(directory)
    stated = {(partition["topic"], partition["partition"]): partition for partition in expected["partitions"]}
    report.same("partitions", sorted(opened.logs), sorted(stated))
    expired_before_ms = _last_activity_ms(expected) - opened.producer_expiration_ms
    for key, partition in stated.items():
        log = opened.logs.get(key)
        if log is None:
            continue
        if "checkpointHighWatermark" in partition and opened.is_clean is was_clean:
            report.same(f"{log.directory}: high watermark", log.high_watermark, _loaded_high_watermark(partition))
        if not opened.metadata.is_replicated(*key):
            # As the leader and only replica does when it starts.
            log.advance_high_watermark(log.end_offset)
        recovered_from = None if was_clean else partition.get("checkpointRecoveryPoint", 0)
        with report.guard(log.directory):
            check_partition(log, partition, report, recovered_from=recovered_from, expired_before_ms=expired_before_ms)
        _check_topic_id(opened, key, expected, report)
    if "live" in expected:
        with report.guard("live"):
            check_live(expected["live"], opened.metadata, opened.logs, opened.node, report)
    opened.close()


def _check_topic_id(opened: Opened, key: tuple[str, int], expected: dict[str, Any], report: Report) -> None:
    topic = expected.get("live", {}).get("topics", {}).get(key[0])
    if topic is not None and key in opened.directory.topic_ids:
        report.same(f"{key[0]}-{key[1]}: topic id", uuid_text(opened.directory.topic_ids[key]), topic["id"])


def _loaded_high_watermark(partition: dict[str, Any]) -> int:
    """The checkpoint's, within the log."""
    start = partition.get("checkpointLogStart", partition["segments"][0]["baseOffset"])
    return int(min(max(partition["checkpointHighWatermark"], start), partition["logEndOffset"]))


def _last_activity_ms(expected: dict[str, Any]) -> int:
    """When the broker last did something, by its own clock: records of clients may have any time."""
    own = [partition for partition in expected["partitions"] if partition["topic"].startswith("__")]
    timestamps = [
        batch["maxTimestamp"]
        for partition in own or expected["partitions"]
        for segment in partition["segments"]
        for batch in segment["batches"]
    ]
    return max(timestamps, default=0)


# After our clean stop


def check_rewritten(directory: str, expected: dict[str, Any], report: Report, *, was_clean: bool) -> None:
    """Files that we have written or rewritten have the same contents, except for changes by opening a log."""
    disk = LocalDisk(directory)
    report.holds("stopped cleanly", disk.exists(CLEAN_SHUTDOWN))
    for name, lines in expected.get("files", {}).items():
        ours = (disk.read_file(name) or b"").decode().splitlines()
        if name not in CHECKPOINTS.values():
            report.same(f"{name} rewritten", ours, lines)
            continue
        stated = lines[2:] if was_clean else _caught_up(name, expected)
        if name == LOG_START_OFFSETS:
            # Ours has all partitions, and a checksum.
            starts = [f"{topic} {number} {offset}" for (topic, number), offset in read_offsets(disk, name).items()]
            report.same(f"{name} rewritten", sorted(set(stated) - set(starts)), [])
        else:
            # Kafka's order is that of a hash map.
            report.same(f"{name} rewritten", (ours[:2], sorted(ours[2:])), (["0", str(len(stated))], sorted(stated)))
    for partition in expected["partitions"]:
        path = directory_name(partition["topic"], partition["partition"])
        with report.guard(f"{path} rewritten"):
            _check_epochs(disk, path, partition, report)
            _check_snapshots(f"{directory}/{path}", path, partition, report, was_clean=was_clean)


def _caught_up(name: str, expected: dict[str, Any]) -> list[str]:
    """The rows of a checkpoint that a killed broker had left behind its logs."""
    key = next(key for key, file in CHECKPOINTS.items() if file == name)
    if name in (RECOVERY_POINTS, HIGH_WATERMARKS):
        key = "logEndOffset"
    return [
        f"{partition['topic']} {partition['partition']} {partition[key]}"
        for partition in expected["partitions"]
        if key in partition and (partition["topic"], partition["partition"]) != METADATA_PARTITION
    ]


def _check_epochs(disk: LocalDisk, path: str, partition: dict[str, Any], report: Report) -> None:
    """An epoch in which nothing was written yet goes when a log is opened; its next leader assigns it again."""
    lines = partition.get("files", {}).get(LEADER_EPOCHS)
    if lines is not None:
        kept = [line for line in lines[2:] if int(line.split(" ")[1]) < partition["logEndOffset"]]
        ours = (disk.read_file(f"{path}/{LEADER_EPOCHS}") or b"").decode().splitlines()
        report.same(f"{path}/{LEADER_EPOCHS} rewritten", ours, [lines[0], str(len(kept)), *kept])


def _check_snapshots(directory: str, path: str, partition: dict[str, Any], report: Report, *, was_clean: bool) -> None:
    """Opening a log removes snapshots that are of no use: before its start, or neither at a segment nor the last.
    Recovery makes those beyond the segment where it begins again."""
    bases = {segment["baseOffset"] for segment in partition["segments"]}
    start = partition.get("checkpointLogStart", min(bases))
    offsets = {int(snapshot["file"][:20]): snapshot for snapshot in partition.get("producerSnapshots", [])}
    strays = [offset for offset in offsets if offset not in bases]
    kept = [
        by_producer_id(snapshot)
        for offset, snapshot in sorted(offsets.items())
        if offset > start and (offset in bases or (offset == max(strays) and offset > max(bases)))
    ]
    ours = producer_snapshots(directory)
    if not was_clean:
        recovery_point = partition.get("checkpointRecoveryPoint", 0)
        recovered_from = file_name(max((base for base in bases if base <= recovery_point), default=0), "")
        ours, kept = ([one for one in snapshots if one["file"][:20] <= recovered_from] for snapshots in (ours, kept))
    report.same(f"{path}: producer snapshots rewritten", ours, kept)
