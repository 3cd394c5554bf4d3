"""Fetches Apache Kafka's server, tools and clients with Maven, for tests and benchmarks that run beside it.

    python tools/fetch_kafka.py DIRECTORY [VERSION]

The jars end up in DIRECTORY/lib. Does nothing if that version is there already. Needs mvn and Java 17 or newer.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

VERSION = "4.3.1"
_LOG4J_VERSION = "2.25.3"
# Group, name, version.
Artifact = tuple[str, str, str]


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    fetch(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) == 3 else VERSION)


def fetch(directory: Path, version: str) -> None:
    marker = directory / "VERSION"
    if marker.exists() and marker.read_text().strip() == version:
        print(f"Apache Kafka {version} is in {directory / 'lib'}")
        return
    lib = directory.resolve() / "lib"
    fetch_artifacts(lib, _artifacts(version))
    marker.write_text(f"{version}\n")
    print(f"Apache Kafka {version} is in {lib}")


def fetch_artifacts(lib: Path, artifacts: Sequence[Artifact]) -> None:
    """Puts these artifacts and everything that they need into a directory."""
    maven = shutil.which("mvn")
    if maven is None:
        sys.exit("mvn was not found: install Maven, or point KAFKA_HOME at a directory with Kafka's jars in lib/")
    lib.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as project:
        (Path(project) / "pom.xml").write_text(_pom(artifacts))
        command = [maven, "-B", "-q", "dependency:copy-dependencies", "-DincludeScope=runtime"]
        subprocess.run([*command, f"-DoutputDirectory={lib}"], cwd=project, check=True)


def _artifacts(version: str) -> list[Artifact]:
    return [
        ("org.apache.kafka", "kafka_2.13", version),
        ("org.apache.kafka", "kafka-tools", version),
        ("org.apache.kafka", "kafka-clients", version),
        ("org.apache.kafka", "kafka-shell", version),
        ("org.apache.logging.log4j", "log4j-core", _LOG4J_VERSION),
        ("org.apache.logging.log4j", "log4j-slf4j-impl", _LOG4J_VERSION),
        ("org.apache.logging.log4j", "log4j-1.2-api", _LOG4J_VERSION),
    ]


def _pom(artifacts: Sequence[Artifact]) -> str:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
        for group, artifact, version in artifacts
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>cordwood</groupId><artifactId>kafka</artifactId>"
        f"<version>1</version><packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    )


if __name__ == "__main__":
    main()
