"""Spark on this machine, `local[2]`: passes the number of parallel tasks to the processes that plan reads. Spark does
not tell a data source, so they inherit it in the environment. On a cluster it is not known beforehand.
"""

import os
import re
from collections.abc import Mapping, MutableMapping
from typing import Final

CORES_VARIABLE: Final = "CORDWOOD_SPARK_CORES"

_LOCAL = re.compile(r"local(?:\[(?P<cores>\d+|\*)(?:\s*,\s*\d+)?\])?")


def is_local(master: str) -> bool:
    return master.partition("[")[0] == "local"


def tell_cores(master: str, environment: MutableMapping[str, str] = os.environ) -> None:
    """Before Java is started."""
    cores = _cores(master)
    if cores is None:
        environment.pop(CORES_VARIABLE, None)
    else:
        environment[CORES_VARIABLE] = str(cores)


def told_cores(environment: Mapping[str, str] = os.environ) -> int | None:
    told = environment.get(CORES_VARIABLE, "")
    return int(told) if told.isdecimal() else None


def processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cores(master: str) -> int | None:
    found = _LOCAL.fullmatch(master)
    if found is None:
        return None
    cores = found["cores"] or "1"
    return processors() if cores == "*" else int(cores)
