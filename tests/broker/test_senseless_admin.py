"""Requests without sense, but well formed, to the admin APIs: each is answered, and nothing breaks."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from cordwood.net.peers.channel import Channel
from cordwood.node import Node
from cordwood.runtime.network import Network
from cordwood.wire.layout import Layout, WireField, message_layout
from cordwood.wire.messages import message_class
from cordwood.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from cordwood.wire.messages.metadata import MetadataRequest
from cordwood.wire.schema import Kind, Request
from tests.broker.admin_node import run, running

APIS = (
    "AlterConfigs",
    "AlterReplicaLogDirs",
    "CreatePartitions",
    "CreateTopics",
    "DeleteTopics",
    "DescribeCluster",
    "DescribeConfigs",
    "DescribeLogDirs",
    "DescribeQuorum",
    "DescribeTopicPartitions",
    "ElectLeaders",
    "IncrementalAlterConfigs",
    "ListConfigResources",
    "SaslHandshake",
    "UpdateFeatures",
)
TEXTS = (
    *("", "t", "u.v", "u_v", "w", "nowhere", ".", "1", "-1", "x" * 300, "café", "__cluster_metadata", "\x00", "a b"),
    *("retention.ms", "cleanup.policy", "min.insync.replicas", "node.id", "log.segment.bytes", "no.such.key", "root"),
    *("compact", "delete,compact", ",", "1000", "INFO", "true", "listener.name.x.ssl.key.password", "group.version"),
)
# Large numbers of partitions are refused; a few thousand would be made.
NUMBERS = (-2, -1, 0, 1, 2, 3, 4, 8, 16, 32, 100_000)


@pytest.mark.parametrize("seed", range(3))
def test_senseless_requests_are_answered(tmp_path: Path, seed: int) -> None:
    run(_ask_much(tmp_path, Random(seed), requests=15))


async def _ask_much(directory: Path, random: Random, requests: int) -> None:
    async with running(directory) as (node, network, _):
        topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in ("t", "u.v")]
        channel = await _connect(node, network)
        await channel.request(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 7)
        for _ in range(requests):
            for api in random.sample(APIS, len(APIS)):
                request: Any = message_class(f"{api}Request")
                version = random.choice(list(request.stable_versions))
                await channel.request(_random_request(request, version, random), version)
        channel.close()
        assert node.server.counts.handler_failures == 0
        # And what is left is a node that starts again.
    async with running(directory) as (node, network, _):
        channel = await _connect(node, network)
        await channel.request(MetadataRequest(topics=None), 12)
        channel.close()


async def _connect(node: Node, network: Network) -> Channel:
    address = node.addresses["PLAINTEXT"]
    return await Channel.open(network, address.host, address.port)


def _random_request(request: type[Request[Any]], version: int, random: Random) -> Request[Any]:
    made: Request[Any] = _random_struct(message_layout(request, version), random)
    return made


def _random_struct(layout: Layout, random: Random) -> Any:
    return layout.struct(**{field.name: _random_field(field, random) for field in layout.fields})


def _random_field(field: WireField, random: Random) -> Any:
    if field.name == "timeout_ms":
        return random.choice([30_000, 30_000, 30_000, 0])
    if field.nullable and random.random() < 0.2:
        return None
    if field.kind == "array":
        return [_random_element(field.element, random) for _ in range(random.choice([0, 1, 1, 2, 3]))]
    return _random_element(field.element or field.field.kind, random)


def _random_element(element: Layout | Kind | None, random: Random) -> Any:
    if isinstance(element, Layout):
        return _random_struct(element, random)
    assert element is not None
    match element.name:
        case "bool":
            return random.random() < 0.5
        case "string":
            return random.choice(TEXTS)
        case "uuid":
            return random.choice([bytes(16), random.randbytes(16)])
        case "int8":
            return random.choice([number for number in NUMBERS if number < 128])
        case "int16":
            return random.choice([number for number in NUMBERS if number < 1000])
        case _:
            return random.choice(NUMBERS)
