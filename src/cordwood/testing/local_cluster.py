"""A cluster of real processes for tests, whose nodes can be killed and started again one by one."""

from __future__ import annotations

import asyncio
import json
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from cordwood.testing import NodeError
from cordwood.testing.topics import create_topic, partition_leader, unique_name

# Far more than a start or a stop takes, also on a machine that is busy.
_PATIENCE_S = 120.0
_SHOWN_LOG_CHARS = 4_000


class LocalCluster:
    """`with` starts and stops it, and so does `async with`. Its methods block; asyncio.to_thread takes them off a
    loop."""

    def __init__(
        self, brokers: int, controllers: int, settings: Mapping[str, str], data: str | None, log_level: str | None
    ) -> None:
        self._setup = {
            "brokers": brokers,
            "controllers": controllers,
            "settings": dict(settings),
            "log_level": log_level or "WARNING",
        }
        self._wanted_data = data
        self._folder: Path | None = None
        self._log = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._brokers: dict[int, str] = {}
        self._pids: dict[int, int | None] = {}

    # For tests

    @property
    def bootstrap(self) -> str:
        """For `bootstrap.servers`: all brokers, also those that are down."""
        self._running()
        return ",".join(self._brokers.values())

    @property
    def brokers(self) -> dict[int, str]:
        """The address of each broker, by its id."""
        self._running()
        return dict(self._brokers)

    @property
    def data(self) -> Path:
        """Below it, each node has a folder."""
        if self._wanted_data is not None:
            return Path(self._wanted_data).absolute()
        if self._folder is None:
            raise NodeError("the cluster was not started: it has no data directory yet")
        return self._folder / "data"

    @property
    def log(self) -> str:
        """The log output of all nodes."""
        if self._folder is None:
            return self._log
        file = self._folder / "log"
        return file.read_text() if file.exists() else ""

    def pid(self, node_id: int) -> int | None:
        """The process id of a node; None while it is down."""
        self._check(node_id)
        return self._pids[node_id]

    def topic(
        self,
        name: str | None = None,
        *,
        partitions: int = 1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
    ) -> str:
        """Creates a topic, and returns its name; without a name it gets one that no other has. It has three replicas
        (fewer where there are fewer brokers) unless `replication_factor` is given."""
        chosen = unique_name() if name is None else name
        create_topic(self.bootstrap, chosen, partitions, configs or {}, replication_factor)
        return chosen

    def partition_leader(self, topic: str, partition: int = 0) -> int:
        """The id of the broker that leads the partition; waits until one does that is up."""
        down = [node_id for node_id, pid in self._pids.items() if pid is None]
        return partition_leader(self.bootstrap, topic, partition, down)

    # Its nodes

    def kill(self, node_id: int) -> None:
        """As SIGKILL does: nothing is finished. The node stays down until `start` or `restart`."""
        self._tell(node_id, "kill")

    def stop(self, node_id: int) -> None:
        """Like SIGTERM: moves its leaderships, finishes requests in progress, flushes."""
        self._tell(node_id, "stop")

    def start(self, node_id: int) -> None:
        """Starts a node that is down, on the same data and ports; returns once it is ready."""
        self._tell(node_id, "start")

    def restart(self, node_id: int) -> None:
        """Stops it if it runs, and starts it again."""
        self.stop(node_id)
        self.start(node_id)

    # Its life

    def open(self) -> None:
        """Starts all nodes; returns once they are ready."""
        self._folder = Path(tempfile.mkdtemp(prefix="cordwood-"))
        with (self._folder / "log").open("ab") as log:
            # -P: a module of the tests' directory must not shadow one of ours. A new session keeps Ctrl-C away: the
            # tests handle it by stopping the process.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "cordwood.testing.cluster_child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        said = self._ask({**self._setup, "data": str(self.data)})
        self._brokers = {int(node_id): address for node_id, address in said["brokers"].items()}
        self._pids = {int(node_id): pid for node_id, pid in said["pids"].items()}

    def close(self) -> None:
        """Stops all nodes, and removes their data, unless `data` was given."""
        process, self._process = self._process, None
        try:
            if process is not None:
                stdin, stdout = _pipes(process)
                stdin.close()
                process.wait(_PATIENCE_S)
                stdout.close()
        finally:
            # Keeps their logs available after their files are deleted.
            self._log = self.log
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None

    def __enter__(self) -> Self:
        try:
            self.open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    # Within

    def _check(self, node_id: int) -> None:
        self._running()
        if node_id not in self._pids:
            raise NodeError(f"there is no node {node_id}: the nodes are {', '.join(map(str, self._pids))}")

    def _tell(self, node_id: int, what: str) -> None:
        self._check(node_id)
        self._pids[node_id] = self._ask({"do": what, "node": str(node_id)})["pid"]

    def _ask(self, what: dict[str, Any]) -> dict[str, Any]:
        stdin, stdout = _pipes(self._running())
        stdin.write(json.dumps(what).encode() + b"\n")
        stdin.flush()
        readable, _, _ = select.select([stdout], [], [], _PATIENCE_S)
        line = stdout.readline() if readable else b""
        if not line:
            trouble = "it ended" if readable else f"no answer within {_PATIENCE_S:g} s"
            raise NodeError(f"the cluster failed: {trouble}\n{self.log[-_SHOWN_LOG_CHARS:]}")
        said: dict[str, Any] = json.loads(line)
        if "error" in said:
            raise NodeError(f"{said['error']}\n{self.log[-_SHOWN_LOG_CHARS:]}".rstrip())
        return said

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise NodeError("the cluster is not running: use it within `with cordwood.testing.cluster() as cluster:`")
        return self._process


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout
