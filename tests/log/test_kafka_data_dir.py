"""A data directory that Kafka wrote, opened by our log: as it was stopped, and as if it had been killed."""

import copy
import gzip
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cordwood.wire.compression import Codec, compress
from cordwood.wire.legacy import encode_message
from data_dir_check.directory import check_unpacked, unpack
from data_dir_check.report import Report

ROOT = Path(__file__).parent.parent.parent
TARBALL = ROOT / "tests" / "vectors" / "kafka-data-dir.tar.gz"
DESCRIPTION = ROOT / "tests" / "vectors" / "kafka-data-dir.json.gz"
INDEX_FILE_BYTES, TIME_INDEX_FILE_BYTES = 4096, 4092
MIN_CHECKS = 7_500

Description = dict[str, Any]


@pytest.fixture
def directory(tmp_path: Path) -> str:
    return unpack(TARBALL, str(tmp_path))


@cache
def stated() -> Description:
    description: Description = json.loads(gzip.decompress(DESCRIPTION.read_bytes()))
    return description


def test_our_log_agrees_with_all_recorded_answers_of_kafka(directory: str) -> None:
    report = check_unpacked(directory, stated())
    assert report.failures == []
    assert report.passed > MIN_CHECKS


@pytest.mark.parametrize("with_checkpoints", [True, False], ids=["with checkpoints", "without"])
def test_a_killed_brokers_directory_is_recovered_completely(with_checkpoints: bool, directory: str) -> None:
    description = kill(directory, copy.deepcopy(stated()), with_checkpoints=with_checkpoints)
    report = check_unpacked(directory, description)
    assert report.failures == []
    assert report.passed > MIN_CHECKS


def test_a_torn_write_at_the_end_of_every_log_is_cut_off(directory: str) -> None:
    description = kill(directory, copy.deepcopy(stated()))
    for partition in description["partitions"]:
        segment = partition["segments"][-1]
        name = f"{partition['topic']}-{partition['partition']}/{segment['baseOffset']:020d}.log"
        with open(f"{directory}/{name}", "ab") as file:
            file.write(partition["logEndOffset"].to_bytes(8, "big") + (500).to_bytes(4, "big") + b"torn")
        segment["sizeInBytes"] += 16
    report = check_unpacked(directory, description)
    assert report.failures == []


def kill(directory: str, description: Description, *, with_checkpoints: bool = False) -> Description:
    """Makes of a cleanly stopped directory one of a killed broker; the description of that.

    Its checkpoints have the start of each active segment, or nothing: then it was killed in its first minute.
    """
    os.unlink(f"{directory}/.kafka_cleanshutdown")
    del description["files"][".kafka_cleanshutdown"]
    flushed = []
    for partition in description["partitions"]:
        for key in ("checkpointRecoveryPoint", "checkpointHighWatermark"):
            if partition.pop(key, None) is not None and with_checkpoints:
                partition[key] = partition["segments"][-1]["baseOffset"]
        if "checkpointRecoveryPoint" in partition:
            flushed.append(f"{partition['topic']} {partition['partition']} {partition['checkpointRecoveryPoint']}")
        _forget_clean_stop(f"{directory}/{partition['topic']}-{partition['partition']}", partition)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        description["files"][name] = ["0", str(len(flushed)), *flushed]
        Path(directory, name).write_text("\n".join([*description["files"][name], ""]))
    return description


def _forget_clean_stop(path: str, partition: Description) -> None:
    """Only a clean stop cuts the active segment's indexes and takes a snapshot at the log's end."""
    active = partition["segments"][-1]
    for kind, size in (("index", INDEX_FILE_BYTES), ("timeindex", TIME_INDEX_FILE_BYTES)):
        os.truncate(f"{path}/{active['baseOffset']:020d}.{kind}", size)
        active[f"{kind}FileBytes"] = size
    last = f"{partition['logEndOffset']:020d}.snapshot"
    if partition["logEndOffset"] != active["baseOffset"]:
        Path(path, last).unlink(missing_ok=True)
        partition["producerSnapshots"] = [
            snapshot for snapshot in partition["producerSnapshots"] if snapshot["file"] != last
        ]


