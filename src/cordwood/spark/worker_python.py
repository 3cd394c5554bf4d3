"""The Python of Spark's workers on this machine: the one that runs this, started in a fraction of the time.

Spark gives workers its own modules in a zip, before all others, and Python compiles what it imports from a zip anew in
each process: 1.5 s of a processor instead of 0.4, for each of the half dozen processes that the first batch of a query
needs. The very same modules are installed where we run, compiled; and a nursery (`worker_nursery`) has them imported.
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
    """For `PYSPARK_PYTHON`; and for `PYSPARK_DRIVER_PYTHON`, by which Spark starts what it asks of data sources."""
    if not Path(pyspark.__file__).is_file():
        # Spark itself was started from the zip: there are no others.
        return sys.executable
    python, launcher = shlex.quote(sys.executable), shlex.quote(worker_launcher.__file__)
    return str(kept_file("python", _SCRIPT.format(python=python, launcher=launcher), mode=0o755))
