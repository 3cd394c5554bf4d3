"""The brokers that are compared: how each is started, awaited, stopped and killed."""

from __future__ import annotations

import base64
import os
import re
import signal
import socket
import subprocess
import sys
import time
import uuid
from abc import ABC, abstractmethod
from functools import cache
from pathlib import Path

import cordwood
from bench.nodes.processes import as_installed
from bench.nodes.wire_client import WireClient

READY_LINE = re.compile(r"is ready: bootstrap (?P<host>\S+):(?P<port>\d+)")
START_TIMEOUT_S = 300


class Broker(ABC):
    """One that can be started on a data directory of its own, again and again."""

    name: str

    def __init__(self, folder: Path, settings: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.settings = settings or {}
        self.address = ("127.0.0.1", 0)
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        assert self._process, "not started"
        return self._process.pid

    @property
    def bootstrap(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    def client(self) -> WireClient:
        return WireClient(self.address)

    def start(self) -> float:
        """Seconds from the start of the process until it lists itself in Metadata."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._prepare()
        started = time.perf_counter()
        self._process = self._launch()
        self._wait_until_ready(started + START_TIMEOUT_S)
        return time.perf_counter() - started

    def stop(self) -> float:
        return self._end(signal.SIGTERM)

    def kill(self) -> float:
        return self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> float:
        if not self._process:
            return 0
        started = time.perf_counter()
        self._process.send_signal(how)
        self._process.wait(120)
        self._process = None
        return time.perf_counter() - started

    @abstractmethod
    def _prepare(self) -> None:
        """Preparation before the clock starts."""

    @abstractmethod
    def _launch(self) -> subprocess.Popen[str]: ...

    def _wait_until_ready(self, deadline: float) -> None:
        while not self._lists_itself():
            if self._process and self._process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self._process.returncode}: see {self.folder}")
            if time.perf_counter() > deadline:
                raise TimeoutError(f"{self.name} is not ready after {START_TIMEOUT_S} s")
            time.sleep(0.01)

    def _lists_itself(self) -> bool:
        try:
            with self.client() as client:
                return client.brokers() > 0
        except OSError:
            return False


class Cordwood(Broker):
    name = "Cordwood"
    # Options of `cordwood up`, beside the port, the data and the settings.
    options: tuple[str, ...] = ()

    def _prepare(self) -> None:
        """An empty directory is formatted at the first start; and an installed Cordwood has compiled modules."""
        compile_modules()

    def _launch(self) -> subprocess.Popen[str]:
        options = [
            *self.options,
            *(part for key, value in self.settings.items() for part in ("--set", f"{key}={value}")),
        ]
        command = [sys.executable, "-m", "cordwood", "up", "--port", "0", "--data", str(self.folder / "data"), *options]
        with (self.folder / "errors").open("a") as errors:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=self._environment(),
            )

    def _environment(self) -> dict[str, str]:
        return as_installed()

    def _wait_until_ready(self, deadline: float) -> None:
        """The port is the system's choice: the ready line has it."""
        assert self._process
        assert self._process.stdout
        for line in self._process.stdout:
            if found := READY_LINE.search(line):
                self.address = (found["host"], int(found["port"]))
                break
        super()._wait_until_ready(deadline)


class Kafka(Broker):
    """Apache Kafka as one combined node, with the settings and JVM its own flags distribution.

    `home` is an unpacked distribution (its jars in `libs`), or any directory with all of its jars in `lib`.
    """

    name = "Kafka"
    JVM_FLAGS = (
        *("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
        *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15"),
        "-Djava.awt.headless=true",
    )

    def __init__(self, home: Path, folder: Path, settings: dict[str, str] | None = None) -> None:
        super().__init__(folder, settings)
        self.home = home

    def _prepare(self) -> None:
        if (self.folder / "data" / "meta.properties").exists():
            return
        port, controller_port = free_ports(2)
        self.address = ("127.0.0.1", port)
        properties = self._properties(port, controller_port) | self.settings
        (self.folder / "server.properties").write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        (self.folder / "log4j2.properties").write_text(_LOGGING)
        voter = f"1@127.0.0.1:{controller_port}:{_kafka_uuid()}"
        command = self._java("-Xmx256M", "kafka.tools.StorageTool", "format", "-t", _kafka_uuid())
        command += ["-c", str(self.folder / "server.properties"), "--initial-controllers", voter]
        subprocess.run(command, check=True, capture_output=True)

    def _launch(self) -> subprocess.Popen[str]:
        command = self._java(*self.JVM_FLAGS, "kafka.Kafka", str(self.folder / "server.properties"))
        with (self.folder / "errors").open("a") as errors:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, text=True)

    def _java(self, *arguments: str) -> list[str]:
        java = Path(os.environ["JAVA_HOME"], "bin", "java") if os.environ.get("JAVA_HOME") else "java"
        jars = self.home / ("libs" if (self.home / "libs").is_dir() else "lib")
        logging = [f"-Dkafka.logs.dir={self.folder}", f"-Dlog4j2.configurationFile={self.folder}/log4j2.properties"]
        return [str(java), "-cp", f"{jars}/*", *logging, *arguments]

    def _properties(self, port: int, controller_port: int) -> dict[str, str]:
        """Those of config/server.properties, with addresses of our own."""
        listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}"
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
            "listeners": listeners,
            "advertised.listeners": listeners,
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "num.network.threads": "3",
            "num.io.threads": "8",
            "socket.send.buffer.bytes": "102400",
            "socket.receive.buffer.bytes": "102400",
            "socket.request.max.bytes": "104857600",
            "log.dirs": str(self.folder / "data"),
            "num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "log.retention.hours": "168",
            "log.segment.bytes": "1073741824",
            "log.retention.check.interval.ms": "300000",
        }


class Running(Broker):
    """A running broker: it can be loaded, but not started or stopped."""

    def __init__(self, name: str, bootstrap: str, pid: int) -> None:
        super().__init__(Path())
        self.name = name
        host, _, port = bootstrap.rpartition(":")
        self.address = (host, int(port))
        self._pid = pid

    @property
    def pid(self) -> int:
        return self._pid

    def start(self) -> float:
        return 0

    def stop(self) -> float:
        return 0

    def kill(self) -> float:
        return 0

    def _prepare(self) -> None:
        raise NotImplementedError("it runs already")

    def _launch(self) -> subprocess.Popen[str]:
        raise NotImplementedError("it runs already")


@cache
def compile_modules() -> None:
    """Those of Cordwood and its imports; and all of them are in the page cache then."""
    package = Path(cordwood.__file__).parent
    for arguments in (("-m", "compileall", "-q", str(package)), ("-c", "import cordwood.cli.node.up")):
        subprocess.run([sys.executable, *arguments], check=True, env=as_installed())


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _kafka_uuid() -> str:
    """As Kafka spells them; it refuses those that start with a hyphen."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")


_LOGGING = """status=warn
appender.file.type=File
appender.file.name=file
appender.file.fileName=${sys:kafka.logs.dir}/server.log
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=info
rootLogger.appenderRef.file.ref=file
"""
