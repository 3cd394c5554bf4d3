"""Spark's own Kafka connector and its Avro module, with the Spark that they were made for, in an environment of their
own.

The newest connector's jars are not always available, so this is the newest one whose jars are. The variable
CORDWOOD_SPARK_CONNECTOR names the folder of the environment; else it is within this interpreter's own environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

VERSION = "4.0.0"
FOLDER_VARIABLE = "CORDWOOD_SPARK_CONNECTOR"
_CONNECTOR = "spark-sql-kafka-0-10_2.13"
# For values that are Avro.
_AVRO = "spark-avro_2.13"
# Dependencies of the two beyond PySpark's.
_JARS = (_CONNECTOR, "spark-token-provider-kafka-0-10_2.13", "kafka-clients", "commons-pool2", _AVRO)
_PACKAGES = (f"pyspark=={VERSION}", "pyarrow>=17", "pandas>=2.2,<3")
_PROJECT = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>cordwood</groupId><artifactId>spark-connector</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.spark</groupId><artifactId>{_CONNECTOR}</artifactId><version>{VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.spark</groupId><artifactId>{_AVRO}</artifactId><version>{VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""


class NoConnector(Exception):
    """It cannot be had here; the text says why."""


@dataclass(frozen=True, slots=True)
class Connector:
    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "venv" / "bin" / "python"

    @property
    def jars(self) -> list[Path]:
        return sorted((self.folder / "jars").glob("*.jar"))

    @property
    def is_there(self) -> bool:
        return self._is_installed and len(self.jars) == len(_JARS)

    @property
    def _is_installed(self) -> bool:
        return any((self.folder / "venv").glob(f"lib/python*/site-packages/pyspark-{VERSION}.dist-info"))

    def make(self) -> None:
        """A few minutes, and 700 MB. Existing files stay. Raises `NoConnector`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._is_installed:
            _run([sys.executable, "-m", "venv", str(self.folder / "venv")])
            _run([str(self.python), "-m", "pip", "install", "--quiet", *_PACKAGES])
        if len(self.jars) != len(_JARS):
            if shutil.which("mvn") is None:
                raise NoConnector("Maven (mvn), which would get the connector's jars, is not installed")
            (self.folder / "pom.xml").write_text(_PROJECT)
            wanted = f"-DincludeArtifactIds={','.join(_JARS)}"
            copy = ["dependency:copy-dependencies", wanted, f"-DoutputDirectory={self.folder / 'jars'}"]
            _run(["mvn", "--quiet", "--batch-mode", "--file", str(self.folder / "pom.xml"), *copy])


def connector_folder() -> Path:
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named else Path(sys.prefix) / "spark-connector"


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()
        raise NoConnector(f"{' '.join(command[:4])} … failed: {said[-1] if said else done.returncode}")
