"""Nodes of a cluster as separate processes, formatted and started with the commands that people use."""

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

PATIENCE_S = 60.0
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
DIRECTORY_IDS = ("JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A", "07R5amHmR32VDA6jHkGbTA")


class UpProcess:
    """`cordwood up` with those arguments; its stdout can be waited for."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cordwood", "up", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self.errors: list[str] = []
        self._news = threading.Condition()
        self._threads = [
            threading.Thread(target=self._read, args=(stream, lines))
            for stream, lines in ((self.process.stdout, self.lines), (self.process.stderr, self.errors))
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, stream: IO[str], lines: list[str]) -> None:
        with stream:
            for line in stream:
                with self._news:
                    lines.append(line)
                    self._news.notify_all()
        with self._news:
            lines.append("")
            self._news.notify_all()

    def await_line(self, text: str, count: int = 1, *, in_errors: bool = False) -> list[str]:
        """The lines with `text`, once there are so many."""
        lines = self.errors if in_errors else self.lines

        def found() -> list[str]:
            return [line for line in lines if text in line]

        with self._news:
            self._news.wait_for(lambda: len(found()) >= count or "" in lines, PATIENCE_S)
            assert len(found()) >= count, f"no {text!r} in {self.lines} {self.errors}"
            return found()

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(PATIENCE_S)
        for thread in self._threads:
            thread.join()
        return status


@contextmanager
def up(*arguments: str) -> Iterator[UpProcess]:
    process = UpProcess(*arguments)
    try:
        yield process
    finally:
        process.end(signal.SIGKILL)


class ThreeNodes:
    """Combined nodes 1 to 3 with static or dynamic voters, each with a server.properties."""

    def __init__(self, folder: Path, *, is_static: bool, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        ports = free_ports(6)
        self.ports = dict(zip((1, 2, 3), ports[:3], strict=True))
        self._controller_ports = dict(zip((1, 2, 3), ports[3:], strict=True))
        self._is_static = is_static
        self._processes: dict[int, UpProcess] = {}
        for node_id in self.ports:
            text = "".join(
                f"{name}={value}\n" for name, value in (self._settings(node_id) | dict(settings or {})).items()
            )
            self.file(node_id).write_text(text)

    def file(self, node_id: int) -> Path:
        return self.folder / f"{node_id}.properties"

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def _settings(self, node_id: int) -> dict[str, str]:
        ports = self._controller_ports
        quorum = (
            {"controller.quorum.voters": ",".join(f"{voter}@127.0.0.1:{port}" for voter, port in ports.items())}
            if self._is_static
            else {"controller.quorum.bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in ports.values())}
        )
        return {
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[node_id]},CONTROLLER://127.0.0.1:{ports[node_id]}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.folder / f"data-{node_id}"),
            **quorum,
        }

    def format(self, node_id: int) -> None:
        controllers = zip(self._controller_ports.items(), DIRECTORY_IDS, strict=True)
        named = ",".join(f"{voter}@127.0.0.1:{port}:{directory}" for (voter, port), directory in controllers)
        command = ["format", "--config", str(self.file(node_id)), "--cluster-id", CLUSTER_ID]
        options = [] if self._is_static else ["--initial-controllers", named]
        run_cordwood(*command, *options)

    def start(self, *node_ids: int) -> None:
        """Returns once they are ready, for which most of the nodes have to be there."""
        for node_id in node_ids:
            self._processes[node_id] = UpProcess("--config", str(self.file(node_id)))
        for node_id in node_ids:
            self._processes[node_id].await_line("is ready")

    def stop(self, node_id: int) -> int:
        return self._processes.pop(node_id).end()

    def kill(self, node_id: int) -> None:
        self._processes.pop(node_id).end(signal.SIGKILL)

    def __enter__(self) -> "ThreeNodes":
        for node_id in self.ports:
            self.format(node_id)
        self.start(*self.ports)
        return self

    def __exit__(self, *_error: object) -> None:
        for node_id in list(self._processes):
            self.kill(node_id)


def run_cordwood(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "cordwood", *arguments], check=True, stdout=subprocess.DEVNULL)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


def free_ports(count: int) -> list[int]:
    """Free ports."""
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