def _find(description: Description, topic: str) -> Description:
    partition: Description = next(p for p in description["partitions"] if p["topic"] == topic)
    return partition


def _alter_record(description: Description) -> None:
    _find(description, "plain")["records"][3]["value"] = "00"


def _alter_txn_state(description: Description) -> None:
    record = next(r for r in _find(description, "transactional")["records"] if r.get("txn") == "aborted")
    record["txn"] = "committed"


def _alter_batch(description: Description) -> None:
    _find(description, "compacted")["segments"][0]["batches"][0]["crc"] += 1


def _alter_index(description: Description) -> None:
    _find(description, "times")["segments"][0]["index"][0][1] += 1


def _alter_time_index(description: Description) -> None:
    _find(description, "times")["segments"][0]["timeindex"][0][0] += 1


def _alter_txn_index(description: Description) -> None:
    _find(description, "transactional")["segments"][1]["txnindex"][0]["lastStableOffset"] += 1


def _alter_producer(description: Description) -> None:
    _find(description, "transactional")["live"]["producers"][0]["coordinatorEpoch"] += 1


def _hide_open_producer(description: Description) -> None:
    live = _find(description, "transactional")["live"]
    live["producers"] = [producer for producer in live["producers"] if producer["currentTxnStartOffset"] < 0]


def _alter_snapshot(description: Description) -> None:
    _find(description, "headers")["producerSnapshots"][0]["producers"][0]["epoch"] += 1


def _alter_time_lookup(description: Description) -> None:
    _find(description, "plain")["live"]["atT0plus20s"]["offset"] += 1


def _alter_committed_runs(description: Description) -> None:
    _find(description, "transactional")["live"]["read_committed"][0][1] += 1


def _alter_decoded(description: Description) -> None:
    _find(description, "__cluster_metadata")["records"][5]["decoded"]["version"] += 1


def _alter_metadata_snapshot(description: Description) -> None:
    _find(description, "__cluster_metadata")["metadataSnapshots"][1]["records"][0]["timestamp"] += 1


def _alter_epochs(description: Description) -> None:
    _find(description, "plain")["files"]["leader-epoch-checkpoint"][3] = "2 23"


def _alter_group_offset(description: Description) -> None:
    description["live"]["groups"]["txn-group"]["offsets"]["plain-2"]["offset"] += 1


def _alter_transaction(description: Description) -> None:
    description["live"]["transactions"]["txn-open"]["state"] = "CompleteAbort"


def _alter_topic_config(description: Description) -> None:
    resource = next(r for r in description["live"]["describeConfigs"] if (r["type"], r["name"]) == ("TOPIC", "plain"))
    entry = next(e for e in resource["entries"] if e["name"] == "index.interval.bytes")
    entry["synonyms"][0]["value"] = "301"


def _alter_features(description: Description) -> None:
    description["live"]["finalizedFeatures"]["metadata.version"] += 1


def _drop_deleted_directory(description: Description) -> None:
    description["deletedPartitionDirectories"].clear()


ALTERATIONS: list[Callable[[Description], None]] = [
    _alter_record,
    _alter_txn_state,
    _alter_batch,
    _alter_index,
    _alter_time_index,
    _alter_txn_index,
    _alter_producer,
    _hide_open_producer,
    _alter_snapshot,
    _alter_time_lookup,
    _alter_committed_runs,
    _alter_decoded,
    _alter_metadata_snapshot,
    _alter_epochs,
    _alter_group_offset,
    _alter_transaction,
    _alter_topic_config,
    _alter_features,
    _drop_deleted_directory,
]


@pytest.mark.parametrize("alter", ALTERATIONS, ids=lambda alter: alter.__name__.strip("_"))
def test_the_check_notices(alter: Callable[[Description], None], directory: str) -> None:
    description = copy.deepcopy(stated())
    alter(description)
    assert check_unpacked(directory, description).failures


