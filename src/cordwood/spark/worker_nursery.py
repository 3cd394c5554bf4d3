"""**The nursery**: a process that has imported the modules of Spark's Python processes, and forks them.

Spark starts four Python processes, one after another, before a batch read has its first row, and three more for a
stream: each imports PySpark, Arrow and us for 0.4 to 0.8 s. Here that is done once, while Java starts. It works on the
driver's machine only; elsewhere, and if the nursery has died, `worker_launcher` starts Python normally. It has no
threads when it forks, which is why it tells Arrow's and numpy's libraries to start none.
"""

import atexit
import gc
import importlib
import marshal
import os
import runpy
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from cordwood.spark.closed_pipes import print_unless_closed, silence_process
from cordwood.spark.worker_launcher import NURSERY_VARIABLE

_MODULES: Final = (
    "pyspark.worker",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.data_source_pushdown_filters",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.pandas.serializers",
    "pyarrow.compute",
    "pyspark_cordwood",
    "cordwood.spark.source.batch_reader",
    "cordwood.spark.source.stream_reader",
    "cordwood.spark.sink.batch",
    "cordwood.spark.sink.stream",
)
"""PySpark's modules; not all versions have all of them."""

_ENVIRONMENT: Final = {
    # As Spark sets them for its workers; they count when an interpreter, or a library, is started.
    "PYTHONHASHSEED": "0",
    "PYTHONUNBUFFERED": "YES",
    "OMP_NUM_THREADS": "1",
    # Variables for libraries that would start threads when imported.
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
_REQUEST_BYTES: Final = 1 << 20
_STREAMS: Final = 3


def start_nursery() -> None:
    """For all processes started with this environment; once for a process. It ends with this process."""
    if NURSERY_VARIABLE in os.environ or not hasattr(os, "fork"):
        return
    folder = tempfile.mkdtemp(prefix="cordwood-nursery-")
    path = str(Path(folder) / "socket")
    with socket.socket(socket.AF_UNIX) as listening:
        # From here on: a request that comes while modules are imported waits for less than importing them itself would
        # take.
        listening.bind(path)
        listening.listen()
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(listening.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env={**_ENVIRONMENT, **os.environ},
            pass_fds=[listening.fileno()],
            # It must not read the terminal.
            process_group=0,
        )
    os.environ[NURSERY_VARIABLE] = path
    atexit.register(_stop, process)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    os.environ.pop(NURSERY_VARIABLE, None)
    assert process.stdin is not None
    process.stdin.close()
    # It ends on its own; further interrupts are ignored.
    with suppress(KeyboardInterrupt):
        process.wait()


def main(listening_fd: int) -> None:
    with socket.socket(fileno=listening_fd) as listening:
        _import_modules()
        child = _serve(listening)
        folder = Path(listening.getsockname()).parent
    if child is not None:
        _become(child)
    # Here, since the parent may have been killed.
    shutil.rmtree(folder, ignore_errors=True)


def _import_modules() -> None:
    for name in _MODULES:
        try:
            importlib.import_module(name)
        except ImportError:
            # This PySpark lacks the module, or does not support one of ours.
            continue
    # Objects here are never garbage; scanning them in children would only copy their pages.
    gc.collect()
    gc.freeze()
    os.register_at_fork(after_in_child=_seed_numpy)


def _seed_numpy() -> None:
    """Processes must not draw the same random numbers. Python's own generator reseeds itself; only older numpy versions
    have imported theirs by now."""
    if (numpy_random := sys.modules.get("numpy.random")) is not None:
        numpy_random.seed()


@dataclass(frozen=True, slots=True)
class Child:
    """Parameters of a process to fork."""

    arguments: Sequence[str]
    """As Python's: `-m`, a module and its arguments, or `-c` and code."""
    environment: dict[str, str]
    folder: str
    streams: Sequence[int]


def _serve(listening: socket.socket) -> Child | None:
    """Returns in each child its command, and None when the process that started the nursery has ended."""
    awoken, waker = socket.socketpair()
    waker.setblocking(False)
    awoken.setblocking(False)
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    launchers: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as selector, awoken, waker:
        for watched in (sys.stdin.fileno(), listening, awoken):
            selector.register(watched, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if awoken in ready:
                awoken.recv(_REQUEST_BYTES)
                _tell_of_ends(launchers)
            if listening in ready:
                launcher, _ = listening.accept()
                child = _asked_for(launcher)
                if child is not None and (pid := os.fork()):
                    _tell(launcher, pid)
                    launchers[pid] = launcher
                elif child is not None:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for each in (launcher, *launchers.values()):
                        each.close()
                    return child
                for stream in child.streams if child is not None else ():
                    os.close(stream)
            if sys.stdin.fileno() in ready:
                return None


def _asked_for(launcher: socket.socket) -> Child | None:
    """None if the launcher has gone already."""
    content, streams, _, _ = socket.recv_fds(launcher, _REQUEST_BYTES, _STREAMS)
    while more := launcher.recv(_REQUEST_BYTES):
        content += more
    if len(streams) != _STREAMS:
        launcher.close()
        return None
    arguments, environment, folder = marshal.loads(content)
    return Child(arguments, environment, folder, streams)


def _tell_of_ends(launchers: dict[int, socket.socket]) -> None:
    """Reports exit codes to the launchers of ended children."""
    while launchers:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with launchers.pop(pid) as launcher:
            _tell(launcher, os.waitstatus_to_exitcode(status))


def _tell(launcher: socket.socket, number: int) -> None:
    # It may have been killed.
    with suppress(OSError):
        launcher.sendall(b"%d\n" % number)


def _become(child: Child) -> NoReturn:
    for number, stream in enumerate(child.streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(child.folder)
    os.environ.clear()
    os.environ.update(child.environment)
    named = [entry for entry in child.environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[:] = [child.folder, *named, *(entry for entry in sys.path if entry not in named)]
    flag, what, *rest = child.arguments
    if flag == "-c":
        sys.argv = ["-c", *rest]
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = [what, *rest]
        # Modules that are run are not to have been imported.
        sys.modules.pop(what, None)
        # Some of these processes end before Spark calls our code.
        silence_process()
        runpy.run_module(what, {"print": print_unless_closed}, run_name="__main__", alter_sys=True)
    sys.exit()


if __name__ == "__main__":
    main(int(sys.argv[1]))
