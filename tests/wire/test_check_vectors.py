"""tools/check_vectors: passes what Kafka wrote, fails what it did not, and counts."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
VECTORS = ROOT / "tests" / "vectors"


def check(*files: Path) -> tuple[int, list[str]]:
    command = [sys.executable, str(ROOT / "tools" / "check_vectors"), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def cases() -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress((VECTORS / "messages.jsonl.gz").read_bytes()).splitlines()]


def write(file: Path, *lines: dict[str, Any]) -> Path:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def test_all_messages_that_kafka_wrote_pass() -> None:
    assert check(VECTORS / "messages.jsonl.gz") == (0, ["1616 passed, 0 failed"])


def test_assignors_are_counted_as_skipped_while_there_are_none() -> None:
    status, lines = check(VECTORS / "assignors.jsonl.gz")
    assert status == 0
    assert lines[0].startswith("skipped assignors.jsonl.gz: ")
    assert lines[-1].startswith("0 passed, 0 failed, ")
    assert lines[-1].endswith(" skipped")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"hex": "00"}, "DecodeError: AddOffsetsToTxnRequest version 3"),
        ({"json": {}}, "JSON of the decoded message"),
        ({"headerVersion": 1}, "header version"),
        ({"flexible": False}, "flexible"),
        ({"apiKey": 3}, "API key"),
        ({"version": 77}, "UnsupportedVersion"),
        ({"unknownTaggedFields": [{"tag": 1, "data": ""}]}, "unknown tagged fields"),
        ({"api": "Nonsense"}, "KeyError"),
        ({"kind": None, "api": None}, "format"),
    ],
)
def test_a_case_that_differs_from_ours_fails_with_its_name_and_reason(
    change: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    good = next(case for case in cases() if case["api"] == "AddOffsetsToTxn" and case["version"] == 3)
    bad = {key: value for key, value in {**good, **change}.items() if value is not None}
    status, lines = check(write(tmp_path / "few.jsonl", good, bad))
    assert status == 1
    assert lines[0].startswith("FAILED few.jsonl:2 ")
    assert reason in lines[0]
    assert lines[-1] == "1 passed, 1 failed"


def test_a_wrong_framing_fails(tmp_path: Path) -> None:
    framed = [case for case in cases() if "framedHex" in case]
    kinds = {case["kind"]: {**case, "framedHex": "00" + case["framedHex"]} for case in framed}
    status, lines = check(write(tmp_path / "framed.jsonl", *kinds.values()))
    assert (status, lines[-1]) == (1, "0 passed, 3 failed")


def test_only_twenty_failures_are_listed(tmp_path: Path) -> None:
    bad = {**cases()[0], "hex": ""}
    status, lines = check(write(tmp_path / "many.jsonl", *[bad] * 23))
    assert status == 1
    assert len([line for line in lines if line.startswith("FAILED")]) == 20
    assert lines[-2:] == ["… and 3 more failed", "0 passed, 23 failed"]


def test_a_single_case_and_several_files_are_taken(tmp_path: Path) -> None:
    one = write(tmp_path / "one.jsonl", cases()[0])
    two = write(tmp_path / "two.jsonl", *cases()[:2])
    assert check(one, two) == (0, ["3 passed, 0 failed"])
