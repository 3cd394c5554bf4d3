"""The archive of Spark's classes: where it lies, when it is used, and that a bad one does no harm."""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyspark
import pytest

from cordwood.spark import class_archive
from cordwood.spark.class_archive import (
    is_worth_a_hint,
    keep_archive,
    remove_archives,
    seal_path,
    use_archive,
    whole_archive,
)
from cordwood.spark.java import JavaRuntime, find_java
from cordwood.spark.sessions import joined_settings

SIZE = 3 << 20
"""More than head and tail."""


@pytest.fixture
def java(tmp_path: Path) -> JavaRuntime:
    home = tmp_path / "java"
    (home / "lib" / "server").mkdir(parents=True)
    (home / "release").write_text('JAVA_VERSION="17.0.15"\n')
    (home / "lib" / "server" / "libjvm.so").write_bytes(b"17.0.15")
    return JavaRuntime(home, 17, home)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.fixture
def spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    (home / "jars" / "spark-core.jar").write_bytes(b"core")
    monkeypatch.setattr(class_archive, "_find_spark_home", lambda: str(home))
    return home


def kept(java: JavaRuntime, environment: dict[str, str], folder: str = "spark-1", content: bytes = b"") -> Path:
    seal = seal_path(java, environment)
    made = seal.parent / folder / "spark.jsa"
    made.parent.mkdir(parents=True)
    made.write_bytes(content or bytes(SIZE))
    keep_archive(made, seal)
    return made


