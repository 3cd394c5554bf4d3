"""Three nodes as separate processes, each a broker and a controller, which are killed and started again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cordwood import Admin
from cordwood.wire.hashing import partition_for_id
from tests.foreign_clients.kafka_client import eventually
from tests.foreign_clients.node_process import READY_WITHIN_S, NodeProcess, environment, free_port

_CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
_HOST = "127.0.0.1"
_IDS = (1, 2, 3)
_COORDINATORS = 3
_SETTINGS = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "default.replication.factor": "3",
    # The session timeout that a new controller uses for brokers that it has not heard from.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": str(_COORDINATORS),
    "transaction.state.log.num.partitions": str(_COORDINATORS),
}
GROUPS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"


class ClusterNode(NodeProcess):
    """`cordwood up` with a configuration file."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        super().__init__(folder, port=None)
        self.folder.mkdir(parents=True)
        self._config = folder / "server.properties"
        lines = [f"{key}={value}\n" for key, value in {**settings, "log.dirs": str(self.data)}.items()]
        self._config.write_text("".join(lines))

    def format(self) -> None:
        command = [sys.executable, "-m", "cordwood", "format", "-c", str(self._config), "-t", _CLUSTER_ID]
        done = subprocess.run(command, capture_output=True, text=True, timeout=READY_WITHIN_S, env=environment())
        assert done.returncode == 0, done.stderr

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "cordwood", "up", "--config", str(self._config)]


class NodeCluster:
    """`nodes` by their ids."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        ports = {node_id: (free_port(), free_port()) for node_id in _IDS}
        voters = ",".join(f"{node_id}@{_HOST}:{port}" for node_id, (_, port) in ports.items())
        self.bootstrap = ",".join(f"{_HOST}:{port}" for port, _ in ports.values())
        self.nodes = {
            node_id: ClusterNode(
                folder / f"node-{node_id}",
                {
                    "node.id": str(node_id),
                    "listeners": f"PLAINTEXT://{_HOST}:{port},CONTROLLER://{_HOST}:{controller_port}",
                    "controller.quorum.voters": voters,
                    **_SETTINGS,
                    **settings,
                },
            )
            for node_id, (port, controller_port) in ports.items()
        }

    def start(self) -> NodeCluster:
        """All at once: they need each other. Returns once clients can use each of them."""
        with ThreadPoolExecutor() as threads:
            list(threads.map(ClusterNode.format, [node for node in self.nodes.values() if not node.data.exists()]))
            try:
                list(threads.map(ClusterNode.start, self.nodes.values()))
            except BaseException:
                self.kill()
                raise
        return self

    def stop(self) -> int:
        """All at once; the exit status of one that failed, or 0."""
        with ThreadPoolExecutor() as threads:
            return max(threads.map(ClusterNode.stop, self.nodes.values()), key=abs)

    def kill(self) -> None:
        for node in self.nodes.values():
            node.kill()

    # As of one node

    def stderr(self) -> str:
        return "".join(node.stderr() for node in self.nodes.values())

    def rss_bytes(self) -> int:
        return sum(node.rss_bytes() for node in self.nodes.values())

    def open_descriptors(self) -> int:
        return sum(node.open_descriptors() for node in self.nodes.values())

    # Roles

    def partition_leader(self, topic: str, partition: int = 0) -> int:
        def leader() -> int | None:
            with Admin(bootstrap_servers=self.bootstrap) as admin:
                return admin.describe_topics([topic])[topic].partitions[partition].leader

        found = eventually(leader, lambda found: found is not None)
        assert found is not None
        return found

    def group_coordinator(self, group_id: str) -> int:
        return self.partition_leader(GROUPS, partition_for_id(group_id, _COORDINATORS))

    def transaction_coordinator(self, transactional_id: str) -> int:
        return self.partition_leader(TRANSACTIONS, partition_for_id(transactional_id, _COORDINATORS))

    def await_in_sync(self) -> None:
        """Until all replicas of all topics are in sync."""

        def are_in_sync() -> bool:
            with Admin(bootstrap_servers=self.bootstrap) as admin:
                topics = admin.list_topics(internal=True)
            return all(len(partition.isr) == len(_IDS) for topic in topics.values() for partition in topic.partitions)

        assert eventually(are_in_sync)
