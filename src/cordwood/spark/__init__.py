"""Spark: topics as tables and streams of a PySpark job, read in bulk and written exactly once.

`session` opens a Spark session with suitable settings; `run` runs a pipeline. Imports are lazy: Spark's workers import
this module for each task.

Importing this before a session is created makes Spark use the running interpreter for data sources, unless
PYSPARK_DRIVER_PYTHON or PYSPARK_PYTHON is set. Spark's default is the first `python3` of the path, which does not know
`format("cordwood")` where a virtual environment is not activated.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cordwood.spark.pipelines.script import run
    from cordwood.spark.sessions import session

__all__ = ["run", "session"]

_WHERE = {"run": "cordwood.spark.pipelines.script", "session": "cordwood.spark.sessions"}

if "PYSPARK_PYTHON" not in os.environ and sys.executable:
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        module = import_module(_WHERE[name])
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        # Our own modules are always installed, so the missing one belongs to the extra.
        if missing in ("cordwood", ""):
            raise
        raise ImportError(
            f"cordwood.spark needs {missing}, which is not installed: pip install 'cordwood[spark]'"
        ) from error
    value = globals()[name] = getattr(module, name)
    return value
