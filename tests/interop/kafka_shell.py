"""Kafka's metadata shell, which few installations have: its jars are fetched with Maven where they are missing."""

from __future__ import annotations

import subprocess
import tempfile
from functools import cache
from pathlib import Path

from fetch_kafka import fetch_artifacts
from tests.interop.mixed_cluster import KAFKA_HOME, java

_SHELL = "org.apache.kafka.shell.MetadataShell"


def shell(file: Path, *command: str) -> str:
    """The output of a command in the shell over a file, a snapshot or a segment of the log."""
    done = subprocess.run(
        [java(), "-cp", _class_path(), _SHELL, "--snapshot", str(file), *command],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@cache
def _class_path() -> str:
    assert KAFKA_HOME is not None
    lib = Path(KAFKA_HOME) / "lib"
    if any(lib.glob("kafka-shell-*.jar")):
        return f"{lib}/*"
    (core,) = lib.glob("kafka-metadata-*.jar")
    fetched = Path(tempfile.gettempdir()) / f"cordwood-{core.stem.replace('metadata', 'shell')}"
    fetch_artifacts(fetched, [("org.apache.kafka", "kafka-shell", core.stem.rpartition("-")[2])])
    return f"{fetched}/*"
