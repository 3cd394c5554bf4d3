"""`cordwood log dump` as tests call it, and segments for it."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from cordwood.cli.commands import app
from cordwood.wire.records import Record, encode_batch

VECTORS = Path(__file__).parent.parent / "vectors"
FIRST = "00000000000000000000"
Line = dict[str, Any]


def dump(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["log", "dump", *map(str, arguments)])


def dump_json(*arguments: str | Path) -> list[Line]:
    done = dump("--json", *arguments)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def of_type(lines: list[Line], kind: str) -> list[Line]:
    return [line for line in lines if line["type"] == kind]


def write_segment(path: Path, *batches: bytes | bytearray) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(batches))
    return path


def batch_at(offset: int, *values: str, timestamp: int = 1_700_000_000_000) -> bytearray:
    return encode_batch([Record(offset + i, timestamp, b"k", value.encode()) for i, value in enumerate(values)])
