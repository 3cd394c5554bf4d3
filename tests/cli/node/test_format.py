"""`cordwood format` beside `kafka-storage format`, whose files and words tools/record_formatting.py has recorded."""

import base64
import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cordwood.log.checkpoints.formats import MetaProperties
from cordwood.metadata.storage.snapshot import decode_snapshot
from cordwood.wire.batch_header import batch_headers
from cordwood.wire.primitives import uuid_from_text
from tests.cli.cli_runner import run_here

VECTORS = Path(__file__).parents[2] / "vectors" / "formatting.json.gz"
CASES: list[dict[str, Any]] = json.loads(gzip.decompress(VECTORS.read_bytes()))


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_format_matches_kafkas(case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("server.properties").write_text(case["config"])
    for run in case["runs"]:
        done = run_here(["format", "-c", "server.properties", *run["arguments"]], b"")
        assert done.code == run["status"]
        assert sorted(done.lines) == sorted(run["stdout"])
        if run["stderr"]:
            theirs = run["stderr"][0].rpartition("Exception: ")[2].partition(". Valid feature levels")[0]
            assert done.stderr.startswith(f"cordwood format: {theirs}")
    ours = {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    del ours["server.properties"]
    kafkas = {name: base64.b64decode(text) for name, text in case["files"].items()}
    assert ours.keys() == kafkas.keys()
    for name, data in ours.items():
        if name.endswith("meta.properties"):
            _check_meta(name, data, kafkas[name])
        else:
            _check_snapshot(name, data, kafkas[name])


def _check_meta(name: str, ours: bytes, kafkas: bytes) -> None:
    """Equal but for the time, and for the id of a directory where that is random."""
    assert [line.partition(b"=")[0] for line in ours.splitlines()[2:]] == [
        line.partition(b"=")[0] for line in kafkas.splitlines()[2:]
    ]
    meta, expected = MetaProperties.decode(name, ours), MetaProperties.decode(name, kafkas)
    given = uuid_from_text("JEXY6aqzQY-32P5TStzaFg")
    if expected.directory_id != given:
        assert meta.directory_id != given
        meta = replace(meta, directory_id=expected.directory_id)
    assert meta == expected


def _check_snapshot(name: str, ours: bytes, kafkas: bytes) -> None:
    """Equal but for times, checksums and the random directory id of a standalone controller."""
    assert len(ours) == len(kafkas)
    for (at, our_batch), (kafkas_at, kafkas_batch) in zip(batch_headers(ours), batch_headers(kafkas), strict=True):
        assert at == kafkas_at
        assert our_batch.count == kafkas_batch.count
        assert our_batch.attributes == kafkas_batch.attributes
        assert our_batch.leader_epoch == kafkas_batch.leader_epoch
    snapshot, expected = decode_snapshot(name, ours), decode_snapshot(name, kafkas)
    assert snapshot.records == expected.records
    assert (snapshot.last_timestamp_ms == 0) == (expected.last_timestamp_ms == 0)
    assert snapshot.quorum.kraft_version == expected.quorum.kraft_version
    if snapshot.quorum.voters is not None and len(snapshot.quorum.voters.voters) == 1:
        assert expected.quorum.voters is not None
        snapshot.quorum.voters.voters[0].voter_directory_id = expected.quorum.voters.voters[0].voter_directory_id
    assert snapshot.quorum.voters == expected.quorum.voters


def test_only_one_option_names_the_first_controllers(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(CASES[0]["config"])
    done = run_here(["format", "-c", str(file), "-t", "x", "--standalone", "--no-initial-controllers"], b"")
    assert done.code == 1
    assert "Only one of --standalone" in done.stderr


def test_formatted_directories_are_reported_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = next(case["config"] for case in CASES if "standalone" in str(case["runs"]))
    Path("server.properties").write_text(config)
    cluster_id = json.loads(run_here(["random-uuid", "--json"], b"").stdout)["id"]
    arguments = ["format", "-c", "server.properties", "-t", cluster_id, "--standalone", "--ignore-formatted", "--json"]
    told = json.loads(run_here(arguments, b"").stdout)
    assert told["clusterId"] == cluster_id
    for directory in told["formatted"]:
        meta = (tmp_path / directory["path"] / "meta.properties").read_bytes()
        assert uuid_from_text(directory["directoryId"]) == MetaProperties.decode("meta", meta).directory_id
    assert told["formatted"]
    assert json.loads(run_here(arguments, b"").stdout)["formatted"] == []
