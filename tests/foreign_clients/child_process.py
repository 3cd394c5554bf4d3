"""Processes that tests start and kill: forked from one that has imported the clients already."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from tests.foreign_clients.kafka_client import PATIENCE_S

_PROGRAMS = ["tests.foreign_clients.group_member", "tests.foreign_clients.transformer"]


class ChildProcess:
    """Runs `program(spec, orders)`, where `orders` is the end of a pipe for commands."""

    def __init__(self, program: Callable[[Any, Connection], None], spec: Any) -> None:
        context = multiprocessing.get_context("forkserver")
        _ensure_forkserver()
        theirs, self._orders = context.Pipe(duplex=False)
        self._process: BaseProcess = context.Process(target=program, args=(spec, theirs), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def is_running(self) -> bool:
        return self._process.is_alive()

    def tell(self, order: str) -> None:
        self._orders.send(order)

    def kill(self) -> None:
        """SIGKILL. Also when it has ended already."""
        self._process.kill()
        self.await_end()

    def freeze(self) -> None:
        """SIGSTOP: nothing in it runs, and its connections stay."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def await_end(self) -> int | None:
        """Its exit status; None if it does not end."""
        self._process.join(PATIENCE_S)
        return self._process.exitcode

    def _signal(self, number: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)


def _ensure_forkserver() -> None:
    """It finds what it is to import by the environment only."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(_PROGRAMS)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    try:
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
