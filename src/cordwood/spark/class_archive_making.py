"""Creates the archive of Spark's classes: Spark does a little of everything, and Java dumps the classes that it has
loaded."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cordwood import Admin, NewTopic, Producer
from cordwood.spark import class_archive_training
from cordwood.spark.class_archive import (
    OPTIONS_VARIABLE,
    SILENT,
    archive_folder,
    can_be_named,
    keep_archive,
    seal_path,
    whole_archive,
)
from cordwood.spark.class_archive_training import COUNTS, EVENTS, FIRST_ROW, WORK
from cordwood.spark.errors import SparkError
from cordwood.spark.java import JavaRuntime, provide_java

_MB = 1024 * 1024
_NEEDED_MB = 600
"""Disk space while it is created: the previous one may exist, too, and other programs need some."""
_SAID_LINES = 5


class ArchiveNotMade(SparkError):
    """The text says why."""


@dataclass(frozen=True, slots=True)
class MadeArchive:
    path: Path
    size_mb: int
    """Includes all its files."""
    seconds_without: float
    """From starting Spark to the first row."""
    seconds_with: float


def make_archive(bootstrap: str, tell: Callable[[str], None]) -> MadeArchive:
    """For the Java and the PySpark that `session()` would take; one that is there is replaced. `bootstrap`: a node that
    has no other use. Raises `ArchiveNotMade`, `NoJava`."""
    java = provide_java()
    try:
        seal = seal_path(java)
        seal.parent.mkdir(parents=True, exist_ok=True)
        _check_room(archive_folder())
        folder = Path(tempfile.mkdtemp(dir=seal.parent, prefix="spark-"))
    except OSError as error:
        raise ArchiveNotMade(f"cannot write the class archive to the cache: {error}") from error
    try:
        _write_events(bootstrap)
        tell("starting Spark without an archive")
        # Options that speak of archives are left as they are.
        without = _spark(FIRST_ROW, bootstrap, "-Xshare:auto")["seconds"]
        made = folder / "spark.jsa"
        tell(f"first row after {without:.1f} s; recording the classes that it loads")
        base = _base(java, folder)
        _spark(WORK, bootstrap, f"{base} -XX:ArchiveClassesAtExit={made} {SILENT}")
        if not made.exists():
            raise ArchiveNotMade("Java wrote no archive; Spark's conf folder must be empty")
        tell("starting Spark with the archive")
        # Before other imports do.
        fast = _spark(FIRST_ROW, bootstrap, f"-Xshare:auto -XX:SharedArchiveFile={made} {SILENT}")["seconds"]
        size_mb = round(sum(path.stat().st_size for path in folder.iterdir()) / _MB)
        keep_archive(made, seal)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise ArchiveNotMade(f"the archive could not be saved: {error}") from error
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    kept = whole_archive(java)
    if kept is None:
        raise ArchiveNotMade("another process removed the archive")
    return MadeArchive(kept, size_mb, without, fast)


def _write_events(bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, partitions=2) for name in (EVENTS, COUNTS)])
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(EVENTS, b"{}")


def _check_room(folder: Path) -> None:
    if not can_be_named(folder):
        raise ArchiveNotMade(
            f"Java cannot load an archive from {folder}: the path contains a blank, a colon or a quote"
        )
    free_mb = shutil.disk_usage(folder).free // _MB
    if free_mb < _NEEDED_MB:
        raise ArchiveNotMade(f"{folder} has {free_mb} MB left, of which {_NEEDED_MB} are needed")


def _base(java: JavaRuntime, folder: Path) -> str:
    """The options for a runtime without an archive of its own classes, such as PyPI's: Spark's archive builds on
    that."""
    if (java.installed / "lib" / "server" / "classes.jsa").exists():
        return ""
    base = folder / "base.jsa"
    dumped = subprocess.run(
        [java.home / "bin" / "java", "-Xshare:dump", f"-XX:SharedArchiveFile={base}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if dumped.returncode != 0 or not base.exists():
        raise ArchiveNotMade(f"this Java ({java.installed}) cannot create class archives: {_last_lines(dumped.stdout)}")
    return f"-XX:SharedArchiveFile={base}"


def _spark(what: str, bootstrap: str, java_options: str) -> dict[str, Any]:
    """Runs Spark in a separate process; returns its output."""
    theirs = os.environ.get(OPTIONS_VARIABLE, "")
    ran = subprocess.run(
        [sys.executable, "-P", "-m", class_archive_training.__name__, what, bootstrap],
        env={**os.environ, OPTIONS_VARIABLE: f"{java_options} {theirs}".strip()},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode != 0:
        raise ArchiveNotMade(f"the Spark job failed: {_last_lines(ran.stderr)}")
    answer: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return answer


def _last_lines(said: str) -> str:
    return " / ".join(line.strip() for line in said.strip().splitlines()[-_SAID_LINES:])
