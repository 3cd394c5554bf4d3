"""Runs in place of Python in Spark (see `worker_python`): asks the nursery to fork one, or starts one itself. It runs
as a file, without site-packages, to start in a few milliseconds. Spark sees a process that gets its signals, and ends
with the child's exit code; the child has its standard input and output.
"""

import marshal
import os
import signal
import socket
import sys
from collections.abc import Mapping
from types import FrameType

NURSERY_VARIABLE = "CORDWOOD_SPARK_NURSERY"
"""Where the nursery listens."""
_MODULE, _CODE = "-m", "-c"
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_STANDARD_STREAMS = (0, 1, 2)


def main(python: str, arguments: list[str]) -> None:
    environment = {**os.environ, "PYTHONPATH": without_zips(os.environ.get("PYTHONPATH", ""))}
    nursery = _nursery(environment, arguments)
    if nursery is None:
        os.execve(python, [python, *arguments], environment)
    with nursery:
        socket.send_fds(nursery, [_packed(arguments, environment)], _STANDARD_STREAMS)
        nursery.shutdown(socket.SHUT_WR)
        answers = nursery.makefile("rb")
        pid = answers.readline()
        if not pid:
            os.execve(python, [python, *arguments], environment)
        _forward_signals(int(pid))
        _let_go_of_streams()
        # Without an answer the nursery has died; its children notice the end of Spark themselves.
        status = answers.readline() or b"1"
    os._exit(int(status) if int(status) >= 0 else 128 - int(status))


def without_zips(path: str) -> str:
    """Returns `PYTHONPATH` without Spark's zips: Spark's installed modules have bytecode."""
    entries = [entry for entry in path.split(os.pathsep) if entry]
    return os.pathsep.join(entry for entry in entries if not _is_zip_of_spark(entry))


def _is_zip_of_spark(entry: str) -> bool:
    folder, name = os.path.split(entry)
    is_its_name = name == "pyspark.zip" or (name.startswith("py4j-") and name.endswith("-src.zip"))
    return is_its_name and folder.endswith(os.path.join("python", "lib"))


def _nursery(environment: Mapping[str, str], arguments: list[str]) -> socket.socket | None:
    """None if there is none, or it cannot handle this command."""
    path = environment.get(NURSERY_VARIABLE)
    if path is None or len(arguments) < 2 or arguments[0] not in (_MODULE, _CODE):
        return None
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        return None
    return connection


def _packed(arguments: list[str], environment: Mapping[str, str]) -> bytes:
    # Both ends are of one interpreter; importing a module for it would take longer than all the rest.
    return marshal.dumps((arguments, dict(environment), os.getcwd()))


def _forward_signals(pid: int) -> None:
    def forward(number: int, frame: FrameType | None) -> None:
        try:  # noqa: SIM105  contextlib would have to be imported
            os.kill(pid, number)
        except ProcessLookupError:
            # Its exit is being reported.
            pass

    for number in _FORWARDED:
        signal.signal(number, forward)


def _let_go_of_streams() -> None:
    """Closes the streams, so that their readers see the end when the other process closes them."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in _STANDARD_STREAMS:
        os.dup2(nothing, number)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
