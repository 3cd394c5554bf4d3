"""**The archive of Spark's classes**: 15,000 classes in Java's in-memory form, loaded from one file at its start.

A third of what Spark does until its first row is to read classes from its jars, verify and link them, every time. Java
can keep the outcome (class data sharing, JEP 350). `class_archive_making` creates the file on request; this module
locates it, checks whether it can be used, and passes it to Java.

Java looks at an archive's head, and at jars whose size or time has changed, and goes without it. It crashes, though, if
the file is shorter than its head says: so a seal beside it records its properties, which are compared before each use.
"""

import json
import os
import re
import zlib
from collections.abc import Mapping, MutableMapping
from hashlib import blake2b
from pathlib import Path
from shutil import rmtree
from tempfile import NamedTemporaryFile
from typing import Any, Final

import pyspark
from pyspark.find_spark_home import _find_spark_home

from cordwood.spark.java import JavaRuntime
from cordwood.spark.kept_files import cache_folder

OPTIONS_VARIABLE: Final = "SPARK_SUBMIT_OPTS"
"""Spark's scripts give it to Java before the options of a session's settings, which so have the last word."""
SILENT: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""A mismatched archive is ignored silently: everything works without it."""

# With one of these options the user configures class data sharing, which would conflict with ours.
_PLANS = ("-Xshare", "SharedArchiveFile", "ArchiveClassesAtExit", "SharedClassListFile", "DumpLoadedClassList", "AOT")
_JAVAS_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
_DRIVER_OPTIONS = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")
_SAMPLE_BYTES = 1 << 20
# As `archive_options` has it.
_TOLD = re.compile(rf"-XX:SharedArchiveFile=\S+ -Xshare:auto {re.escape(SILENT)} ?")
# Spark takes options apart at blanks, and Java the names of archives at colons.
_NOT_IN_A_NAME = re.compile(r"[\s:\"'\\]")


def use_archive(
    java: JavaRuntime, settings: Mapping[str, str], environment: MutableMapping[str, str] = os.environ
) -> Path | None:
    """Makes Spark's scripts start Java with the archive; None without a matching one, which costs only time."""
    # An earlier session of this process may have set another one.
    theirs = _TOLD.sub("", environment.get(OPTIONS_VARIABLE, ""))
    options = [theirs, *(environment.get(name, "") for name in _JAVAS_VARIABLES)]
    options += [settings.get(name, "") for name in _DRIVER_OPTIONS]
    archive = None if any(plan in each for plan in _PLANS for each in options) else whole_archive(java, environment)
    told = " ".join(filter(None, [archive_options(archive) if archive is not None else "", theirs]))
    if told:
        environment[OPTIONS_VARIABLE] = told
    else:
        environment.pop(OPTIONS_VARIABLE, None)
    return archive


def archive_options(archive: Path) -> str:
    return f"-XX:SharedArchiveFile={archive} -Xshare:auto {SILENT}"


def whole_archive(java: JavaRuntime, environment: Mapping[str, str] = os.environ) -> Path | None:
    """That of this Java and this Spark. A modified one is removed."""
    try:
        seal = seal_path(java, environment)
        text = seal.read_text()
        archive = _sealed(seal.parent, text)
        if archive is None and seal.read_text() == text:
            _remove(seal)
    except OSError:
        return None
    return archive if archive is not None and can_be_named(archive) else None


def seal_path(java: JavaRuntime, environment: Mapping[str, str] = os.environ) -> Path:
    """Its name has everything that an archive depends on, so that another Java or Spark does not use it. Raises
    `OSError`."""
    spark_home = Path(_find_spark_home())
    parts = [
        str(java.installed),
        *_states(java.installed / "release", java.installed / "lib" / "server" / "libjvm.so"),
        pyspark.__version__,
        # The class path begins with it.
        environment.get("SPARK_CONF_DIR") or str(spark_home / "conf"),
        str(spark_home),
        *_states(*sorted((spark_home / "jars").iterdir())),
    ]
    digest = blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()
    return archive_folder(environment) / f"spark-{pyspark.__version__}-java-{java.version}-{digest}.seal"


def can_be_named(archive: Path) -> bool:
    """On the way to Java, which goes through Spark."""
    return _NOT_IN_A_NAME.search(str(archive)) is None


def archive_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Raises `OSError`."""
    return cache_folder(environment) / "classes"


def keep_archive(made: Path, seal: Path) -> None:
    """Makes `made`, with its folder, the current archive. Raises `OSError`. The seal names it, and is replaced
    atomically: a reader finds the previous one, or this one. A running Java keeps using the previous one.
    """
    files = {path.name: _state(path, synced=True) for path in made.parent.iterdir()}
    before = _named(seal)
    with NamedTemporaryFile("w", dir=seal.parent, delete=False) as file:
        json.dump({"folder": made.parent.name, "archive": made.name, "files": files}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(file.name, seal)
    if before is not None:
        rmtree(before, ignore_errors=True)


def remove_archives(environment: Mapping[str, str] = os.environ) -> int:
    """Deletes the archives of all Java and Spark versions; returns their size in bytes. Raises `OSError`."""
    folder = archive_folder(environment)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if folder.exists():
        rmtree(folder)
    return size


def is_worth_a_hint(java: JavaRuntime, environment: Mapping[str, str] = os.environ) -> bool:
    """True if there is no archive and the user has not seen the hint before."""
    if whole_archive(java, environment) is not None:
        return False
    try:
        told = cache_folder(environment) / "hinted-at-archive"
        told.parent.mkdir(parents=True, exist_ok=True)
        told.touch(exist_ok=False)
    except OSError:
        # Told before, or it could not be remembered.
        return False
    return True


def _sealed(folder: Path, text: str) -> Path | None:
    """The archive that a seal names, if it is unmodified."""
    try:
        seal: Any = json.loads(text)
        kept = folder / str(seal["folder"])
        if all(_state(kept / name) == state for name, state in seal["files"].items()):
            return kept / str(seal["archive"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        pass
    return None


def _state(path: Path, *, synced: bool = False) -> dict[str, int]:
    """Checksums cover head and tail: reading all of it takes 0.1 to 0.3 s of the 4 that it saves, and would only find
    bit rot, since a write changes the file's time."""
    with path.open("rb") as file:
        if synced:
            os.fsync(file.fileno())
        status = os.fstat(file.fileno())
        head = zlib.crc32(file.read(_SAMPLE_BYTES))
        file.seek(max(status.st_size - _SAMPLE_BYTES, 0))
        return {"bytes": status.st_size, "mtime_ns": status.st_mtime_ns, "crc": zlib.crc32(file.read(), head)}


def _named(seal: Path) -> Path | None:
    """The folder of a seal's archive."""
    try:
        return seal.parent / str(json.loads(seal.read_text())["folder"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _remove(seal: Path) -> None:
    kept = _named(seal)
    # Other processes may be doing the same.
    seal.unlink(missing_ok=True)
    if kept is not None and kept.parent == seal.parent:
        rmtree(kept, ignore_errors=True)


def _states(*paths: Path) -> list[str]:
    found = []
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            found.append(f"{path.name} -")
        else:
            found.append(f"{path.name} {status.st_size} {status.st_mtime_ns}")
    return found
