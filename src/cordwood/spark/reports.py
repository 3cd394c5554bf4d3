"""Reports of Spark's Python processes to the process that runs a pipeline: datagrams to a socket in a private folder.

The variable names the socket; processes that Spark starts on this machine inherit it. If it is not set, or the listener
has gone, reports are dropped: nothing depends on them.
"""

import json
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

VARIABLE = "CORDWOOD_SPARK_REPORTS"
_FOLDER_PREFIX = "cordwood-reports-"
_SOCKET = "socket"
_MAX_BYTES = 64 * 1024
_NO_MORE = b""


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


@contextmanager
def listening(take: Callable[[Mapping[str, Any]], None]) -> Iterator[None]:
    """Receives reports of all processes started with this environment from now on. `take` is called in a separate
    thread."""
    if not hasattr(socket, "AF_UNIX"):
        yield
        return
    _sweep(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX))
    before = os.environ.get(VARIABLE)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiving:
        receiving.bind(str(folder / _SOCKET))
        reader = threading.Thread(target=_read, args=(receiving, take), name="reports", daemon=True)
        reader.start()
        os.environ[VARIABLE] = str(folder / _SOCKET)
        try:
            yield
        finally:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
                sending.sendto(_NO_MORE, str(folder / _SOCKET))
            reader.join()
            if before is None:
                os.environ.pop(VARIABLE, None)
            else:
                os.environ[VARIABLE] = before
            shutil.rmtree(folder, ignore_errors=True)


def _sweep(where: Path) -> None:
    """Removes the folders of processes that were killed."""
    for folder in where.glob(f"{_FOLDER_PREFIX}*"):
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
            if folder.stat().st_uid != os.getuid() or folder.is_symlink():
                continue
            try:
                sending.connect(str(folder / _SOCKET))
            except ConnectionRefusedError:
                (folder / _SOCKET).unlink()
                folder.rmdir()


def _read(receiving: socket.socket, take: Callable[[Mapping[str, Any]], None]) -> None:
    while (content := receiving.recv(_MAX_BYTES)) != _NO_MORE:
        take(json.loads(content))
