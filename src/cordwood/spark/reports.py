"""Reports of Spark's Python processes to the process that runs a pipeline: datagrams to a socket in a private folder.

The variable names the socket; processes that Spark starts on this machine inherit it. Where it is not set, and where
nobody listens any more, reports are dropped: nothing depends on them.
"""

import json
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

VARIABLE = "CORDWOOD_SPARK_REPORTS"
_MAX_BYTES = 64 * 1024


def is_heard() -> bool:
    return VARIABLE in os.environ


def report(kind: str, **content: object) -> None:
    """Never blocks, never fails."""
    path = os.environ.get(VARIABLE)
    if path is None:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
        sending.setblocking(False)
        sending.sendto(json.dumps({"kind": kind, **content}).encode(), path)


class Reports:
    """What was reported; `listening` makes it."""

    def __init__(self, receiving: socket.socket | None) -> None:
        self._receiving = receiving

    def received(self) -> Iterator[Mapping[str, Any]]:
        """Those that came since the last call."""
        if self._receiving is None:
            return
        with suppress(BlockingIOError):
            while True:
                yield json.loads(self._receiving.recv(_MAX_BYTES))


@contextmanager
def listening() -> Iterator[Reports]:
    """For all that is started with this environment from now on."""
    if not hasattr(socket, "AF_UNIX"):
        yield Reports(None)
        return
    folder = Path(tempfile.mkdtemp(prefix="cordwood-reports-"))
    before = os.environ.get(VARIABLE)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiving:
            receiving.bind(str(folder / "socket"))
            receiving.setblocking(False)
            os.environ[VARIABLE] = str(folder / "socket")
            yield Reports(receiving)
    finally:
        if before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = before
        shutil.rmtree(folder, ignore_errors=True)
