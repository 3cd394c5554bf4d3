"""`cordwood log dump`, on what Kafka wrote, on damage, and on what is too large to be held."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cordwood.cli.dump.segment import Batch, Rest, walk
from cordwood.runtime.files.read_only import ReadOnlyFile
from cordwood.wire.legacy import encode_message
from cordwood.wire.records import Record, encode_batch
from tests.cli.log_dumping import FIRST, VECTORS, Line, batch_at, dump, dump_json, of_type, write_segment


@cache
def description() -> dict[str, Any]:
    stated: dict[str, Any] = json.loads(gzip.decompress((VECTORS / "kafka-data-dir.json.gz").read_bytes()))
    return stated


# Kafka's files


def test_json_of_every_segment_matches_kafkas_dump(kafkas: Path) -> None:
    by_file: dict[str, list[Line]] = defaultdict(list)
    for line in dump_json("--indexes", kafkas):
        by_file[os.path.relpath(line["file"], kafkas)].append(line)
    for partition in description()["partitions"]:
        name = f"{partition['topic']}-{partition['partition']}"
        records = []
        for segment in partition["segments"]:
            path = f"{name}/{segment['baseOffset']:020d}"
            batches = of_type(by_file[f"{path}.log"], "batch")
            assert [_only(batch, segment["batches"][0]) for batch in batches] == segment["batches"]
            records += of_type(by_file[f"{path}.log"], "record")
            entries = of_type(by_file[f"{path}.index"], "indexEntry")
            assert [[entry["offset"], entry["position"]] for entry in entries] == segment["index"]
            entries = of_type(by_file[f"{path}.timeindex"], "timeIndexEntry")
            assert [[entry["timestamp"], entry["offset"]] for entry in entries] == segment["timeindex"]
            txns = of_type(by_file[f"{path}.txnindex"], "abortedTxn")
            assert [_without(txn, "type", "file") for txn in txns] == segment.get("txnindex", [])
        # The outcome of a transaction is unknown while the log is being read.
        stated = [_without(record, "txn", "producerId") for record in partition["records"]]
        assert [_without(record, "type", "file", "keyText", "valueText") for record in records] == stated


def _only(line: Line, wanted: Line) -> Line:
    return {name: line[name] for name in wanted}


def _without(line: Line, *names: str) -> Line:
    return {name: value for name, value in line.items() if name not in names}


def test_json_of_every_snapshot_matches_kafkas_dump(kafkas: Path) -> None:
    for partition in description()["partitions"]:
        directory = kafkas / f"{partition['topic']}-{partition['partition']}"
        for snapshot in partition["producerSnapshots"]:
            lines = of_type(dump_json(directory / snapshot["file"]), "producer")
            assert [_without(line, "type", "file") for line in lines] == snapshot["producers"]
        for snapshot in partition.get("metadataSnapshots", []):
            records = of_type(dump_json(directory / snapshot["file"]), "record")
            told = [_without(record, "type", "file", "keyText", "valueText") for record in records]
            assert told == snapshot["records"]


def test_json_of_the_bootstrap_checkpoint_matches_kafkas_dump(kafkas: Path) -> None:
    records = of_type(dump_json(kafkas / "bootstrap.checkpoint"), "record")
    told = [_without(record, "type", "file", "keyText", "valueText") for record in records]
    assert told == description()["bootstrapCheckpoint"]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("recovery-point-offset-checkpoint", "checkpointRecoveryPoint"),
        ("replication-offset-checkpoint", "checkpointHighWatermark"),
        ("log-start-offset-checkpoint", "checkpointLogStart"),
        ("cleaner-offset-checkpoint", "checkpointCleaner"),
    ],
)
def test_offset_checkpoints_are_dumped_by_partition(name: str, key: str, kafkas: Path) -> None:
    lines = of_type(dump_json(kafkas / name), "checkpoint")
    told = {(line["topic"], line["partition"]): line["offset"] for line in lines}
    stated = {(p["topic"], p["partition"]): p[key] for p in description()["partitions"] if key in p}
    assert told == stated


def test_leader_epochs_properties_and_json_files_are_dumped(kafkas: Path) -> None:
    epochs = of_type(dump_json(kafkas / "plain-0" / "leader-epoch-checkpoint"), "leaderEpoch")
    assert [(line["epoch"], line["startOffset"]) for line in epochs] == [(0, 0), (2, 24)]
    (meta,) = of_type(dump_json(kafkas / "meta.properties"), "properties")
    assert meta["properties"]["cluster.id"] == description()["live"]["clusterId"]
    (topic,) = of_type(dump_json(kafkas / "plain-0" / "partition.metadata"), "properties")
    assert topic["properties"]["topic_id"] == description()["live"]["topics"]["plain"]["id"]
    (quorum,) = of_type(dump_json(kafkas / "__cluster_metadata-0" / "quorum-state"), "properties")
    assert quorum["properties"]["leaderEpoch"] == 2
    (marker,) = of_type(dump_json(kafkas / ".kafka_cleanshutdown"), "properties")
    assert marker["properties"] == {"version": 0, "brokerEpoch": 172}


def test_indexes_are_shown_only_when_requested(kafkas: Path) -> None:
    kinds = {line["kind"] for line in of_type(dump_json(kafkas / "plain-0"), "file")}
    assert kinds == {"log segment", "producer snapshot", "leader epochs", "partition metadata"}
    kinds = {line["kind"] for line in of_type(dump_json(kafkas / "plain-0", "--indexes"), "file")}
    assert {"offset index", "time index"} < kinds
    assert of_type(dump_json(kafkas / "plain-0" / f"{FIRST}.index"), "indexEntry")


def test_several_paths_are_dumped_in_turn(kafkas: Path) -> None:
    paths = [kafkas / "plain-0" / "partition.metadata", kafkas / "headers-0" / "partition.metadata"]
    assert [line["file"] for line in of_type(dump_json(*paths), "file")] == list(map(str, paths))


# Text


def test_a_batch_is_a_line_with_every_field_of_its_header(kafkas: Path) -> None:
    text = dump(kafkas / "headers-0" / f"{FIRST}.log").stdout
    line = next(line for line in text.splitlines() if line.startswith("batch "))
    for field in ("baseOffset: 0", "lastOffset: 7", "position: 0", "sizeInBytes: 332", "magic: 2", "crc: 377985880"):
        assert field in line
    for field in ("valid: true", "compression: none", "timestampType: CreateTime", "maxTimestamp: 1700000000009"):
        assert field in line
    for field in ("partitionLeaderEpoch: 0", "producerId: 6", "producerEpoch: 0", "baseSequence: 0", "lastSequence: 7"):
        assert field in line
    for field in ("isTransactional: false", "isControl: false", "count: 8", "deleteHorizonMs: null", "baseTimestamp"):
        assert field in line


def test_keys_values_and_headers_are_text_where_they_can_be_read_and_hex_elsewhere(tmp_path: Path) -> None:
    records = [
        Record(0, 5, b"caf\xc3\xa9", b"one\ntwo", (("trace", b"\xff"), ("name", b"x"))),
        Record(1, 6, None, b""),
    ]
    path = write_segment(tmp_path / "t-0" / f"{FIRST}.log", encode_batch(records))
    lines = dump(path).stdout.splitlines()
    assert lines[2:] == [
        '  record offset: 0 timestamp: 5 key: "café" value: 0x6f6e650a74776f headers: ["trace"=0xff, "name"="x"]',
        '  record offset: 1 timestamp: 6 key: null value: ""',
    ]


def test_json_gives_text_beside_the_hex_where_it_can_be_read(tmp_path: Path) -> None:
    records = [Record(0, 5, b"caf\xc3\xa9", b"\xff")]
    path = write_segment(tmp_path / "t-0" / f"{FIRST}.log", encode_batch(records))
    (record,) = of_type(dump_json(path), "record")
    assert (record["key"], record["keyText"], record["value"]) == ("636166c3a9", "café", "ff")
    assert "valueText" not in record


def test_internal_topics_and_control_records_are_decoded(kafkas: Path) -> None:
    text = dump(kafkas / "__consumer_offsets-4").stdout
    assert '"type": "OFFSET_COMMIT", "key": {"group": "txn-group", "topic": "plain", "partition": 2}' in text
    assert 'control: {"type": "ABORT", "typeId": 0, "coordinatorEpoch": 0}' in text
    assert '"type": "TRANSACTION_LOG"' in dump(kafkas / "__transaction_state-0").stdout
    assert '"type": "FeatureLevelRecord"' in dump(kafkas / "__cluster_metadata-0").stdout


def test_a_record_that_cannot_be_decoded_is_shown_with_the_reason(tmp_path: Path) -> None:
    records = [Record(0, 5, b"\x00\x63", b"value")]
    path = write_segment(tmp_path / "__consumer_offsets-0" / f"{FIRST}.log", encode_batch(records))
    (record,) = of_type(dump_json(path), "record")
    assert "no record type 99" in record["undecodable"]


def test_messages_of_magic_0_and_1_are_shown(tmp_path: Path) -> None:
    messages = [encode_message(0, 0, -1, b"a", b"b"), encode_message(1, 1, 77, b"c", None)]
    path = write_segment(tmp_path / "t-0" / f"{FIRST}.log", *messages)
    lines = dump_json(path, "--verify")
    told = [(batch["magic"], batch["baseOffset"], batch["timestampType"]) for batch in of_type(lines, "batch")]
    assert told == [(0, 0, "NoTimestampType"), (1, 1, "CreateTime")]
    assert [record["timestamp"] for record in of_type(lines, "record")] == [-1, 77]


# Options


def test_no_records_shows_batches_only(kafkas: Path) -> None:
    lines = dump_json(kafkas / "plain-0", "--no-records")
    assert of_type(lines, "batch")
    assert not of_type(lines, "record")


def test_from_begins_with_the_batch_that_holds_the_offset(tmp_path: Path) -> None:
    first = batch_at(0, "a", "b")
    write_segment(tmp_path / "t-0" / f"{FIRST}.log", first, batch_at(2, "c", "d", "e"))
    write_segment(tmp_path / "t-0" / f"{5:020d}.log", batch_at(5, "f"))
    lines = dump_json(tmp_path / "t-0", "--from", "3")
    assert [batch["baseOffset"] for batch in of_type(lines, "batch")] == [2, 5]
    assert [record["valueText"] for record in of_type(lines, "record")] == ["d", "e", "f"]
    files = of_type(dump_json(tmp_path / "t-0", "--from", "5"), "file")
    assert [Path(line["file"]).stem for line in files] == [f"{5:020d}"]


def test_limit_bounds_the_batches_that_are_shown_but_not_those_that_are_verified(kafkas: Path) -> None:
    path = kafkas / "plain-0" / f"{FIRST}.log"
    assert len(of_type(dump_json(path, "--limit", "2"), "batch")) == 2
    lines = dump_json(path, "--limit", "2", "--verify")
    (summary,) = of_type(lines, "summary")
    assert len(of_type(lines, "batch")) == 2
    assert summary["batches"] > 2


# Errors


def test_a_missing_path_is_an_error(tmp_path: Path) -> None:
    done = dump(tmp_path / "missing.log")
    assert done.exit_code == 2
    assert done.stderr == f"cordwood: {tmp_path}/missing.log: No such file or directory\n"


def test_a_file_of_another_kind_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    done = dump(tmp_path / "notes.txt")
    assert done.exit_code == 2
    assert "notes.txt is not a log directory file: expected a segment (.log)" in done.stderr


def test_a_log_file_that_kafka_did_not_write_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "access.log").write_text('127.0.0.1 - - "GET / HTTP/1.1" 200\n' * 10)
    done = dump(tmp_path / "access.log")
    assert done.exit_code == 2
    assert "access.log is not a log directory file" in done.stderr


def test_a_directory_without_anything_of_a_log_is_an_error(tmp_path: Path) -> None:
    done = dump(tmp_path)
    assert done.exit_code == 2
    assert "is not a log directory" in done.stderr


@pytest.mark.parametrize("options", [[], ["--verify"], ["--verify", "--json"]])
def test_a_directory_of_another_program_is_an_error(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "photos-2024").mkdir()
    (tmp_path / "photos-2024" / "a.jpg").write_text("x")
    (tmp_path / "access.log").write_text('127.0.0.1 - - "GET / HTTP/1.1" 200\n' * 10)
    (tmp_path / "book.index").write_text("x")
    done = dump(tmp_path, *options)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{tmp_path} is not a log directory" in done.stderr


def test_files_of_other_programs_beside_partitions_are_ignored(kafkas: Path, tmp_path: Path) -> None:
    shutil.copytree(kafkas, tmp_path / "data")
    before = dump(tmp_path / "data", "--verify", "--quiet").stdout
    (tmp_path / "data" / "photos-2024").mkdir()
    (tmp_path / "data" / "access.log").write_text('127.0.0.1 - - "GET / HTTP/1.1" 200\n' * 10)
    done = dump(tmp_path / "data", "--verify", "--quiet")
    assert (done.exit_code, done.stdout) == (0, before)


def test_an_empty_path_is_not_the_root() -> None:
    assert (dump("").exit_code, dump("").stderr) == (2, "cordwood: : No such file or directory\n")


def test_an_error_does_not_keep_the_other_paths_from_being_dumped(kafkas: Path, tmp_path: Path) -> None:
    done = dump(tmp_path / "missing.log", kafkas / "meta.properties")
    assert done.exit_code == 2
    assert "cluster.id: " in done.stdout


# Reading only, in little memory, for whoever listens


def test_nothing_is_changed(kafkas: Path, tmp_path: Path) -> None:
    def state() -> list[tuple[str, int, int]]:
        return [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(tmp_path.rglob("*"))]

    shutil.copytree(kafkas, tmp_path / "data")
    os.truncate(tmp_path / "data" / "plain-0" / f"{34:020d}.index", 4096)
    before = state()
    assert dump("--verify", "--indexes", tmp_path / "data").exit_code == 0
    assert state() == before


def test_batches_that_are_appended_in_the_meantime_are_read(tmp_path: Path) -> None:
    second = batch_at(1, "b")
    path = write_segment(tmp_path / f"{FIRST}.log", batch_at(0, "a"), second[:20])
    with ReadOnlyFile(str(path)) as file:
        batches = walk(file, decode=False)
        assert isinstance(next(batches), Batch)
        with path.open("ab") as end:
            end.write(second[20:])
        found = next(batches)
        assert isinstance(found, Batch)
        assert found.header.base_offset == 1
        assert next(batches, None) is None


def test_a_torn_batch_ends_the_walk_with_the_rest(tmp_path: Path) -> None:
    path = write_segment(tmp_path / f"{FIRST}.log", batch_at(0, "a"), batch_at(1, "b")[:20])
    with ReadOnlyFile(str(path)) as file:
        _, rest = walk(file, decode=False)
        assert isinstance(rest, Rest)
        assert (rest.position, rest.size, rest.is_padding) == (len(batch_at(0, "a")), 20, False)


def test_a_closed_pipe_ends_the_dump_quietly(kafkas: Path) -> None:
    command = [sys.executable, "-m", "cordwood", "log", "dump", str(kafkas)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("== ")
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


# Without the file's size this takes about 40 MB.
MEMORY_LIMIT_MB = 130
# VmHWM is this program's own; ru_maxrss begins with that of the process it was forked from.
MEASURED = """
import sys
from cordwood.cli.commands import app
try:
    app(["log", "dump", *sys.argv[1:]])
finally:
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    print(int(status["VmHWM"].split()[0]) // 1024, file=sys.stderr)
"""


def test_a_large_segment_takes_no_more_memory_than_a_small_one(tmp_path: Path) -> None:
    batch = bytes(encode_batch([Record(0, 0, None, bytes(20_000))]))
    path = tmp_path / f"{FIRST}.log"
    with path.open("wb") as file:
        for _ in range(10_000):
            file.write(batch)
    assert path.stat().st_size > 200_000_000
    assert _measured_mb(path, "--no-records") < MEMORY_LIMIT_MB


def test_a_batch_that_claims_to_be_huge_is_checked_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / f"{FIRST}.log"
    size = 400_000_000
    header = bytearray(batch_at(0, "a")[:61])
    header[8:12] = (size - 12).to_bytes(4, "big")
    path.write_bytes(header)
    os.truncate(path, size)
    done = dump(path)
    assert f"a batch of {size} bytes is too large to show its records" in done.stdout
    assert "stored checksum" in done.stdout
    assert _measured_mb(path) < MEMORY_LIMIT_MB


def _measured_mb(*arguments: str | Path) -> int:
    command = [sys.executable, "-c", MEASURED, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)
    return int(done.stderr)
