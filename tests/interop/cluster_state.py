"""The state of a mixed cluster, as its tools report it, and changes to it."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic

import cordwood
from cordwood.client.admin.cluster import Quorum
from cordwood.wire.frames import decode_response, encode_request
from cordwood.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from cordwood.wire.schema import Request, Response
from tests.interop.mixed_cluster import HOST, Kind, MixedCluster
from tests.interop.replica_files import assert_equal_replicas
from tests.interop.waiting import until

_TOPIC_RESOURCE = 2
_TIMEOUT_S = 60.0
# librdkafka sends what is for the controller to a broker of its choice, and waits for one that was just killed.
_RETRY_AFTER_S = 10.0
ResponseT = TypeVar("ResponseT", bound=Response)


@dataclass(frozen=True)
class PartitionState:
    leader: int
    replicas: tuple[int, ...]
    in_sync: frozenset[int]


def admin(cluster: MixedCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})


# Topics


def create(
    cluster: MixedCluster, name: str, partitions: int = 3, factor: int = 1, *, timeout_s: float = _TIMEOUT_S
) -> None:
    client = admin(cluster)
    created = client.create_topics([NewTopic(name, partitions, factor)], operation_timeout=30)
    created[name].result(timeout_s)


def await_led(cluster: MixedCluster, topics: Collection[str]) -> None:
    def are_led() -> bool:
        found = partitions_of(cluster, topics)
        return {topic for topic, _ in found} >= set(topics) and all(state.leader >= 0 for state in found.values())

    until(are_led)


def has_created(cluster: MixedCluster, name: str) -> bool:
    """Creates a topic, also where an earlier try was answered with an error and carried out all the same."""
    try:
        create(cluster, name, timeout_s=_RETRY_AFTER_S)
    except KafkaException as failed:
        if failed.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    return True


def partitions_of(cluster: MixedCluster, topics: Collection[str] = ()) -> dict[tuple[str, int], PartitionState]:
    """The partitions of these topics, or of all, internal ones too."""
    client = admin(cluster)
    return {
        (name, index): PartitionState(partition.leader, tuple(partition.replicas), frozenset(partition.isrs))
        for name, topic in client.list_topics(timeout=10).topics.items()
        if not topics or name in topics
        for index, partition in topic.partitions.items()
    }


def leading_kinds(cluster: MixedCluster, topics: Collection[str] = ()) -> set[Kind]:
    return {
        cluster.nodes[state.leader].kind
        for state in partitions_of(cluster, topics).values()
        if state.leader in cluster.nodes
    }


def await_in_sync(cluster: MixedCluster, replicas: Collection[int] = (), topics: Collection[str] = ()) -> None:
    """Returns once each partition has all its replicas in sync, which are these where they are named."""

    def are_in_sync() -> bool:
        return all(
            state.in_sync == set(state.replicas) and (not replicas or state.in_sync == set(replicas))
            for state in partitions_of(cluster, topics).values()
        )

    until(are_in_sync, timeout_s=180)


def has_topics(cluster: MixedCluster, node_id: int, names: set[str]) -> bool:
    client = AdminClient({"bootstrap.servers": cluster.nodes[node_id].address, "log_level": 0})
    return names <= set(client.list_topics(timeout=10).topics)


def alter(cluster: MixedCluster, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])

    def has_altered() -> bool:
        client = admin(cluster)
        for altered in client.incremental_alter_configs([resource], request_timeout=_RETRY_AFTER_S).values():
            altered.result()
        return True

    until(has_altered)


def config_at(cluster: MixedCluster, node_id: int, topic: str, name: str) -> str | None:
    """A topic's configuration as reported by that node."""
    resource = DescribeConfigsResource(resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=[name])
    response = _ask(cluster, node_id, DescribeConfigsRequest(resources=[resource]), 4, DescribeConfigsResponse)
    (result,) = response.results
    assert result.error_code == 0, result.error_message
    return next((config.value for config in result.configs if config.name == name), None)


