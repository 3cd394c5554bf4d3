"""The Python of Spark's workers on this machine: the one that runs this, started in a third of the time.

Spark gives workers its own modules in a zip, before all others, and Python compiles what it imports from a zip anew in
each process: 1.5 s of a processor instead of 0.4, for each of the half dozen processes that the first batch of a query
needs. The very same modules are installed where we run, compiled.
"""

import shlex
import sys
from pathlib import Path

import pyspark

from cordwood.spark.kept_files import kept_file

_SCRIPT = """#!/bin/sh
# Spark's modules are installed here, and compiled; in a zip they are not.
set -f
rest=
IFS=:
for entry in $PYTHONPATH; do
    case $entry in
        */python/lib/pyspark.zip | */python/lib/py4j-*-src.zip) ;;
        *) rest=$rest${{rest:+:}}$entry ;;
    esac
done
unset IFS
export PYTHONPATH="$rest"
exec {python} "$@"
"""


def worker_python() -> str:
    """For `PYSPARK_PYTHON`."""
    if not Path(pyspark.__file__).is_file():
        # Spark itself was started from the zip: there are no others.
        return sys.executable
    return str(kept_file("python", _SCRIPT.format(python=shlex.quote(sys.executable)), mode=0o755))
