"""A cluster on loopback whose nodes are Apache Kafka's or Cordwood's, each started from a server.properties that both
understand.

`KAFKA_HOME` names a directory with Apache Kafka's jars in `lib/` (`make interop` fetches them).
"""

from __future__ import annotations

import base64
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

KAFKA_HOME = os.environ.get("KAFKA_HOME")
HOST = "127.0.0.1"
_READY_TIMEOUT_S = 120.0
_BOTH_ROLES = "broker,controller"
_HEAP = ("-Xmx320M", "-Xms64M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LOG4J = """status=warn
appender.f.type=Console
appender.f.name=F
appender.f.layout.type=PatternLayout
appender.f.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=info
rootLogger.appenderRef.f.ref=F
"""
# The log lines of Kafka's tools; their output is their own.
_TOOL_LOG4J = """status=error
appender.f.type=File
appender.f.name=F
appender.f.fileName={directory}/tools.log
appender.f.layout.type=PatternLayout
appender.f.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=debug
rootLogger.appenderRef.f.ref=F
"""


class Kind(Enum):
    KAFKA = "kafka"
    CORDWOOD = "cordwood"


@dataclass
class MixedNode:
    """One node: its directory outlives its process, and may be run by the other kind next time."""

    id: int
    kind: Kind
    roles: str
    port: int
    controller_port: int
    directory: Path
    directory_id: str
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def metadata(self) -> Path:
        """The directory of its metadata log."""
        return self.data / "__cluster_metadata-0"

    @property
    def properties(self) -> Path:
        return self.directory / "server.properties"

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def voter(self) -> str:
        """Names it as a voter, for the tools of both."""
        return f"{self.id}@{HOST}:{self.controller_port}:{self.directory_id}"

    @property
    def output(self) -> str:
        path = self.directory / "output"
        return path.read_text(errors="replace") if path.exists() else ""


class MixedCluster:
    """`kinds` gives each node's kind by its id, `roles` its roles where they are not both. `release` is that whose
    features the cluster begins with."""

    def __init__(
        self,
        root: Path,
        kinds: Mapping[int, Kind],
        roles: Mapping[int, str] | None = None,
        settings: Mapping[str, str] | None = None,
        *,
        format_with: Kind = Kind.KAFKA,
        is_static: bool = False,
        release: str | None = None,
    ) -> None:
        self.cluster_id = _identifier()
        self.root = root
        self._settings = dict(settings or {})
        self._is_static = is_static
        self._nodes_made = 0
        self.nodes: dict[int, MixedNode] = {}
        for node_id, kind in kinds.items():
            self._new_node(node_id, kind, (roles or {}).get(node_id, _BOTH_ROLES))
        root.mkdir(parents=True, exist_ok=True)
        (root / "tools.log4j2.properties").write_text(_TOOL_LOG4J.format(directory=root))
        initial = [] if is_static else ["--initial-controllers", ",".join(node.voter for node in self._controllers)]
        begin_with = [] if release is None else ["--release-version", release]
        for node in self.nodes.values():
            self._format(node, format_with, [*begin_with, *(initial if node.is_controller else [])])

    def add(self, node_id: int, kind: Kind, roles: str = _BOTH_ROLES, *, format_with: Kind | None = None) -> MixedNode:
        """Another node, formatted to join. Its controller isn't a voter yet."""
        node = self._new_node(node_id, kind, roles)
        self._format(node, format_with or kind, ["--no-initial-controllers"] if node.is_controller else [])
        meta = (node.data / "meta.properties").read_text()
        node.directory_id = meta.partition("directory.id=")[2].splitlines()[0]
        return node

    def retire(self, node_id: int) -> MixedNode:
        """Stops a node, and forgets it."""
        self.stop(node_id)
        return self.nodes.pop(node_id)

    def _new_node(self, node_id: int, kind: Kind, roles: str) -> MixedNode:
        port, controller_port = _free_ports(2)
        directory = self.root / f"node{node_id}-{self._nodes_made}"
        self._nodes_made += 1
        node = MixedNode(node_id, kind, roles, port, controller_port, directory, _identifier())
        self.nodes[node_id] = node
        directory.mkdir(parents=True)
        (directory / "log4j2.properties").write_text(_LOG4J)
        return node

    # Properties and formatting

    @property
    def bootstrap(self) -> str:
        return ",".join(node.address for node in self.nodes.values() if node.is_broker)

    @property
    def bootstrap_controllers(self) -> str:
        return ",".join(f"{HOST}:{node.controller_port}" for node in self._controllers)

    @property
    def _controllers(self) -> list[MixedNode]:
        return [node for node in self.nodes.values() if node.is_controller]

    def _properties(self, node: MixedNode) -> str:
        brokers = sum(1 for each in self.nodes.values() if each.is_broker)
        factor = str(min(3, brokers))
        listeners = []
        if node.is_broker:
            listeners.append(f"PLAINTEXT://{HOST}:{node.port}")
        if node.is_controller:
            listeners.append(f"CONTROLLER://{HOST}:{node.controller_port}")
        settings = {
            "process.roles": node.roles,
            "node.id": str(node.id),
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(node.data),
            "default.replication.factor": factor,
            "min.insync.replicas": "2" if brokers > 2 else "1",
            "offsets.topic.replication.factor": factor,
            "offsets.topic.num.partitions": "6",
            "transaction.state.log.replication.factor": factor,
            "transaction.state.log.num.partitions": "6",
            "transaction.state.log.min.isr": "2" if brokers > 2 else "1",
            "share.coordinator.state.topic.replication.factor": factor,
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.cleaner.dedupe.buffer.size": "4194304",
            **self._settings,
        }
        if self._is_static:
            settings["controller.quorum.voters"] = ",".join(
                f"{each.id}@{HOST}:{each.controller_port}" for each in self._controllers
            )
        else:
            settings["controller.quorum.bootstrap.servers"] = self.bootstrap_controllers
        return "".join(f"{name}={value}\n" for name, value in settings.items())

    def _format(self, node: MixedNode, format_with: Kind, options: list[str]) -> None:
        node.properties.write_text(self._properties(node))
        if format_with is Kind.KAFKA:
            command = [*_java(node.directory), "kafka.tools.StorageTool", "format"]
        else:
            command = [*_cordwood(), "format"]
        command += ["--cluster-id", self.cluster_id, "--config", str(node.properties), *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    # Processes

    def start(self, *node_ids: int) -> None:
        """Starts these nodes (all unless named), and returns when every running broker knows all the others."""
        for node_id in node_ids or self.nodes:
            self._launch(self.nodes[node_id])
        running = [node for node in self.nodes.values() if node.is_broker and node.is_running]
        for node in running:
            self._await_brokers(node, {each.id for each in running})

    def _launch(self, node: MixedNode) -> None:
        assert node.process is None or node.process.poll() is not None, f"node {node.id} runs"
        properties = str(node.properties)
        if node.kind is Kind.KAFKA:
            command = [*_java(node.directory), "kafka.Kafka", properties]
        else:
            command = [*_cordwood(), "up", "--config", properties, "--log-level", "INFO"]
        with (node.directory / "output").open("ab") as output:
            node.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )

    def _await_brokers(self, node: MixedNode, expected: set[int]) -> None:
        deadline = time.monotonic() + _READY_TIMEOUT_S
        client = AdminClient({"bootstrap.servers": node.address, "log_level": 0})
        while True:
            try:
                if set(client.list_topics(timeout=1).brokers) >= expected:
                    return
            except KafkaException:
                pass
            assert node.is_running, f"node {node.id} ended:\n{node.output[-4000:]}"
            assert time.monotonic() < deadline, f"node {node.id} is not ready:\n{node.output[-4000:]}"
            time.sleep(0.05)

    def kill(self, node_id: int) -> None:
        self._end(self.nodes[node_id], signal.SIGKILL)

    def stop(self, node_id: int) -> None:
        """A controlled shutdown."""
        self._end(self.nodes[node_id], signal.SIGTERM)

    def pause(self, node_id: int) -> None:
        self._signal(node_id, signal.SIGSTOP)

    def resume(self, node_id: int) -> None:
        self._signal(node_id, signal.SIGCONT)

    def _signal(self, node_id: int, number: signal.Signals) -> None:
        process = self.nodes[node_id].process
        assert process is not None
        process.send_signal(number)

    def _end(self, node: MixedNode, how: signal.Signals) -> None:
        process = node.process
        if process is not None and process.poll() is None:
            process.send_signal(how)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise

    def close(self) -> None:
        for node in self.nodes.values():
            if node.process is not None and node.process.poll() is None:
                node.process.kill()
                node.process.wait()

    # Tools

    def kafka(self, name: str, *arguments: str, timeout_s: float = 180) -> str:
        """Runs one of Kafka's command line tools by its class, and returns its output. Raises AssertionError if it
        fails."""
        return _run(self.kafka_command(name, *arguments), timeout_s)

    def kafka_command(self, name: str, *arguments: str) -> list[str]:
        return [*_java(self.root, "tools.log4j2.properties"), name, *arguments]

    def cordwood(self, *arguments: str, timeout_s: float = 120) -> str:
        """Runs `cordwood`, and returns its output. Raises AssertionError if it fails."""
        return _run([*_cordwood(), *arguments], timeout_s)


def _run(command: list[str], timeout_s: float) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# The type of the fixture `start_cluster`.
StartCluster = Callable[..., MixedCluster]


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin/java") if home else shutil.which("java") or "java"


def _java(directory: Path, logging: str = "log4j2.properties") -> list[str]:
    assert KAFKA_HOME is not None
    options = [f"-Dlog4j2.configurationFile={directory}/{logging}", f"-Dkafka.logs.dir={directory}"]
    return [java(), *options, *_HEAP, "-cp", f"{KAFKA_HOME}/lib/*"]


def _cordwood() -> list[str]:
    return [sys.executable, "-m", "cordwood"]


def _identifier() -> str:
    """An id as Kafka prints it; one that begins with a dash would be mistaken for an option."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind((HOST, 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