def test_an_exception_fails_its_own_request() -> None:
    report = Report()
    nothing_stated: Description = {}
    with report.guard("a partition"):
        _find(nothing_stated, "plain")
    assert len(report.failures) == 1
    assert "a partition: KeyError" in report.failures[0]


def test_the_script_reports_how_many_comparisons_passed() -> None:
    command = [sys.executable, str(ROOT / "tools" / "check_data_dir"), str(TARBALL), str(DESCRIPTION)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    passed, failed = done.stdout.splitlines()[-1].split(", ")
    assert failed == "0 failed"
    assert int(passed.removesuffix(" passed")) > MIN_CHECKS


def test_the_script_fails_when_a_comparison_does(tmp_path: Path) -> None:
    description = copy.deepcopy(stated())
    _alter_record(description)
    altered = tmp_path / "altered.json"
    altered.write_text(json.dumps(description))
    command = [sys.executable, str(ROOT / "tools" / "check_data_dir"), str(TARBALL), str(altered)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "FAILED plain-0: record 3" in done.stdout
    assert done.stdout.splitlines()[-1].endswith(" passed, 2 failed")


def test_messages_of_magic_0_and_1_are_compared_as_well(tmp_path: Path) -> None:
    """A directory as an old broker left it: no metadata log, no counts, no epochs, no producers."""
    inner = encode_message(1, 0, 50, b"k", b"1") + encode_message(1, 1, 40, b"k", b"2")
    messages = [
        encode_message(0, 0, -1, b"a", b"0"),
        encode_message(1, 1, 30, None, b"1"),
        encode_message(1, 3, 50, None, bytes(compress(Codec.GZIP, inner)), codec=Codec.GZIP),
    ]
    partition = tmp_path / "old-0"
    partition.mkdir()
    (partition / f"{0:020d}.log").write_bytes(b"".join(messages))
    (partition / f"{0:020d}.index").touch()
    (partition / f"{0:020d}.timeindex").write_bytes(struct.pack(">qi", 50, 3))
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=1\n")
    (tmp_path / ".kafka_cleanshutdown").touch()
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nold 0 4\n")
    sizes = [len(message) for message in messages]
    size = sum(sizes)

    def batch(number: int, magic: int, offsets: tuple[int, int], codec: str, timestamp: int) -> Description:
        return {
            "baseOffset": offsets[0],
            "lastOffset": offsets[1],
            "magic": magic,
            "sizeInBytes": sizes[number],
            "valid": True,
            "compression": codec,
            "timestampType": "CreateTime" if magic else "NoTimestampType",
            "maxTimestamp": timestamp,
            "position": sum(sizes[:number]),
        }

    def record(offset: int, timestamp: int, key: str | None, value: str) -> Description:
        return {"offset": offset, "timestamp": timestamp, "key": key, "value": value}

    segment = {
        "baseOffset": 0,
        "sizeInBytes": size,
        "validBytes": size,
        "batches": [batch(0, 0, (0, 0), "none", -1), batch(1, 1, (1, 1), "none", 30), batch(2, 1, (2, 3), "gzip", 50)],
        "index": [],
        "indexFileBytes": 0,
        "timeindex": [[50, 3]],
        "timeindexFileBytes": 12,
    }
    description = {
        "partitions": [
            {
                "topic": "old",
                "partition": 0,
                "checkpointHighWatermark": 4,
                "segments": [segment],
                "producerSnapshots": [],
                "logEndOffset": 4,
                "records": [
                    record(0, -1, "61", "30"),
                    record(1, 30, None, "31"),
                    record(2, 50, "6b", "31"),
                    record(3, 40, "6b", "32"),
                ],
                "live": {
                    "earliest": 0,
                    "latest": 4,
                    "at35": {"offset": 2, "timestamp": 50},
                    "maxTimestamp": {"offset": 2, "timestamp": 50},
                    "read_uncommitted": [[0, 3]],
                    "read_committed": [[0, 3]],
                },
            }
        ]
    }
    assert check_unpacked(str(tmp_path), description).failures == []