def test_a_kept_archive_is_used(java: JavaRuntime, environment: dict[str, str]) -> None:
    archive = kept(java, environment)
    assert use_archive(java, {}, environment) == archive
    assert environment["SPARK_SUBMIT_OPTS"].split()[:2] == [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"]


def test_without_an_archive_java_gets_no_option(java: JavaRuntime, environment: dict[str, str]) -> None:
    assert use_archive(java, {}, environment) is None
    assert "SPARK_SUBMIT_OPTS" not in environment


@pytest.mark.parametrize("changed", ["release", "lib/server/libjvm.so"])
def test_an_archive_of_another_java_in_the_same_place_is_not_used(
    java: JavaRuntime, environment: dict[str, str], changed: str
) -> None:
    kept(java, environment)
    (java.installed / changed).write_text('JAVA_VERSION="17.0.16"\n')
    assert whole_archive(java, environment) is None


def test_an_archive_of_a_java_elsewhere_is_not_used(
    java: JavaRuntime, environment: dict[str, str], tmp_path: Path
) -> None:
    kept(java, environment)
    elsewhere = java.installed.rename(tmp_path / "java-2")
    assert whole_archive(JavaRuntime(elsewhere, 17, elsewhere), environment) is None


def test_an_archive_of_other_jars_is_not_used(java: JavaRuntime, environment: dict[str, str], spark_home: Path) -> None:
    archive = kept(java, environment)
    assert whole_archive(java, environment) == archive
    jar = spark_home / "jars" / "spark-core.jar"
    os.utime(jar, ns=(0, 0))
    assert whole_archive(java, environment) is None
    assert archive.exists()


def test_an_archive_of_another_pyspark_is_not_used(
    java: JavaRuntime, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(java, environment)
    monkeypatch.setattr(pyspark, "__version__", "9.0.0")
    assert whole_archive(java, environment) is None


@pytest.mark.parametrize("size", [0, SIZE - 1, SIZE + 1])
def test_one_of_another_size_is_removed(java: JavaRuntime, environment: dict[str, str], size: int) -> None:
    archive = kept(java, environment)
    status = archive.stat()
    os.truncate(archive, size)
    os.utime(archive, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert whole_archive(java, environment) is None
    assert not archive.exists()


@pytest.mark.parametrize("offset", [100, SIZE - 100])
def test_one_whose_head_or_tail_is_another_is_removed(
    java: JavaRuntime, environment: dict[str, str], offset: int
) -> None:
    archive = kept(java, environment)
    status = archive.stat()
    with archive.open("r+b") as file:
        file.seek(offset)
        file.write(b"\1")
    os.utime(archive, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert whole_archive(java, environment) is None
    assert not archive.exists()


def test_one_that_was_written_to_is_removed(java: JavaRuntime, environment: dict[str, str]) -> None:
    archive = kept(java, environment)
    with archive.open("r+b") as file:
        file.seek(SIZE // 2)
        file.write(b"\1")
    os.utime(archive, ns=(0, 0))
    assert whole_archive(java, environment) is None
    assert not archive.exists()


def test_an_archive_with_a_missing_part_is_not_used(java: JavaRuntime, environment: dict[str, str]) -> None:
    seal = seal_path(java, environment)
    made, base = seal.parent / "spark-1" / "spark.jsa", seal.parent / "spark-1" / "base.jsa"
    made.parent.mkdir(parents=True)
    made.write_bytes(bytes(SIZE))
    base.write_bytes(bytes(SIZE))
    keep_archive(made, seal)
    assert whole_archive(java, environment) == made
    base.unlink()
    assert whole_archive(java, environment) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"folder": 1, "archive": "a", "files": 2}', "\0"])
def test_a_seal_that_says_nothing_is_removed(java: JavaRuntime, environment: dict[str, str], text: str) -> None:
    kept(java, environment)
    seal = seal_path(java, environment)
    seal.write_text(text)
    assert whole_archive(java, environment) is None
    assert not seal.exists()


def test_a_new_one_takes_the_place_of_the_one_before(java: JavaRuntime, environment: dict[str, str]) -> None:
    before, new = kept(java, environment), kept(java, environment, "spark-2")
    assert whole_archive(java, environment) == new
    assert not before.parent.exists()


def test_of_two_that_are_kept_at_once_one_is_whole(java: JavaRuntime, environment: dict[str, str]) -> None:
    with ThreadPoolExecutor() as threads:
        made = list(
            threads.map(lambda number: kept(java, environment, f"spark-{number}", bytes([number]) * SIZE), range(8))
        )
    assert whole_archive(java, environment) in made


def test_all_strays_are_removed_on_request(java: JavaRuntime, environment: dict[str, str]) -> None:
    archive = kept(java, environment)
    assert remove_archives(environment) > SIZE
    assert not archive.exists()
    assert remove_archives(environment) == 0


def test_without_a_cache_there_is_none(java: JavaRuntime, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert whole_archive(java, {"XDG_CACHE_HOME": str(tmp_path / "file")}) is None


def test_an_archive_path_that_java_would_split_is_not_used(java: JavaRuntime, tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path / "two words")}
    kept(java, environment)
    assert use_archive(java, {}, environment) is None


def test_the_hint_is_shown_once(java: JavaRuntime, environment: dict[str, str]) -> None:
    assert is_worth_a_hint(java, environment)
    assert not is_worth_a_hint(java, environment)


def test_the_hint_is_not_shown_if_it_is_not_needed(java: JavaRuntime, environment: dict[str, str]) -> None:
    kept(java, environment)
    assert not is_worth_a_hint(java, environment)


def test_an_unknown_sender_gets_no_response(java: JavaRuntime, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert not is_worth_a_hint(java, {"XDG_CACHE_HOME": str(tmp_path / "file")})


# ---- options for Java


def test_the_users_own_options_take_precedence(java: JavaRuntime, environment: dict[str, str]) -> None:
    archive = kept(java, environment)
    environment["SPARK_SUBMIT_OPTS"] = '-Dtext="two  words"'
    for _session in range(2):
        use_archive(java, {}, environment)
        assert environment["SPARK_SUBMIT_OPTS"].count(str(archive)) == 1
        assert environment["SPARK_SUBMIT_OPTS"].endswith(' -Dtext="two  words"')


@pytest.mark.parametrize("variable", ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS"])
def test_archive_options_in_the_environment_are_respected(
    java: JavaRuntime, environment: dict[str, str], variable: str
) -> None:
    kept(java, environment)
    environment[variable] = "-XX:ArchiveClassesAtExit=mine.jsa"
    before = dict(environment)
    assert use_archive(java, {}, environment) is None
    assert environment == before


def test_archive_options_in_the_settings_are_respected(java: JavaRuntime, environment: dict[str, str]) -> None:
    kept(java, environment)
    assert use_archive(java, {"spark.driver.extraJavaOptions": "-Xshare:off"}, environment) is None
    assert "SPARK_SUBMIT_OPTS" not in environment


def test_options_for_java_are_joined_with_those_of_the_session() -> None:
    name = "spark.driver.extraJavaOptions"
    joined = joined_settings({name: "-Da=1", "spark.ui.enabled": "false"}, {name: "-Da=2", "spark.ui.enabled": "true"})
    assert joined == {name: "-Da=1 -Da=2", "spark.ui.enabled": "true"}


def test_a_process_with_a_wrapped_java_finds_the_installed_one(tmp_path: Path) -> None:
    environment = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    found = find_java(environment)
    assert find_java({**environment, "JAVA_HOME": str(found.home)}) == found


# ---- with a real Java


def test_java_starts_silently_beside_an_archive_that_was_cut_short(tmp_path: Path) -> None:
    java = find_java()
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    made = tmp_path / "cut.jsa"
    run_java(java, f"-XX:ArchiveClassesAtExit={made}", "-Xlog:disable")
    # A Java that cannot make one has nothing to stumble over.
    archive = kept(java, environment, content=made.read_bytes() if made.exists() else b"")
    os.truncate(archive, archive.stat().st_size // 2)
    use_archive(java, {}, environment)
    assert run_java(java, *environment.get("SPARK_SUBMIT_OPTS", "").split()) == run_java(java)


def test_java_is_silent_about_an_invalid_archive(tmp_path: Path) -> None:
    java = find_java()
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    kept(java, environment)
    assert use_archive(java, {}, environment) is not None
    assert run_java(java, *environment["SPARK_SUBMIT_OPTS"].split()) == run_java(java)


def run_java(java: JavaRuntime, *options: str) -> tuple[int, str, str]:
    """A program of Spark that says what it needs, and ends."""
    own = {name: value for name, value in os.environ.items() if "JAVA" not in name}
    jar = next((Path(pyspark.__file__).parent / "jars").glob("spark-launcher*.jar"))
    command = [str(java.home / "bin" / "java"), *options, "-cp", str(jar), "org.apache.spark.launcher.Main"]
    ran = subprocess.run(command, env=own, capture_output=True, text=True, check=False)
    assert "missing class name" in ran.stderr, ran.stderr
    return ran.returncode, ran.stdout, ran.stderr


# ---- with a real Spark


def test_prepare_creates_an_archive_that_spark_uses(tmp_path: Path) -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK", "CORDWOOD"))}
    environment = {**own, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    made = cordwood("prepare", environment)
    assert made.returncode == 0, made.stderr
    archive = Path(made.stdout.partition(": ")[0])
    assert re.search(r": \d+ MB\nSpark's first row: after [\d.]+ s, [\d.]+ s without\n$", made.stdout)
    assert use_archive(find_java(), {}, environment) == archive
    assert "shared objects file (top)" in loading_of("org.apache.spark.deploy.SparkSubmit", environment, tmp_path)
    assert cordwood("prepare --remove", environment).returncode == 0
    assert not archive.exists()


def loading_of(name: str, environment: dict[str, str], folder: Path) -> str:
    """Java's log of where it loads a class from, when Spark's script starts it."""
    log = folder / "classes.log"
    options = f"{environment['SPARK_SUBMIT_OPTS']} -Xlog:class+load:file={log}"
    script = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    subprocess.run(
        [script, "--version"],
        env={**environment, "JAVA_HOME": str(find_java().home), "SPARK_SUBMIT_OPTS": options},
        capture_output=True,
        check=True,
    )
    return next(line for line in log.read_text().splitlines() if f"] {name} " in line)


def cordwood(words: str, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "cordwood", "pipeline", *words.split()]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
