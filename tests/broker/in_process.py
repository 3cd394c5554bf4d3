"""A node in the test's own process, on real sockets and a real directory, and short ways to what is inside it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from cordwood.broker.start.standalone import standalone_config
from cordwood.config.layers import Layer
from cordwood.log.idempotence.producers import AppendOrigin
from cordwood.net.peers.channel import Channel
from cordwood.node import Node
from cordwood.replica.partition import ACKS_ALL, Partition
from cordwood.runtime.clock import Clock, SystemClock
from cordwood.runtime.files.local_disk import LocalDisk
from cordwood.runtime.network import Address, Network
from cordwood.runtime.randomness import SeededRandom
from cordwood.runtime.sockets import SocketNetwork
from cordwood.wire.control import end_txn_marker
from cordwood.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from cordwood.wire.messages.delete_topics import DeleteTopicsRequest
from cordwood.wire.primitives import Uuid
from data_answers.batches import batch

T = TypeVar("T")

# Far more than anything here takes: a test that waits for what never comes fails instead of hanging.
PATIENCE_S = 60.0
TIMEOUT_MS = 30_000
NODE_ID = 1


def run(main: Coroutine[Any, Any, T]) -> T:
    async def patiently() -> T:
        async with asyncio.timeout(PATIENCE_S):
            return await main

    return asyncio.run(patiently())


@asynccontextmanager
async def node_at(directory: Path, **settings: str) -> AsyncIterator[InProcessNode]:
    """Settings by their names, with underscores for dots."""
    said = {name.replace("_", "."): value for name, value in settings.items()}
    config = standalone_config(Layer("test", {"log.dirs": str(directory / "data"), **said}), port=0)
    node = await Node.start(
        config, network=SocketNetwork(), clock=SystemClock(), random=SeededRandom(1), open_disk=LocalDisk
    )
    try:
        yield InProcessNode(node)
    finally:
        await node.stop()


class InProcessNode:
    """A node for `data_answers` and for tests that look into it."""

    def __init__(self, node: Node, network: Network | None = None) -> None:
        self.node = node
        self._network = network if network is not None else SocketNetwork()
        self.broker = node.broker
        self._next_producer_id = 1_000_000

    @property
    def port(self) -> int:
        return self._address.port

    @property
    def _address(self) -> Address:
        return self.node.addresses["PLAINTEXT"]

    async def connect(self) -> Channel:
        return await Channel.open(self._network, self._address.host, self._address.port, client_id="test")

    async def create(self, topic: str, partitions: int = 1, configs: dict[str, str] | None = None) -> Uuid:
        settings = [CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()]
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, configs=settings)],
            timeout_ms=TIMEOUT_MS,
        )
        response = await self.broker.controller.ask(request)
        assert not response.topics[0].error_code, response
        return response.topics[0].topic_id

    async def delete(self, topic: str) -> None:
        request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=TIMEOUT_MS)
        response = await self.broker.controller.ask(request)
        assert not response.responses[0].error_code, response

    def partition(self, topic: str, index: int = 0) -> Partition:
        partition = self.broker.partition(topic, index)
        assert partition is not None
        return partition

    async def transaction(self, topic: str, partition: int, name: str) -> InProcessTransaction:
        self._next_producer_id += 1
        return InProcessTransaction(self.partition(topic, partition), self._next_producer_id, self.broker.clock)


class InProcessTransaction:
    """Writes what a transactional producer and its coordinator would."""

    def __init__(self, partition: Partition, producer_id: int, clock: Clock) -> None:
        self.producer_id = producer_id
        self._clock = clock
        self._partition = partition
        self._sequence = 0

    async def write(self, *values: str) -> None:
        records = batch(*values, producer_id=self.producer_id, epoch=0, sequence=self._sequence, transactional=True)
        self._sequence += len(values)
        self._partition.append(records, ACKS_ALL, self._clock.now_ms())

    async def end(self, *, commit: bool) -> None:
        now_ms = self._clock.now_ms()
        marker = end_txn_marker(0, now_ms, self.producer_id, 0, commit=commit, coordinator_epoch=0, leader_epoch=0)
        self._partition.append(marker, ACKS_ALL, now_ms, AppendOrigin.COORDINATOR)
