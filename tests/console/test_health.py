"""`/healthz` and `/ready`, of a real node."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from cordwood.client.admin.topics import NewTopic, create_topics
from cordwood.console.health import problems
from cordwood.console.metrics_server import MetricsServer
from cordwood.metadata.image import NO_LEADER
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.disk import DiskError
from cordwood.runtime.sockets import SocketNetwork
from tests.console.measured_node import ask, measured_node

PATIENCE_S = 60.0


def test_a_node_that_starts_is_alive_and_not_ready(tmp_path: Path) -> None:
    async def main() -> None:
        server = await MetricsServer.listen(SocketNetwork(), SystemClock(), "127.0.0.1", 0)
        assert await ask(server, "/healthz") == (200, b'{"alive":true}')
        assert await ask(server, "/ready") == (503, b'{"ready":false,"problems":["the node is starting"]}')
        assert await ask(server, "/metrics") == (503, b"the node is starting\n")
        await server.stop()

    asyncio.run(main())


def test_a_node_that_has_started_is_ready(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S), measured_node(tmp_path) as measured:
            assert await ask(measured.server, "/healthz") == (200, b'{"alive":true}')
            assert await ask(measured.server, "/ready") == (200, b'{"ready":true,"problems":[]}')

    asyncio.run(main())


def test_a_failed_log_directory_is_reported(tmp_path: Path) -> None:
    async def main() -> None:
        directories = [str(tmp_path / name) for name in "ab"]
        async with (
            asyncio.timeout(PATIENCE_S),
            measured_node(tmp_path, {"log.dirs": ",".join(directories)}) as measured,
        ):
            await create_topics(measured.client, [NewTopic("orders", 4)])
            replicas = measured.node.broker.replicas
            with pytest.raises(DiskError) as raised:
                replicas.directories.directories[1].disk.open("no such file").read(0, 1)
            replicas.disk_failed(raised.value)
            status, body = await ask(measured.server, "/ready")
            assert status == 503
            assert json.loads(body) == {
                "ready": False,
                "problems": [f"log directory {directories[1]} is offline", "2 partitions are offline"],
            }
            # It lives, and serves what is left.
            assert (await ask(measured.server, "/healthz"))[0] == 200

    asyncio.run(main())


def test_a_node_that_is_fenced_or_has_partitions_without_a_leader_is_not_ready(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S), measured_node(tmp_path) as measured:
            await create_topics(measured.client, [NewTopic("orders", 3)])
            broker = measured.node.broker
            joined = broker.image
            fenced = replace(joined.brokers[broker.id], fenced=True)
            broker.image = replace(joined, brokers={broker.id: fenced})
            for partition in list(broker.replicas)[:2]:
                partition.update(replace(partition.state, leader=NO_LEADER), partition.config)
            assert problems(measured.node) == [
                "broker 1 has not joined the cluster: it is not registered, or it is fenced",
                "2 partitions have no leader",
            ]
            broker.image = replace(joined, brokers={})
            assert (await ask(measured.server, "/ready"))[0] == 503
            broker.image = joined

    asyncio.run(main())


def test_a_node_that_stops_is_not_ready(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S), measured_node(tmp_path) as measured:
            measured.node.stopped.set()
            assert await ask(measured.server, "/ready") == (503, b'{"ready":false,"problems":["the node is stopping"]}')
            assert (await ask(measured.server, "/healthz"))[0] == 200

    asyncio.run(main())
