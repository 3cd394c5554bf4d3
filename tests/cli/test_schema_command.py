"""`cordwood schema`, against a registry."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import cordwood.testing

R = '{"type":"record","name":"R","fields":[%s]}'
X, Y, Z = (f'{{"name":"{name}","type":"int"{more}}}' for name, more in (("x", ""), ("y", ',"default":1'), ("z", "")))


def _schema(url: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cordwood", "schema", *words, "--registry", url]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_schemas_are_registered_checked_compared_moved_and_deleted(tmp_path: Path) -> None:
    files = []
    for number, fields in enumerate((X, f"{X},{Y}", Z)):
        file = tmp_path / f"{number}.avsc"
        file.write_text(R % fields)
        files.append(str(file))
    with cordwood.testing.node(registry=True) as node, cordwood.testing.node(registry=True) as other:
        url = node.registry_url
        assert _schema(url, "register", "s", files[0]).stdout.split("\t")[:2] == ["1", "1"]
        assert _schema(url, "check", "s", files[1]).stdout == "compatible\n"
        refused = _schema(url, "check", "s", files[2])
        assert refused.returncode == 1
        assert "READER_FIELD_MISSING_DEFAULT_VALUE" in refused.stdout
        _schema(url, "register", "s", files[1])
        compared = _schema(url, "diff", "s", "1", "2").stdout
        assert '+      "name": "y",' in compared
        assert "FULL\tcompatible" in compared
        assert _schema(url, "list").stdout == "s\n"
        exported = tmp_path / "schemas.jsonl"
        exported.write_text(_schema(url, "export").stdout)
        assert _schema(other.registry_url, "import", str(exported)).stdout == "imported 2 versions\n"
        assert _schema(other.registry_url, "versions", "s").stdout == _schema(url, "versions", "s").stdout
        assert _schema(url, "delete", "s").stdout == "1\n2\n"
        missing = _schema(url, "get", "s")
        assert (missing.returncode, missing.stdout) == (1, "")
        assert "40401" in missing.stderr
    assert _schema(url, "list").returncode == 3
