"""Garbage collection of Spark's Python workers between tasks, which scans all imported modules. That takes 33 ms of CPU
for the 67,000 objects of the modules that a task needs, while a task of a small micro-batch itself takes 7. Objects
that exist after the first task stay for good, so they are frozen.
"""

import gc
import sys

_is_spared = False


def spare_modules() -> None:
    """At the end of a task. Other processes than Spark's workers are not ours to change."""
    global _is_spared
    if not _is_spared and _is_worker():
        _is_spared = True
        gc.collect()
        gc.freeze()


def _is_worker() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == "pyspark.daemon"
