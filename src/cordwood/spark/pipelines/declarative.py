"""Spark Declarative Pipelines: a spec in YAML, which Spark's own command runs; here it gets the Java and the Python."""

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pyspark

from cordwood.spark.local_master import is_local
from cordwood.spark.masters import CONNECT, LOCAL
from cordwood.spark.pipelines.pipeline_file import BadPipeline
from cordwood.spark.pipelines.script import BOOTSTRAP_VARIABLE
from cordwood.spark.sessions import prepare_environment

_COMMAND = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"


def is_declarative(file: Path) -> bool:
    return file.suffix in (".yml", ".yaml")


def run_declarative(spec: Path, *, master: str = LOCAL, settings: Mapping[str, str], bootstrap: str) -> int:
    """Returns the exit code; 0 when everything that was there has been worked on.

    Its files find `bootstrap` in the variable `CORDWOOD_BOOTSTRAP`. Raises `BadPipeline`, `NoJava`.
    """
    if not spec.is_file():
        raise BadPipeline(f"there is no file {spec}")
    if not _COMMAND.exists():
        raise BadPipeline(
            f"{spec} is a declarative pipeline, which needs PySpark 4.1 or newer; this is {pyspark.__version__}"
        )
    if not is_local(master) and not master.startswith(CONNECT):
        raise BadPipeline(
            f"a declarative pipeline runs on this machine or through Spark Connect, not on {master}; "
            "expected local[4], or sc://host:15002"
        )
    prepare_environment(master, settings)
    # Declarative pipelines speak to a Connect server, which is started here if it is local.
    command = [str(_COMMAND), "--remote", master]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    environment = os.environ | {BOOTSTRAP_VARIABLE: bootstrap}
    with subprocess.Popen([*command, "run", "--spec", str(spec)], env=environment) as process:
        # Ctrl-C reaches all processes of a terminal, so this one only has to wait.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            return process.wait()
        finally:
            signal.signal(signal.SIGINT, before)
