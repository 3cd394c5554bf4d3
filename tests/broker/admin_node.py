"""A node in this process for conversations with it, set up like the Kafka whose answers were recorded."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from cordwood.config.broker import BrokerConfig
from cordwood.config.layers import Layer
from cordwood.net.peers.channel import Channel
from cordwood.node import Node
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.files.local_disk import LocalDisk
from cordwood.runtime.network import Network
from cordwood.runtime.randomness import SeededRandom
from cordwood.runtime.sockets import SocketNetwork
from cordwood.wire.schema import Request, ResponseT
from kafka_answers.conversation import BROKER, CONTROLLER, Conversation, Surroundings

HOST = "127.0.0.1"
PATIENCE_S = 60.0
T = TypeVar("T")

# Of the node that was asked; `listeners` and `log.dirs` aside.
_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
}


def run(main: Coroutine[Any, Any, T]) -> T:
    async def patiently() -> T:
        async with asyncio.timeout(PATIENCE_S):
            return await main

    return asyncio.run(patiently())


@asynccontextmanager
async def running(
    directory: Path, conversation: Conversation | None = None, /, **settings: str
) -> AsyncIterator[tuple[Node, Network, Surroundings]]:
    """`delete_topic_enable="false"` says delete.topic.enable=false."""
    conversation = conversation or Conversation([])
    ports = {BROKER: _free_port(), CONTROLLER: _free_port()}
    log_dirs = [str(directory / f"dir{index}") for index in range(conversation.log_dirs)]
    listeners = f"PLAINTEXT://{HOST}:{ports[BROKER]},CONTROLLER://{HOST}:{ports[CONTROLLER]}"
    said = {
        **_SETTINGS,
        "controller.quorum.bootstrap.servers": f"{HOST}:{ports[CONTROLLER]}",
        "listeners": listeners,
        "advertised.listeners": listeners,
        "log.dirs": ",".join(log_dirs),
        **conversation.settings,
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    network = SocketNetwork()
    node = await Node.start(
        BrokerConfig.from_layers(Layer("the test", said)),
        network=network,
        clock=SystemClock(),
        random=SeededRandom(),
        open_disk=LocalDisk,
    )
    try:
        yield node, network, Surroundings(HOST, ports, log_dirs)
    finally:
        await node.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


async def ask(
    node: Node, network: Network, request: Request[ResponseT], version: int | None = None, listener: str = "PLAINTEXT"
) -> ResponseT:
    address = node.addresses[listener]
    channel = await Channel.open(network, address.host, address.port, client_id="test")
    try:
        stable = type(request).stable_versions
        return await channel.request(request, stable.high if version is None else version)
    finally:
        channel.close()
