"""A pipeline that is run by its own file: `if __name__ == "__main__": cordwood.spark.run(pipeline)`."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from cordwood.spark.errors import SparkError
from cordwood.spark.masters import LOCAL
from cordwood.spark.pipelines.pipeline_file import Pipeline, arguments_of
from cordwood.spark.pipelines.running import run_in_session

BOOTSTRAP_VARIABLE = "CORDWOOD_BOOTSTRAP"


def run(pipeline: Pipeline, *, master: str = LOCAL, log_level: str = "OFF", **arguments: Any) -> None:
    """As `cordwood pipeline run` would; `arguments` are the pipeline's. Returns when it has ended or was stopped by
    Ctrl-C; a failure is one line on the error stream, and ends the process with 1."""
    offered = {"bootstrap": os.environ[BOOTSTRAP_VARIABLE]} if BOOTSTRAP_VARIABLE in os.environ else {}
    try:
        given = arguments_of(pipeline, arguments, offered)
        run_in_session(pipeline, given, name=Path(sys.argv[0]).stem, master=master, log_level=log_level)
    except SparkError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
