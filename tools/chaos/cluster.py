"""Nodes as separate processes, Cordwood's or Apache Kafka's. All are brokers, the first three are controllers too.

Both get the same settings. The metadata log has its own directory; partitions are in two others, each of which can
fail or be replaced alone.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from chaos.checks import Kind, Violation
from chaos.network import Network, Place
from cordwood import Admin, ClientError

NODE_IDS = (1, 2, 3)
_CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
_PATIENCE_S = 120.0
_PAUSE_S = 0.05
_SHOWN_CHARS = 2_000
_DISK_BYTES = 256 << 20
_HEAP = ("-Xms256M", "-Xmx512M", "-XX:+UseG1GC", "-Djava.awt.headless=true")
_LOG4J = """status=warn
appender.f.type=Console
appender.f.name=F
appender.f.layout.type=PatternLayout
appender.f.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=info
rootLogger.appenderRef.f.ref=F
"""
_VOTERS = 3
_SETTINGS = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "6",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "6",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
    # Replicas are cleaned each on its own, and then differ.
    "log.cleaner.enable": "false",
}


class DidNotHappen(Exception):
    """A cluster did not become what it should have within the time that there was."""


class Node:
    """Its directories outlive its process."""

    def __init__(self, node_id: int, place: Place, folder: Path, kafka: Path | None, *, is_voter: bool) -> None:
        self.id = node_id
        self.is_voter = is_voter
        self.place = place
        self.folder = folder
        self.metadata = folder / "metadata"
        self.disks = (folder / "disk-1", folder / "disk-2")
        self._kafka = kafka
        self._process: subprocess.Popen[bytes] | None = None
        self._was_ended = True

    @property
    def address(self) -> str:
        return f"{self.place.host}:{self.place.port}"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self.is_running else None

    @property
    def has_ended_on_its_own(self) -> bool:
        return not self._was_ended and not self.is_running

    @property
    def output(self) -> str:
        path = self.folder / "output"
        return path.read_text(errors="replace") if path.exists() else ""

    # Its life

    def prepare(self, settings: Mapping[str, str]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "log4j2.properties").write_text(_LOG4J)
        controller = f",CONTROLLER://{self.place.host}:{self.place.controller_port}"
        own = {
            "node.id": str(self.id),
            "process.roles": "broker,controller" if self.is_voter else "broker",
            "listeners": f"PLAINTEXT://{self.address}" + (controller if self.is_voter else ""),
            "metadata.log.dir": str(self.metadata),
            "log.dirs": ",".join(str(disk) for disk in self.disks),
        }
        lines = [f"{name}={value}\n" for name, value in {**_SETTINGS, **settings, **own}.items()]
        self._properties.write_text("".join(lines))
        self._format()

    def start(self) -> None:
        if self.is_running:
            return
        self._was_ended = False
        with (self.folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [*self.place.prefix, *self._command("up", "--config", str(self._properties))],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=_environment(),
            )

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """A controlled shutdown."""
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    # Its disks

    def mount_small_disk(self) -> None:
        """Puts its second directory on a disk that can be filled. Only where the run is confined."""
        disk = self.disks[1]
        disk.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "tmpfs", str(disk)], check=True)

    @property
    def has_small_disk(self) -> bool:
        return self.disks[1].is_mount()

    def fill_disk(self) -> None:
        block = bytes(1 << 16)
        try:
            with self._filler.open("wb", buffering=0) as filler:
                while filler.write(block) == len(block):
                    continue
        except OSError:
            return

    def free_disk(self) -> None:
        self._filler.unlink(missing_ok=True)

    def wipe(self, disks: Collection[Path] | None = None) -> None:
        """Empties its directories, as new disks would be. The metadata log stays: a voter must not forget its vote."""
        for disk in self.disks if disks is None else disks:
            for entry in disk.iterdir():
                if entry.is_dir():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()
        if self._kafka is not None:
            # It does not take an empty directory for a new one.
            self._format("--ignore-formatted")

    # Within

    def _format(self, *options: str) -> None:
        command = self._command("format", "--cluster-id", _CLUSTER_ID, "--config", str(self._properties), *options)
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment())
        if done.returncode != 0:
            raise DidNotHappen(f"node {self.id} could not be formatted:\n{done.stdout}{done.stderr}")

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    @property
    def _filler(self) -> Path:
        return self.disks[1] / "filler"

    def _command(self, verb: str, *arguments: str) -> list[str]:
        if self._kafka is None:
            level = ["--log-level", "INFO"] if verb == "up" else []
            return [sys.executable, "-m", "cordwood", verb, *arguments, *level]
        home = os.environ.get("JAVA_HOME")
        java = [str(Path(home) / "bin/java") if home else "java", f"-Dkafka.logs.dir={self.folder}"]
        java += [f"-Dlog4j2.configurationFile={self.folder}/log4j2.properties", "-cp", f"{self._kafka}/lib/*"]
        if verb == "format":
            return [*java, "kafka.tools.StorageTool", "format", *arguments]
        return [*java, *_HEAP, "kafka.Kafka", str(self._properties)]

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def _end(self, how: signal.Signals) -> None:
        self._was_ended = True
        self._signal(how)
        if self._process is not None:
            try:
                self._process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
                raise DidNotHappen(f"node {self.id} did not end on {how.name}") from None


class ChaosCluster:
    """Its nodes by their ids. `kafka` is a directory with Kafka's jars in `lib`, if it is to be Kafka."""

    def __init__(
        self,
        folder: Path,
        network: Network,
        *,
        kafka: Path | None = None,
        settings: Mapping[str, str] | None = None,
        node_settings: Mapping[int, Mapping[str, str]] | None = None,
        small_disks: bool = False,
        node_ids: Sequence[int] = NODE_IDS,
    ) -> None:
        self.network = network
        self.nodes = {
            node_id: Node(
                node_id,
                network.place(node_id),
                folder / f"node-{node_id}",
                kafka,
                is_voter=node_id in node_ids[:_VOTERS],
            )
            for node_id in node_ids
        }
        voters = ",".join(
            f"{node.id}@{node.place.host}:{node.place.controller_port}" for node in self.nodes.values() if node.is_voter
        )
        self.bootstrap = ",".join(node.address for node in self.nodes.values())
        for node in self.nodes.values():
            if small_disks:
                node.mount_small_disk()
        every = {"controller.quorum.voters": voters, **(settings or {})}
        with ThreadPoolExecutor() as threads:
            list(
                threads.map(
                    lambda node: node.prepare({**every, **(node_settings or {}).get(node.id, {})}), self.nodes.values()
                )
            )

    def start(self) -> None:
        for node in self.nodes.values():
            node.start()
        self.await_in_sync()

    def close(self) -> None:
        for node in self.nodes.values():
            node.resume()
            node.kill()

    def heal(self) -> list[Violation]:
        """Undoes all its faults. Nodes that ended on their own are violations."""
        self.network.heal()
        found: list[Violation] = []
        for node in self.nodes.values():
            node.resume()
            node.free_disk()
            if node.has_ended_on_its_own:
                found.append(Violation(Kind.LIVENESS, f"node {node.id} ended: {node.output[-_SHOWN_CHARS:]}"))
            node.start()
        return found

    # Roles

    def controller(self) -> int:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            return admin.describe_metadata_quorum().leader

    def leader(self, topic: str, partition: int = 0) -> int:
        found = -1

        def is_led() -> bool:
            nonlocal found
            with Admin(bootstrap_servers=self.bootstrap) as admin:
                found = admin.list_topics(internal=True)[topic].partitions[partition].leader
            return found >= 0

        until(is_led, f"{topic}-{partition} has a leader")
        return found

    def await_in_sync(self, timeout_s: float = _PATIENCE_S) -> None:
        """Until all nodes answer, and all replicas of all topics are in sync."""

        def are_in_sync() -> bool:
            # A node that was killed a moment ago is in sync until that is noticed.
            for node in self.nodes.values():
                with Admin(bootstrap_servers=node.address):
                    continue
            with Admin(bootstrap_servers=self.bootstrap) as admin:
                known = {broker.id for broker in admin.describe_cluster().brokers}
                topics = admin.list_topics(internal=True)
            return known == set(self.nodes) and all(
                partition.leader >= 0 and set(partition.isr) == set(partition.replicas)
                for topic in topics.values()
                for partition in topic.partitions
            )

        until(are_in_sync, "all replicas are in sync", timeout_s)


def until(is_so: Callable[[], bool], what: str, timeout_s: float = _PATIENCE_S) -> None:
    """Returns when `is_so()` says so. A cluster may reject the query during a change."""
    deadline = time.monotonic() + timeout_s
    trouble: Exception | None = None
    while True:
        try:
            if is_so():
                return
            trouble = None
        except ClientError as error:
            trouble = error
        if time.monotonic() > deadline:
            raise DidNotHappen(f"not within {timeout_s:g} s: {what}" + (f" ({trouble})" if trouble else ""))
        time.sleep(_PAUSE_S)


def _environment() -> dict[str, str]:
    """Without settings for other nodes and for tests."""
    return {name: value for name, value in os.environ.items() if not name.startswith("CORDWOOD_")}
