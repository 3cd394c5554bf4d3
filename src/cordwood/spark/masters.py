"""Spark's masters: where a session runs. Spark itself reports an unknown one with a Java stack trace."""

import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from cordwood.spark.errors import SparkError

LOCAL: Final = "local[*]"
CONNECT: Final = "sc://"

# Each with an example. `spark-submit`, by which PySpark starts Java, takes no others.
_EXAMPLES: Final = {
    "local": "local[4]",
    "spark": "spark://host:7077",
    "yarn": "yarn",
    "k8s": "k8s://https://host:443",
    "sc": f"{CONNECT}host:15002",
}
_THREADS = r"(\*|[1-9][0-9]*)"
_KNOWN = re.compile(
    rf"local|local\[{_THREADS}\]|local\[{_THREADS}\s*,\s*[0-9]+\]"
    r"|local-cluster\[\s*[0-9]+\s*,\s*[0-9]+\s*,\s*[0-9]+\s*\]"
    r"|yarn|(spark|k8s|sc)://.+"
)
# One of them.
_YARN_NEEDS: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")


class BadMaster(SparkError, ValueError):
    """Spark has no such master, or the environment lacks what it needs."""


def check_master(master: str, environment: Mapping[str, str] = os.environ) -> None:
    """Raises `BadMaster`."""
    if master == "yarn" and not any(environment.get(name) for name in _YARN_NEEDS):
        raise BadMaster(
            f"master 'yarn' needs the environment variable {' or '.join(_YARN_NEEDS)}: the directory with the "
            "configuration of the Hadoop cluster"
        )
    if _KNOWN.fullmatch(master):
        return
    if master.startswith("local"):
        raise BadMaster(f"master {master!r} is not valid; expected local[4] (threads) or {LOCAL} (all processors)")
    nearest = get_close_matches(re.split(r"[\[:]", master)[0].lower(), _EXAMPLES, n=1)
    if nearest:
        raise BadMaster(f"Spark has no master {master!r}; did you mean {_EXAMPLES[nearest[0]]}?")
    raise BadMaster(f"Spark has no master {master!r}; expected one like {', '.join(_EXAMPLES.values())}")
