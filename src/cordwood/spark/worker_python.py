"""The Python of Spark's workers on this machine: this interpreter, started in a fraction of the time. Spark passes its
own modules to workers in a zip, first on the path, and Python compiles imports from a zip again in each process: 1.5 s
of CPU instead of 0.4, for each of the half dozen processes that the first batch of a query needs. The same modules are
installed here with bytecode; and a nursery (`worker_nursery`) has them imported.
"""

import shlex
import sys
from pathlib import Path

import pyspark

from cordwood.spark import worker_launcher
from cordwood.spark.kept_files import kept_file

_SCRIPT = """#!/bin/sh
exec {python} -I -S {launcher} {python} "$@"
"""


def worker_python() -> str:
    """For `PYSPARK_PYTHON`; and for `PYSPARK_DRIVER_PYTHON`, with which Spark starts its data source processes."""
    if not Path(pyspark.__file__).is_file():
        # Spark itself was started from the zip: no others exist.
        return sys.executable
    python, launcher = shlex.quote(sys.executable), shlex.quote(worker_launcher.__file__)
    return str(kept_file("python", _SCRIPT.format(python=python, launcher=launcher), mode=0o755))
