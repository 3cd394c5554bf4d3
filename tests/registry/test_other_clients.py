"""Clients in other languages, where they are installed: a folder with the library is named by a variable.

`npm install @kafkajs/confluent-schema-registry @confluentinc/schemaregistry` in JAVASCRIPT_REGISTRY_CLIENT; after
`go mod init example.com/test`, `go get github.com/twmb/franz-go/pkg/sr
github.com/confluentinc/confluent-kafka-go/v2/schemaregistry` in GO_REGISTRY_CLIENT.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.registry.registry_fixtures import Rest

SCRIPTS = Path(__file__).parent / "clients"


def folder_of(variable: str, tool: str) -> Path:
    folder = os.environ.get(variable)
    if folder is None or shutil.which(tool) is None:
        pytest.skip(f"{variable} names no folder, or there is no {tool}")
    return Path(folder)


def succeed(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


@pytest.mark.parametrize("script", ["javascript.mjs", "confluent.mjs"])
def test_javascript_client(rest: Rest, script: str) -> None:
    folder = folder_of("JAVASCRIPT_REGISTRY_CLIENT", "node")
    succeed(["node", str(SCRIPTS / script), rest.url], folder)


@pytest.mark.parametrize("program", ["go", "go_confluent"])
def test_go_client(rest: Rest, program: str) -> None:
    folder = folder_of("GO_REGISTRY_CLIENT", "go")
    shutil.copy(SCRIPTS / program / "main.go", folder / "main.go")
    succeed(["go", "run", ".", rest.url], folder)