def _ask(
    cluster: MixedCluster, node_id: int, request: Request[ResponseT], version: int, kind: type[ResponseT]
) -> ResponseT:
    with socket.create_connection((HOST, cluster.nodes[node_id].port), _TIMEOUT_S) as connection:
        connection.sendall(encode_request(request, version, 1, "interop"))
        stream = connection.makefile("rb")
        (size,) = struct.unpack(">i", stream.read(4))
        return decode_response(kind, version, stream.read(size))[1]


# Moving partitions


def reassign(cluster: MixedCluster, brokers: list[int], tool: Kind, topics: Collection[str] = ()) -> None:
    """Moves all partitions of these topics, or of all, to these brokers, with the tool of either side. Preferred
    leaders take turns."""
    moves = [
        {"topic": topic, "partition": index, "replicas": brokers[turn:] + brokers[:turn]}
        for topic, index in partitions_of(cluster, topics)
        for turn in [index % len(brokers)]
    ]
    path = _written(cluster.root / "plan.json", {"version": 1, "partitions": moves})
    if tool is Kind.KAFKA:
        cluster.kafka(
            "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
            "--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(path), "--execute",
        )  # fmt: skip
    else:
        cluster.cordwood("reassign", "start", "-b", cluster.bootstrap, "--from-file", str(path), "--yes")
    await_in_sync(cluster, brokers, topics)


def elect_preferred(cluster: MixedCluster, tool: Kind) -> None:
    if tool is Kind.KAFKA:
        cluster.kafka(
            "org.apache.kafka.tools.LeaderElectionCommand",
            "--bootstrap-server", cluster.bootstrap, "--election-type", "preferred", "--all-topic-partitions",
        )  # fmt: skip
    else:
        cluster.cordwood("leader", "elect", "-b", cluster.bootstrap, "--all", "--yes")


def _written(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content))
    return path


# Replicas


def assert_replicas_equal(cluster: MixedCluster, topics: Collection[str] = ()) -> int:
    """Asserts that all replicas of each partition are in sync, and have the same bytes up to its high watermark, while
    they are written to. Returns how many batches were compared."""
    await_in_sync(cluster, topics=topics)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "ends", "log_level": 0})
    compared = 0
    for (topic, index), state in partitions_of(cluster, topics).items():
        _, high_watermark = consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=_TIMEOUT_S)
        directories = [cluster.nodes[node_id].data / f"{topic}-{index}" for node_id in state.replicas]
        if high_watermark:
            compared += assert_equal_replicas(directories, high_watermark)
    consumer.close()
    return compared


# The quorum


@contextmanager
def connected(cluster: MixedCluster) -> Iterator[cordwood.Admin]:
    with cordwood.Admin(bootstrap_servers=cluster.bootstrap) as client:
        yield client


def quorum(cluster: MixedCluster) -> Quorum:
    with connected(cluster) as client:
        return client.describe_metadata_quorum()


def quorum_leader(cluster: MixedCluster) -> int:
    """The node that leads the quorum, once there is one."""
    until(lambda: quorum(cluster).leader in cluster.nodes)
    return quorum(cluster).leader


def voters(cluster: MixedCluster) -> set[int]:
    return {voter.id for voter in quorum(cluster).voters}


def metadata_high_watermark(cluster: MixedCluster) -> int:
    """The quorum's high watermark, once all members have reached it."""
    high_watermark = quorum(cluster).high_watermark

    def have_reached_it() -> bool:
        found = quorum(cluster)
        # A retired controller whose id was given to another one stays for a while, too.
        reached = {
            replica.id for replica in (*found.voters, *found.observers) if replica.log_end_offset >= high_watermark
        }
        return reached >= set(cluster.nodes)

    until(have_reached_it)
    return high_watermark


def assert_metadata_logs_equal(cluster: MixedCluster) -> int:
    """Asserts that the metadata logs of all nodes have the same bytes up to the high watermark. Returns how many
    batches were compared."""
    high_watermark = metadata_high_watermark(cluster)
    compared = assert_equal_replicas([node.metadata for node in cluster.nodes.values()], high_watermark)
    assert compared > 0
    return compared
