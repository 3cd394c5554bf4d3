"""A node as a separate process, started with the command that people use."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Protocol

# Far more than a start takes, also where many run at once.
READY_WITHIN_S = 120.0
# Variables for the tests are not settings of a node.
OF_TESTS = ("CORDWOOD_TEST_", "CORDWOOD_PYSPARK_")
TELLS_OF_PROCESSES = Path("/proc/self/fd").exists()


class Nodes(Protocol):
    """A node, or a cluster of them, whose processes a test ends and starts again."""

    bootstrap: str

    def start(self) -> object: ...

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        ...

    def kill(self) -> None:
        """SIGKILL. Also when it has ended already."""
        ...

    def stderr(self) -> str: ...

    def rss_bytes(self) -> int:
        """Its resident memory; 0 if the system does not report it."""
        ...

    def open_descriptors(self) -> int: ...


def stop(nodes: Nodes) -> None:
    assert nodes.stop() == 0, nodes.stderr()


def kill(nodes: Nodes) -> None:
    nodes.kill()


class NodeProcess:
    """`cordwood up` on a data directory; it can be ended in any way and started again where it was."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None, *, port: int | None = 0) -> None:
        """`port=0` takes a free one, and keeps it; `port=None` leaves it to the `listeners` of the settings."""
        self.folder = folder
        self.data = folder / "data"
        self.settings = dict(settings or {})
        self.bootstrap = ""
        self._port = port
        self._process: subprocess.Popen[str] | None = None
        self._stdout: list[str] = []
        self._ready = threading.Event()
        self._reader: threading.Thread | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.bootstrap.rpartition(":")
        return host.strip("[]"), int(port)

    def start(self) -> "NodeProcess":
        self._ready.clear()
        self._stdout.clear()
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "stderr").open("ab") as stderr:
            self._process = subprocess.Popen(
                self._command(), stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment()
            )
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()
        if not self._ready.wait(READY_WITHIN_S) or not self.bootstrap:
            self.kill()
            raise AssertionError(f"the node did not get ready: {''.join(self._stdout)}{self.stderr()}")
        if self._port == 0:
            self._port = self.address[1]
        return self

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._ended()

    def kill(self) -> None:
        """SIGKILL. Also when it has ended already."""
        if self._process is not None:
            self._process.kill()
            self._ended()

    def stderr(self) -> str:
        log = self.folder / "stderr"
        return log.read_text() if log.exists() else ""

    def rss_bytes(self) -> int:
        """Its resident memory; 0 if the system does not report it."""
        if not TELLS_OF_PROCESSES:
            return 0
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def open_descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def _command(self) -> list[str]:
        return up_command(self.data, self.settings, self._port)

    def _read(self, stdout: IO[str]) -> None:
        """To the end, so that the node never waits for a reader."""
        self.bootstrap = ""
        for line in stdout:
            self._stdout.append(line)
            if "is ready" in line and not self._ready.is_set():
                self.bootstrap = line.partition("bootstrap ")[2].split()[0].rstrip(",")
                self._ready.set()
        self._ready.set()
        stdout.close()

    def _ended(self) -> int:
        assert self._process is not None
        assert self._reader is not None
        status = self._process.wait(READY_WITHIN_S)
        self._reader.join()
        return status


def refused_start(data: Path, settings: Mapping[str, str] | None = None, *, port: int | None = 0) -> str:
    """The output of a node that should not start."""
    done = subprocess.run(
        up_command(data, settings or {}, port), capture_output=True, text=True, timeout=READY_WITHIN_S
    )
    assert done.returncode != 0, done.stdout
    assert "is ready" not in done.stdout
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr


def up_command(data: Path, settings: Mapping[str, str], port: int | None) -> list[str]:
    command = [sys.executable, "-m", "cordwood", "up", "--data", str(data)]
    if port is not None:
        command += ["--port", str(port)]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    return command


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(OF_TESTS)}


def free_port(host: str = "127.0.0.1") -> int:
    """A free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port
